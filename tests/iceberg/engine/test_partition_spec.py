import pytest

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.partition_spec import (
    check_names,
    check_sequential,
    check_source,
    check_sources,
    last_field_id,
    read_spec,
    read_transform,
    spec_fingerprint,
    with_field_ids,
)
from arco.iceberg.engine.schema import index_schema, read_schema
from tests.iceberg.engine.sample_metadata import column, list_of, map_of, partition, spec, struct

SCHEMA = index_schema(
    read_schema(
        struct(
            column(1, "id"),
            column(2, "at", "timestamptz"),
            column(3, "day", "date"),
            column(4, "address", struct(column(5, "zip", "string"))),
            column(6, "tags", list_of(7, "string")),
            column(8, "marks", map_of(9, "string", 10, struct(column(11, "v", "int")))),
            column(12, "data", "variant"),
            column(13, "place", "geometry"),
            column(14, "price", "double"),
        )
    )
)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("Identity", "identity"),
        ("VOID", "void"),
        ("Bucket[16]", "bucket[16]"),
        ("truncate[007]", "truncate[7]"),
        ("zorder", "zorder"),
        ("bucket", "bucket"),
        ("Custom[3]", "Custom[3]"),
    ],
)
def test_a_transform_has_one_spelling_and_a_strange_one_is_let_be(sent: str, stored: str) -> None:
    assert read_transform(sent) == stored


@pytest.mark.parametrize(
    "text", ["bucket[0]", "truncate[0]", "bucket[2147483648]", f"bucket[{'9' * 5000}]"]
)
def test_a_width_is_a_positive_number_of_32_bits(text: str) -> None:
    with pytest.raises(Invalid, match="width"):
        read_transform(text)


