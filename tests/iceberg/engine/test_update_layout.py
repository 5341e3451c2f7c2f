from typing import Any

import pytest

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata
from tests.iceberg.engine.sample_metadata import (
    ORDERS,
    apply,
    column,
    order,
    partition,
    sort,
    spec,
    struct,
    table,
    update,
)

WIDER = struct(*ORDERS["fields"], column(4, "note", "string"))  # type: ignore[misc]
NARROWER = struct(column(1, "id", required=True), column(2, "placed_at", "timestamptz"))


def add_schema(schema: Json, **more: Any) -> Json:
    return update("add-schema", schema=schema, **more)


def use_schema(schema_id: int) -> Json:
    return update("set-current-schema", schema_id=schema_id)


def add_spec(*fields: dict[str, Json], **more: Any) -> Json:
    return update("add-spec", spec=spec(*fields, **more))


def use_spec(spec_id: int) -> Json:
    return update("set-default-spec", spec_id=spec_id)


def add_order(*fields: dict[str, Json], **more: Any) -> Json:
    return update("add-sort-order", sort_order=order(*fields, **more))


def use_order(order_id: int) -> Json:
    return update("set-default-sort-order", sort_order_id=order_id)


def ids(metadata: Metadata, key: str, id_key: str) -> list[Json]:
    entries = metadata[key]
    assert isinstance(entries, list)
    return [each[id_key] for each in entries if isinstance(each, dict)]


def test_a_schema_gets_the_next_id_whatever_the_client_says() -> None:
    metadata = apply(table(), add_schema({**WIDER, "schema-id": 42}), use_schema(-1))
    assert ids(metadata, "schemas", "schema-id") == [0, 1]
    assert (metadata["current-schema-id"], metadata["last-column-id"]) == (1, 4)
    repeated_metadata = apply(metadata, add_schema({**NARROWER, "schema-id": 0}))
    assert ids(repeated_metadata, "schemas", "schema-id") == [0, 1, 2]
    assert (repeated_metadata["current-schema-id"], repeated_metadata["last-column-id"]) == (1, 4)


def test_the_next_id_is_above_the_highest_even_if_schemas_were_removed() -> None:
    metadata = apply(table(), add_schema(WIDER), add_schema(NARROWER), use_schema(-1))
    metadata = apply(metadata, update("remove-schemas", schema_ids=[0, 1, 77]))
    assert ids(metadata, "schemas", "schema-id") == [2]
    assert ids(apply(metadata, add_schema(WIDER)), "schemas", "schema-id") == [2, 3]


def test_the_next_id_is_above_the_highest_in_whatever_order_schemas_stand() -> None:
    base: Metadata = {
        **table(),
        "schemas": [{**ORDERS, "schema-id": 7}, {**NARROWER, "schema-id": 2}],
        "current-schema-id": 2,
    }
    assert ids(apply(base, add_schema(WIDER)), "schemas", "schema-id") == [7, 2, 8]


def test_an_equal_existing_schema_is_used_for_the_added_one() -> None:
    metadata = apply(table(), add_schema(WIDER), use_schema(-1))
    back = apply(metadata, add_schema({**ORDERS, "schema-id": 9}), use_schema(-1))
    assert ids(back, "schemas", "schema-id") == [0, 1]
    assert back["current-schema-id"] == 0


def test_minus_1_is_the_schema_added_last_in_this_commit() -> None:
    metadata = apply(
        table(), add_schema(WIDER), add_schema(NARROWER), add_schema(WIDER), use_schema(-1)
    )
    assert metadata["current-schema-id"] == 1
    with pytest.raises(Invalid, match="Cannot set last added schema: no schema has been added"):
        apply(metadata, use_schema(-1))


def test_the_last_column_id_never_shrinks() -> None:
    metadata = apply(
        table(), add_schema(struct(column(50, "id"))), add_schema(struct(column(2, "x")))
    )
    assert metadata["last-column-id"] == 50


def test_an_unknown_schema_cannot_be_current_and_the_current_one_not_removed() -> None:
    with pytest.raises(Invalid, match="Cannot set current schema to unknown schema: 5"):
        apply(table(), use_schema(5))
    with pytest.raises(Invalid, match="Cannot remove the current schema"):
        apply(table(), update("remove-schemas", schema_ids=[3, 0]))


def test_a_schema_of_version_3_is_refused_before_it_and_taken_after_an_upgrade() -> None:
    schema = struct(column(1, "id"), column(4, "data", "variant"))
    with pytest.raises(Invalid, match="variant is not supported until v3"):
        apply(table(2), add_schema(schema))
    apply(table(2), update("upgrade-format-version", format_version=3), add_schema(schema))


def test_a_new_current_schema_must_suit_the_default_spec_and_order() -> None:
    partitioned = table(partition_spec=spec(partition(3, "country")))
    with pytest.raises(Invalid, match="Cannot find source column for partition field: country"):
        apply(partitioned, add_schema(NARROWER), use_schema(-1))
    sorted_one = table(write_order=order(sort(3)))
    with pytest.raises(Invalid, match="Cannot find source column for sort field: 3"):
        apply(sorted_one, add_schema(NARROWER), use_schema(-1))
    metadata = apply(partitioned, add_schema(NARROWER), use_schema(-1), add_spec(), use_spec(-1))
    assert (metadata["current-schema-id"], metadata["default-spec-id"]) == (1, 1)


