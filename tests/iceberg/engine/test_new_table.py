import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.json import Json, encode
from arco.iceberg.engine.metadata import encode_metadata
from arco.iceberg.engine.new_table import new_table
from tests.iceberg.engine.sample_metadata import (
    CREATED_MS,
    LOCATION,
    ORDERS,
    UUID,
    column,
    order,
    parse_metadata,
    partition,
    request,
    sort,
    spec,
    struct,
    table,
)
from tests.iceberg.engine.test_requirement import JUNK


def test_a_new_table_is_of_version_2_and_empty() -> None:
    metadata = new_table(request(), table_uuid=UUID, location=f"{LOCATION}/", now_ms=CREATED_MS)
    assert metadata == {
        "format-version": 2,
        "table-uuid": UUID,
        "location": LOCATION,
        "last-sequence-number": 0,
        "last-updated-ms": CREATED_MS,
        "last-column-id": 3,
        "current-schema-id": 0,
        "schemas": [{**ORDERS, "schema-id": 0}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def test_version_1_names_the_schema_and_the_spec_where_old_readers_look() -> None:
    metadata = table(1, partition_spec=spec(partition(3, "country")))
    assert metadata["schema"] == {**ORDERS, "schema-id": 0}
    assert metadata["partition-spec"] == [partition(3, "country", **{"field-id": 1000})]
    assert "last-sequence-number" not in metadata
    assert "schema" not in table(2)


def test_version_3_numbers_rows_from_0() -> None:
    metadata = table(3)
    assert metadata["next-row-id"] == 0
    assert metadata["current-snapshot-id"] is None
    assert "next-row-id" not in table(2)


def test_reserved_properties_are_not_stored_and_others_are() -> None:
    metadata = table(3, properties={"uuid": "x", "snapshot-count": "4", "owner": "ada"})
    assert metadata["properties"] == {"write.parquet.compression-codec": "zstd", "owner": "ada"}
    metadata = table(2, properties={"write.parquet.compression-codec": "snappy"})
    assert metadata["properties"] == {"write.parquet.compression-codec": "snappy"}


@pytest.mark.parametrize("version", ["0", "4", "-1", "two", "", "3.0", "9" * 40])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(Invalid, match="version"):
        new_table(
            request(properties={"format-version": version}),
            table_uuid=UUID,
            location=LOCATION,
            now_ms=1,
        )


def test_specs_and_orders_follow_their_columns_to_the_fresh_ids() -> None:
    sent = struct(
        column(0, "id"),
        column(7, "place", struct(column(9, "zip", "string"))),
        column(8, "at", "date"),
    )
    metadata = table(
        2,
        sent,
        partition_spec=spec(
            partition(9, "zip", "truncate[2]", **{"field-id": 1055}),
            partition(8, "m", "month", **{"field-id": 1044}),
        ),
        write_order=order(sort(9), sort(0, "bucket[4]", "desc"), **{"order-id": 17}),
    )
    assert metadata["partition-specs"] == [
        spec(
            partition(4, "zip", "truncate[2]", **{"field-id": 1000}),
            partition(3, "m", "month", **{"field-id": 1001}),
            **{"spec-id": 0},
        )
    ]
    assert metadata["last-partition-id"] == 1001
    assert metadata["sort-orders"] == [
        order(sort(4), sort(1, "bucket[4]", "desc"), **{"order-id": 1})
    ]
    assert metadata["default-sort-order-id"] == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"partition_spec": spec(partition(77, "x"))},
            "Cannot find source column for partition field: 77",
        ),
        ({"partition_spec": spec(partition(1, "id", "day"))}, "Invalid source type long"),
        ({"partition_spec": spec(partition(1, "country"))}, "sourced from different field"),
        ({"write_order": order(sort(77))}, "Cannot find source column for sort field: 77"),
        ({"properties": {"commit.retry.num-retries": "-1"}}, "non negative"),
        ({"properties": {"commit.retry.num-retries": "many"}}, "must have integer value"),
        (
            {"properties": {"write.metadata.metrics.column.nope": "full"}},
            "could not find column nope",
        ),
        (
            {"properties": {"encryption.key-id": "k"}},
            "Invalid properties for v2: encryption.key-id",
        ),
        ({"properties": {"write.metadata.previous-versions-max": "x"}}, "integer value"),
    ],
)
def test_a_request_that_cannot_be_is_refused_with_the_reason(
    more: dict[str, Json], why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        table(2, **more)  # type: ignore[arg-type]


def test_a_variant_needs_version_3() -> None:
    schema = struct(column(1, "id"), column(2, "data", "variant"))
    with pytest.raises(Invalid, match="variant is not supported until v3"):
        table(2, schema)
    assert table(3, schema)["format-version"] == 3


def test_members_that_we_do_not_know_are_kept() -> None:
    metadata = table(
        2,
        struct(column(5, "id", vendor="v"), mark=1),
        partition_spec=spec(partition(5, "id", x=1), type="struct"),
        write_order=order({**sort(5), "y": 2}, z=3),
    )
    assert metadata["schemas"] == [struct(column(1, "id", vendor="v"), mark=1, **{"schema-id": 0})]
    assert metadata["partition-specs"] == [
        spec(partition(1, "id", x=1, **{"field-id": 1000}), type="struct", **{"spec-id": 0})
    ]
    assert metadata["sort-orders"] == [order({**sort(1), "y": 2}, z=3, **{"order-id": 1})]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_made_can_be_written_and_read(version: int) -> None:
    metadata = table(version, partition_spec=spec(partition(2, "d", "day")))
    assert parse_metadata(encode_metadata(metadata)) == metadata


@given(
    st.dictionaries(st.sampled_from(["schema", "partition_spec", "write_order"]), JUNK), st.data()
)
def test_a_request_of_the_wrong_shape_is_invalid_and_never_a_crash(
    junk: dict[str, Json], data: st.DataObject
) -> None:
    parts: dict[str, Json] = {
        "schema": ORDERS,
        "partition_spec": spec(partition(2, "d", "day")),
        "write_order": order(sort(1)),
    }
    for name, value in junk.items():
        part = parts[name]
        assert isinstance(part, dict)
        key = data.draw(st.sampled_from(sorted(part)))
        parts[name] = {**part, key: value}
    before = encode(parts)
    try:
        table(2, **parts)  # type: ignore[arg-type]
    except Invalid as refusal:
        assert str(refusal)
    assert encode(parts) == before
