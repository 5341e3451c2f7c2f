import pytest

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.schema import index_schema, read_schema
from arco.iceberg.engine.sort_order import check_sources, order_fingerprint, read_order
from tests.iceberg.engine.sample_metadata import column, list_of, order, sort, struct

SCHEMA = index_schema(
    read_schema(
        struct(column(1, "id"), column(2, "l", list_of(3, "string")), column(4, "v", "variant"))
    )
)


def test_an_order_has_one_spelling_and_keeps_what_it_does_not_know() -> None:
    sent = order({**sort(1, "BUCKET[3]", "DESC"), "null-order": "Nulls-Last", "x": 1}, y=[2])
    assert read_order(sent) == order({**sort(1, "bucket[3]", "desc"), "x": 1}, y=[2])


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (None, "the sort order must be an object"),
        ({"order-id": 0}, "the sort order lacks fields"),
        (order({"transform": "day"}), "a sort field lacks source-id"),
        (order({**sort(1), "transform": 4}), "transform of a sort field must be a string"),
        (order(sort(1, direction="up")), "Invalid sort direction: up"),
        (order({**sort(1), "null-order": "first"}), "Unexpected null order: first"),
        (order(**{"order-id": 3}), "Unsorted order ID must be 0"),
        (order(sort(1), **{"order-id": 0}), "Sort order ID 0 is reserved"),
        (order(sort(1), **{"order-id": True}), "order-id of the sort order must be a whole number"),
    ],
)
def test_a_wrong_order_is_refused_with_the_reason(sent: Json, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read_order(sent)


def test_a_field_needs_a_column_that_fits() -> None:
    check_sources(order(sort(1), sort(3, "truncate[2]")), SCHEMA)
    for source, transform, why in (
        (9, "identity", "Cannot find source column for sort field: 9"),
        (2, "identity", "Cannot sort by non-primitive source field: l: list"),
        (4, "identity", "Cannot sort by non-primitive source field: v: variant"),
        (1, "Day", "Invalid source type long for transform: day"),
    ):
        with pytest.raises(Invalid, match=why):
            check_sources(order(sort(source, transform)), SCHEMA)


def test_orders_are_the_same_whatever_their_ids() -> None:
    one = order(sort(1, "DAY"), sort(2), **{"order-id": 4})
    same = order(sort(1, "day"), {**sort(2), "x": 1}, **{"order-id": 1})
    assert order_fingerprint(one) == order_fingerprint(same)
    for other in (
        order(sort(2), sort(1, "day")),
        order(sort(1, "day")),
        order(sort(1, "day"), sort(2, direction="desc")),
        order(sort(1, "day"), {**sort(2), "null-order": "nulls-last"}),
        order(),
    ):
        assert order_fingerprint(one) != order_fingerprint(other)