def test_a_column_may_not_take_the_name_of_a_partition_field() -> None:
    base = table(partition_spec=spec(partition(3, "note", "bucket[4]")))
    base = apply(base, add_spec(), use_spec(-1))  # an old spec counts too
    with pytest.raises(Invalid, match="sourced from different field in schema: note"):
        apply(base, add_schema(WIDER), use_schema(-1))


def test_a_spec_gets_the_next_id_and_reuses_that_of_an_equal_one() -> None:
    day = partition(2, "d", "day", **{"field-id": 1000})
    metadata = apply(table(), add_spec(day, **{"spec-id": 7}), use_spec(-1))
    assert ids(metadata, "partition-specs", "spec-id") == [0, 1]
    assert (metadata["default-spec-id"], metadata["last-partition-id"]) == (1, 1000)
    back = apply(metadata, add_spec(), use_spec(-1))
    assert ids(back, "partition-specs", "spec-id") == [0, 1]
    assert back["default-spec-id"] == 0
    same = apply(back, add_spec({**day, "field-id": 1005}), use_spec(-1))
    assert same["partition-specs"] == metadata["partition-specs"]
    assert (same["default-spec-id"], same["last-partition-id"]) == (1, 1000)


def test_partition_fields_without_ids_are_numbered_after_the_last() -> None:
    metadata = apply(
        table(),
        add_spec(partition(2, "d", "day")),
        add_spec(partition(3, "c"), partition(2, "e", "day")),
    )
    assert metadata["partition-specs"] == [
        spec(**{"spec-id": 0}),
        spec(partition(2, "d", "day", **{"field-id": 1000}), **{"spec-id": 1}),
        spec(
            partition(3, "c", **{"field-id": 1001}),
            partition(2, "e", "day", **{"field-id": 1000}),
            **{"spec-id": 2},
        ),
    ]  # fmt: skip
    assert metadata["last-partition-id"] == 1001


def test_the_last_partition_id_never_shrinks() -> None:
    base = apply(table(), add_spec(partition(2, "d", "day", **{"field-id": 1007})))
    metadata = apply(base, add_spec(partition(3, "c", **{"field-id": 1002})))
    assert metadata["last-partition-id"] == 1007


def test_a_wrong_spec_is_refused() -> None:
    for field, why in (
        (partition(9, "x"), "Cannot find source column"),
        (partition(1, "country"), "sourced from different field"),
        (partition(1, "x", "hour"), "Invalid source type long"),
    ):
        with pytest.raises(Invalid, match=why):
            apply(table(), add_spec(field))


def test_specs_of_version_1_count_from_1000() -> None:
    apply(table(1), add_spec(partition(2, "d", "day"), partition(3, "c")))
    with pytest.raises(Invalid, match="sequential IDs"):
        apply(table(1), add_spec(partition(2, "d", "day", **{"field-id": 1001})))


def test_version_1_keeps_the_old_places_in_step() -> None:
    metadata = apply(
        table(1), add_schema(WIDER), use_schema(-1), add_spec(partition(4, "note")), use_spec(-1)
    )
    assert metadata["schema"] == {**WIDER, "schema-id": 1}
    assert metadata["partition-spec"] == [partition(4, "note", **{"field-id": 1000})]


def test_default_specs_must_be_there_and_stay() -> None:
    with pytest.raises(Invalid, match="unknown spec: 4"):
        apply(table(), use_spec(4))
    with pytest.raises(Invalid, match="Cannot set last added spec: no spec has been added"):
        apply(table(), use_spec(-1))
    with pytest.raises(Invalid, match="Cannot remove the default partition spec"):
        apply(table(), update("remove-partition-specs", spec_ids=[0]))
    metadata = apply(table(), add_spec(partition(3, "c")), use_spec(-1))
    remaining = apply(metadata, update("remove-partition-specs", spec_ids=[0, 8]))
    assert ids(remaining, "partition-specs", "spec-id") == [1]
    with pytest.raises(Invalid, match="unknown spec: 0"):
        apply(remaining, use_spec(0))


def test_a_sort_order_gets_the_next_id_and_reuses_that_of_an_equal_one() -> None:
    metadata = apply(
        table(), add_order(sort(1), **{"order-id": 9}), add_order(sort(2)), use_order(-1)
    )
    assert ids(metadata, "sort-orders", "order-id") == [0, 1, 2]
    assert metadata["default-sort-order-id"] == 2
    repeated_metadata = apply(metadata, add_order(sort(1), **{"order-id": 5}), use_order(-1))
    assert ids(repeated_metadata, "sort-orders", "order-id") == [0, 1, 2]
    assert repeated_metadata["default-sort-order-id"] == 1
    none = apply(repeated_metadata, add_order(), use_order(-1))
    assert none["default-sort-order-id"] == 0
    assert none["sort-orders"] == repeated_metadata["sort-orders"]


def test_the_unsorted_order_is_0_even_if_it_comes_late() -> None:
    base = table(write_order=order(sort(1)))
    assert ids(base, "sort-orders", "order-id") == [1]
    metadata = apply(base, add_order(), use_order(-1))
    assert ids(metadata, "sort-orders", "order-id") == [1, 0]
    assert metadata["default-sort-order-id"] == 0


def test_a_wrong_sort_order_is_refused() -> None:
    for updates, why in (
        ([add_order(sort(9))], "Cannot find source column for sort field: 9"),
        ([add_order(sort(1, "day"))], "Invalid source type long"),
        ([use_order(3)], "unknown sort order: 3"),
        ([use_order(-1)], "Cannot set last added sort order: no sort order has been added"),
    ):
        with pytest.raises(Invalid, match=why):
            apply(table(), *updates)
