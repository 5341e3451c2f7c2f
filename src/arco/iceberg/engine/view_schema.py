"""The schemas of a view: what its versions result in. Two that say the same are one."""

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.shape import Object

_TYPES = frozenset({"type", "element", "key", "value"})


def read_view_schema(value: Json) -> Object:
    """The schema, if the catalog can list its columns; its own number may be missing."""
    schema = shape.without_nulls(
        shape.as_object(value, "the schema"), "schema-id", "identifier-field-ids"
    )
    if schema_id(schema) < 0:
        raise Invalid("schema-id of the schema is negative")
    _identifiers(schema)
    columns_of(schema)
    return schema


def schema_id(schema: Object) -> int:
    """The number of a schema; one that was never given a number is the first."""
    return shape.maybe_integer(schema, "schema-id", "the schema") or 0


def same_view_schema(one: Object, other: Object) -> bool:
    """Whether two schemas are the same but for their numbers and for how they are spelt."""
    return _identifiers(one) == _identifiers(other) and _spelt(_rest(one)) == _spelt(_rest(other))


def _identifiers(schema: Object) -> set[int]:
    if schema.get("identifier-field-ids") is None:
        return set()
    found = shape.array(schema, "identifier-field-ids", "the schema")
    return {shape.as_int(each, "each of identifier-field-ids") for each in found}


def _rest(schema: Object) -> Object:
    apart = {"schema-id", "identifier-field-ids"}
    return {key: value for key, value in schema.items() if key not in apart}


def _spelt(value: Json) -> Json:
    """`value` without nulls, which say no more than nothing, and types without their blanks."""
    if isinstance(value, list):
        return [_spelt(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each.replace(" ", "") if isinstance(each, str) and key in _TYPES else _spelt(each)
        for key, each in value.items()
        if each is not None
    }
