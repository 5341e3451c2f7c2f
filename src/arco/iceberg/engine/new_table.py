"""The first metadata of a table that is created by one request.

All field ids are assigned again, in Iceberg's order: all fields of a struct before their nested fields,
a key and a value before their types. Clients that create a table in several steps rely on it.
"""

from collections.abc import Callable

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import partition_spec, shape, sort_order
from arco.iceberg.engine.draft import DEFAULT_VERSION
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.schema import SchemaIndex, identifiers, index_schema, read_schema
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.table import FORMAT_VERSION, NEW_TABLE, RESERVED, check_new, read_number
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.wire import CreateTableRequest


def new_table(
    request: CreateTableRequest, *, table_uuid: str, location: str, now_ms: int
) -> Metadata:
    """The metadata of the table that `request` describes."""
    try:
        return _new_table(request, table_uuid, location, now_ms)
    except RecursionError as problem:
        raise Invalid("the request is nested too deeply") from problem


def _new_table(
    request: CreateTableRequest, table_uuid: str, location: str, now_ms: int
) -> Metadata:
    sent_properties = request.properties or {}
    version = read_number(sent_properties, FORMAT_VERSION, DEFAULT_VERSION)
    sent = read_schema(request.schema)
    schema = with_fresh_ids(sent)
    old, new = index_schema(sent), index_schema(schema)
    properties = {key: value for key, value in sent_properties.items() if key not in RESERVED}
    check_new(properties, new, version)
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": table_uuid},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": _fresh_spec(request.partition_spec, old, new)},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": _fresh_order(request.write_order, old, new)},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {**NEW_TABLE, **properties}},
    ]
    return apply_updates(None, updates, now_ms=now_ms, previous_location=None)


def _fresh_spec(sent: Object | None, old: SchemaIndex, new: SchemaIndex) -> Object:
    """The spec with the new ids of its columns, and without field ids: they are assigned again."""
    spec = partition_spec.read_spec(sent or {"fields": []})
    fields: list[Json] = []
    for each in partition_spec.fields_of(spec):
        new_field = {key: value for key, value in each.items() if key != "field-id"}
        fields.append({**new_field, "source-id": _fresh_source(each, old, new, "partition")})
    return {**spec, "spec-id": 0, "fields": fields}


def _fresh_order(sent: Object | None, old: SchemaIndex, new: SchemaIndex) -> Object:
    order = sort_order.read_order(sent or {"fields": []})
    fields: list[Json] = [
        {**each, "source-id": _fresh_source(each, old, new, "sort")}
        for each in sort_order.fields_of(order)
    ]
    order_id = sort_order.FIRST_ID if fields else sort_order.UNSORTED_ID
    return {**order, "order-id": order_id, "fields": fields}


def _fresh_source(each: Object, old: SchemaIndex, new: SchemaIndex, label: str) -> int:
    source = shape.integer(each, "source-id", f"a {label} field")
    if source not in old.fields:
        raise Invalid(f"Cannot find source column for {label} field: {source}")
    return new.paths[old.fields[source].path]


def with_fresh_ids(schema: Object) -> Object:
    """`schema` as the first of a new table: id 0, field ids from 1, level by level."""
    last_id = 0

    def next_id() -> int:
        nonlocal last_id
        last_id += 1
        return last_id

    old = index_schema(schema)
    fresh: Object = {**schema, "schema-id": 0, "fields": _renumber(schema, next_id)}
    identifier_paths = [old.fields[each].path for each in sorted(identifiers(schema))]
    if identifier_paths:
        paths = index_schema(fresh).paths
        fresh["identifier-field-ids"] = [paths[path] for path in identifier_paths]
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
