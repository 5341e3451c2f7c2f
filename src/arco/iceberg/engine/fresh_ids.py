"""Fresh ids for the schema of a new table: whatever the client numbered, we number again.

The order is Iceberg's: all fields of a struct before what is nested in them, a key and a value before
their types. Clients that make a table in several steps rely on it.
"""

from collections.abc import Callable

from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.schema import identifiers, index_schema
from arco.iceberg.engine.shape import Object


def with_fresh_ids(schema: Object) -> Object:
    """`schema` as the first of a new table: id 0, fields numbered from 1, a level before the next."""
    last = 0

    def next_id() -> int:
        nonlocal last
        last += 1
        return last

    old = index_schema(schema)
    fresh: Object = {**schema, "schema-id": 0, "fields": _renumber(schema, next_id)}
    named = [old.fields[each].path for each in sorted(identifiers(schema))]
    if named:
        paths = index_schema(fresh).paths
        fresh["identifier-field-ids"] = [paths[path] for path in named]
    return fresh


def _renumber(struct: Object, next_id: Callable[[], int]) -> list[Json]:
    fields = shape.objects(struct, "fields", "a struct")
    ids = [next_id() for _ in fields]
    return [
        {**each, "id": field_id, "type": _renumber_type(each.get("type"), next_id)}
        for each, field_id in zip(fields, ids, strict=True)
    ]


def _renumber_type(kind: Json, next_id: Callable[[], int]) -> Json:
    if not isinstance(kind, dict):
        return kind
    if kind.get("type") == "struct":
        return {**kind, "fields": _renumber(kind, next_id)}
    if kind.get("type") == "list":
        element_id = next_id()
        return {
            **kind,
            "element-id": element_id,
            "element": _renumber_type(kind.get("element"), next_id),
        }
    key_id, value_id = next_id(), next_id()
    key = _renumber_type(kind.get("key"), next_id)
    value = _renumber_type(kind.get("value"), next_id)
    return {**kind, "key-id": key_id, "value-id": value_id, "key": key, "value": value}