@pytest.mark.parametrize(
    ("transform", "fits", "fails"),
    [
        (
            "identity",
            ["int", "double", "unknown", "fixed[3]"],
            ["variant", "geometry", "geography"],
        ),
        ("bucket[4]", ["int", "time", "uuid", "fixed[3]", "decimal(9, 2)"], ["double", "boolean"]),
        ("truncate[4]", ["long", "string", "binary", "decimal(9, 2)"], ["date", "uuid", "float"]),
        ("year", ["date", "timestamp", "timestamptz_ns"], ["int", "time", "string"]),
        ("month", ["date", "timestamptz"], ["long"]),
        ("day", ["date", "timestamp_ns"], ["string"]),
        ("hour", ["timestamp", "timestamptz_ns"], ["date", "time"]),
        ("void", ["double", "variant"], []),
        ("zorder", ["double"], []),
    ],
)
def test_a_transform_takes_only_types_that_it_can_read(
    transform: str, fits: list[str], fails: list[str]
) -> None:
    for kind in fits:
        check_source(transform, kind)
    for kind in fails:
        with pytest.raises(Invalid, match=f"Invalid source type {kind}"):
            check_source(transform, kind)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("x", "the partition spec must be an object"),
        ({}, "the partition spec lacks fields"),
        ({"fields": {}}, "must be an array"),
        ({"fields": [1]}, "each of fields"),
        (spec({"name": "a", "transform": "day"}), "partition field a lacks source-id"),
        (spec({"name": "a", "source-id": 1}), "partition field a lacks transform"),
        (spec({"source-id": 1, "transform": "day"}), "a partition field lacks name"),
        (spec(partition(1, "a", **{"field-id": "x"})), "field-id of partition field a"),
        (spec(**{"spec-id": 1.5}), "spec-id of the partition spec"),
        (
            spec(partition(1, "a", **{"field-id": 1000}), partition(2, "b")),
            "missing field IDs: 1 missing of 2 fields",
        ),
        (
            spec(partition(1, "a", **{"field-id": 1000}), partition(2, "b", **{"field-id": 1000})),
            "more than once",
        ),
    ],
)
def test_a_wrong_spec_is_refused_with_the_reason(sent: Json, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read_spec(sent)


@pytest.mark.parametrize(
    ("source", "transform", "why"),
    [
        (99, "identity", "Cannot find source column"),
        (4, "identity", "non-primitive source field: address: struct"),
        (12, "identity", "non-primitive source field: data: variant"),
        (7, "identity", "Invalid partition field parent: tags: list"),
        (9, "bucket[4]", "Invalid partition field parent: marks: map"),
        (11, "bucket[4]", "Invalid partition field parent: marks: map"),
        (3, "hour", "Invalid source type date for transform: hour"),
        (14, "bucket[4]", "Invalid source type double"),
    ],
)
def test_a_field_needs_a_column_that_fits(source: int, transform: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        check_sources(read_spec(spec(partition(source, "p", transform))), SCHEMA)


def test_a_column_in_structs_fits_and_a_void_field_needs_none() -> None:
    check_sources(read_spec(spec(partition(5, "zip"), partition(99, "gone", "Void"))), SCHEMA)


def test_a_partition_field_may_bear_the_name_of_its_own_column_alone() -> None:
    check_names(spec(partition(1, "id"), partition(2, "at_day", "day")), SCHEMA)
    check_names(spec(partition(99, "id", "void")), SCHEMA)  # its column is gone: it is history
    with pytest.raises(Invalid, match="sourced from different field in schema: id"):
        check_names(spec(partition(2, "id", "day")), SCHEMA)
    with pytest.raises(Invalid, match=r"sourced from different field in schema: address\.zip"):
        check_names(spec(partition(2, "address.zip", "day")), SCHEMA)


def test_partition_names_are_unique_and_not_empty() -> None:
    with pytest.raises(Invalid, match="more than once: p"):
        check_names(spec(partition(1, "p"), partition(2, "p", "day")), SCHEMA)
    with pytest.raises(Invalid, match="empty partition name"):
        check_names(spec(partition(1, "")), SCHEMA)


def test_specs_are_the_same_whatever_their_ids() -> None:
    one = spec(partition(1, "p", "BUCKET[4]", **{"field-id": 1000}), **{"spec-id": 3})
    same = spec(partition(1, "p", "bucket[4]", **{"field-id": 1007}), **{"spec-id": 0})
    assert spec_fingerprint(one) == spec_fingerprint(same)
    for other in (
        spec(partition(2, "p", "bucket[4]")),
        spec(partition(1, "q", "bucket[4]")),
        spec(partition(1, "p", "bucket[5]")),
        spec(),
        spec(partition(1, "p", "bucket[4]"), partition(2, "q", "day")),
    ):
        assert spec_fingerprint(one) != spec_fingerprint(other)


def test_fields_without_ids_get_new_ones_or_those_of_the_same_field_before() -> None:
    old = [
        spec(partition(1, "a", "bucket[4]", **{"field-id": 1000})),
        spec(
            partition(2, "b", "day", **{"field-id": 1001}), partition(3, "c", **{"field-id": 1002})
        ),
    ]
    sent = spec(partition(3, "x"), partition(2, "y", "day"), partition(1, "z", "bucket[8]"))
    assert with_field_ids(sent, old, 1005, 2)["fields"] == [
        partition(3, "x", **{"field-id": 1002}),
        partition(2, "y", "day", **{"field-id": 1001}),
        partition(1, "z", "bucket[8]", **{"field-id": 1006}),
    ]
    assert [each["field-id"] for each in with_field_ids(sent, old, 1005, 1)["fields"]] == [  # type: ignore[union-attr,index,call-overload]
        1000,
        1001,
        1002,
    ]


def test_two_equal_fields_of_a_spec_do_not_share_an_id() -> None:
    old = [spec(partition(1, "a", "bucket[4]", **{"field-id": 1000}))]
    twice = spec(partition(1, "x", "bucket[4]"), partition(1, "y", "bucket[4]"))
    assert last_field_id([with_field_ids(twice, old, 1000, 2)]) == 1001


def test_ids_that_the_client_gave_are_kept() -> None:
    sent = spec(partition(1, "a", **{"field-id": 1042}))
    assert with_field_ids(sent, [], 999, 2) == sent


def test_version_1_numbers_without_a_gap() -> None:
    check_sequential(
        spec(partition(1, "a", **{"field-id": 1000}), partition(2, "b", **{"field-id": 1001}))
    )
    with pytest.raises(Invalid, match="sequential IDs"):
        check_sequential(spec(partition(1, "a", **{"field-id": 1001})))


def test_the_last_id_of_no_field_is_999() -> None:
    assert last_field_id([spec()]) == 999
    assert last_field_id([spec(partition(1, "a", **{"field-id": 1004})), spec()]) == 1004
