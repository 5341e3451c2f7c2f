"""Sort orders: validity for a schema, and equality. Order 0 is the unsorted one."""

from arco.core.errors import Invalid
from arco.core.json import Json, encode
from arco.iceberg.engine import shape
from arco.iceberg.engine.field_type import is_primitive, type_name
from arco.iceberg.engine.partition_spec import check_source, read_transform
from arco.iceberg.engine.schema import SchemaIndex
from arco.iceberg.engine.shape import Object

UNSORTED_ID = 0
FIRST_ID = 1

_DIRECTIONS = frozenset({"asc", "desc"})
_NULL_ORDERS = frozenset({"nulls-first", "nulls-last"})


def read_order(value: Json) -> Object:
    """`value` as a normalized sort order, not yet checked with a schema."""
    order = shape.without_nulls(shape.as_object(value, "the sort order"), "order-id")
    order_id = shape.maybe_integer(order, "order-id", "the sort order")
    fields = [_read_field(each) for each in shape.objects(order, "fields", "the sort order")]
    if not fields and order_id not in {None, UNSORTED_ID}:
        raise Invalid("Unsorted order ID must be 0")
    if fields and order_id == UNSORTED_ID:
        raise Invalid("Sort order ID 0 is reserved for unsorted order")
    return {**order, "fields": [*fields]}


def _read_field(field: Object) -> Object:
    shape.integer(field, "source-id", "a sort field")
    transform = read_transform(shape.text(field, "transform", "a sort field"))
    direction = shape.text(field, "direction", "a sort field").lower()
    if direction not in _DIRECTIONS:
        raise Invalid(f"Invalid sort direction: {direction}")
    null_order = shape.text(field, "null-order", "a sort field").lower()
    if null_order not in _NULL_ORDERS:
        raise Invalid(f"Unexpected null order: {null_order}")
    return {**field, "transform": transform, "direction": direction, "null-order": null_order}


def fields_of(order: Object) -> list[Object]:
    """The fields of an order."""
    return shape.objects(order, "fields", "a sort order")


def check_sources(order: Object, index: SchemaIndex) -> None:
    """Check that each sort field has an existing column that fits its transform."""
    for each in fields_of(order):
        source = shape.integer(each, "source-id", "a sort field")
        column = index.fields.get(source)
        if column is None:
            raise Invalid(f"Cannot find source column for sort field: {source}")
        if not is_primitive(column.kind):
            raise Invalid(
                f"Cannot sort by non-primitive source field: {column.path}: {type_name(column.kind)}"
            )
        check_source(read_transform(shape.text(each, "transform", "a sort field")), column.kind)


def order_fingerprint(order: Object) -> bytes:
    """A fingerprint of a sort order without its id: equal for orders that sort alike."""
    members = ("source-id", "direction", "null-order")
    return encode(
        [
            (read_transform(str(each.get("transform"))), *(each.get(key) for key in members))
            for each in fields_of(order)
        ]
    )
