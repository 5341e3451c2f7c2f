"""Updates of a table's layout: its schemas, partition specs and sort orders.

An addition gets the next id of its kind, or the id of an existing one with the same meaning. An id of
-1 means the one that was added last in the same commit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.iceberg.engine import shape
from arco.iceberg.engine.draft import TableDraft
from arco.iceberg.engine.partition_spec import (
    check_names,
    check_sequential,
    last_field_id,
    read_spec,
    spec_fingerprint,
    with_field_ids,
)
from arco.iceberg.engine.partition_spec import check_sources as check_spec_sources
from arco.iceberg.engine.schema import check_version, index_schema, read_schema, schema_fingerprint
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.sort_order import FIRST_ID, UNSORTED_ID, order_fingerprint, read_order
from arco.iceberg.engine.sort_order import check_sources as check_order_sources
from arco.iceberg.engine.sort_order import fields_of as order_fields

LAST_ADDED = -1


@dataclass(frozen=True)
class _LayoutList:
    """One of the lists: its key, the key of its ids, and the fingerprint of its items."""

    key: str
    id_key: str
    fingerprint: Callable[[Object], bytes]


_SCHEMAS = _LayoutList("schemas", "schema-id", schema_fingerprint)
_SPECS = _LayoutList("partition-specs", "spec-id", spec_fingerprint)
_ORDERS = _LayoutList("sort-orders", "order-id", order_fingerprint)


def add_schema(draft: TableDraft, update: Object) -> None:
    """Add a schema; `set-current-schema` makes it current."""
    schema = read_schema(shape.obj(update, "schema", "add-schema"))
    index = index_schema(schema)
    check_version(index, draft.format_version)
    if index.highest > draft.number("last-column-id"):
        draft.put("last-column-id", index.highest)
    next_id = _next_id(draft, _SCHEMAS, draft.number("current-schema-id"))
    draft.last_schema_id = _add(draft, _SCHEMAS, schema, next_id)


def set_current_schema(draft: TableDraft, update: Object) -> None:
    """Make a schema current; the names of all partition fields must be valid with it."""
    schema_id = shape.integer(update, "schema-id", "set-current-schema")
    if schema_id == LAST_ADDED:
        schema_id = _last_added(draft.last_schema_id, "schema")
    if schema_id == draft.number("current-schema-id"):
        return
    schema = draft.schema(schema_id)
    if schema is None:
        raise Invalid(f"Cannot set current schema to unknown schema: {schema_id}")
    index = index_schema(schema)
    for spec in draft.objects("partition-specs"):
        check_names(spec, index)
    draft.put("current-schema-id", schema_id)
    draft.layout_changed = True


def remove_schemas(draft: TableDraft, update: Object) -> None:
    """Remove schemas, but never the current one."""
    ids = _ids(update, "schema-ids", "remove-schemas")
    if draft.number("current-schema-id") in ids:
        raise Invalid("Cannot remove the current schema")
    _drop(draft, "schemas", "schema-id", ids)


def add_spec(draft: TableDraft, update: Object) -> None:
    """Add a partition spec for the current schema."""
    spec = read_spec(shape.obj(update, "spec", "add-spec"))
    specs = draft.objects("partition-specs")
    last_id = max(draft.number("last-partition-id"), last_field_id(specs))
    spec = with_field_ids(spec, specs, last_id, draft.format_version)
    index = index_schema(draft.current_schema())
    check_names(spec, index)
    check_spec_sources(spec, index)
    next_id = _next_id(draft, _SPECS, 0)
    draft.last_spec_id = _add(draft, _SPECS, spec, next_id)
    if draft.last_spec_id != next_id:
        return
    if draft.format_version == 1:
        check_sequential(spec)
    draft.put("last-partition-id", max(last_id, last_field_id([spec])))


def set_default_spec(draft: TableDraft, update: Object) -> None:
    """Make a spec the default of writers."""
    spec_id = shape.integer(update, "spec-id", "set-default-spec")
    if spec_id == LAST_ADDED:
        spec_id = _last_added(draft.last_spec_id, "spec")
    if spec_id == draft.number("default-spec-id"):
        return
    if draft.spec(spec_id) is None:
        raise Invalid(f"Cannot set default partition spec to unknown spec: {spec_id}")
    draft.put("default-spec-id", spec_id)
    draft.layout_changed = True


def remove_partition_specs(draft: TableDraft, update: Object) -> None:
    """Remove partition specs, but never the default one."""
    ids = _ids(update, "spec-ids", "remove-partition-specs")
    if draft.number("default-spec-id") in ids:
        raise Invalid("Cannot remove the default partition spec")
    _drop(draft, "partition-specs", "spec-id", ids)


def add_sort_order(draft: TableDraft, update: Object) -> None:
    """Add a sort order for the current schema."""
    order = read_order(shape.obj(update, "sort-order", "add-sort-order"))
    check_order_sources(order, index_schema(draft.current_schema()))
    next_id = UNSORTED_ID
    if order_fields(order):
        next_id = _next_id(draft, _ORDERS, FIRST_ID)
    draft.last_order_id = _add(draft, _ORDERS, order, next_id)


def set_default_sort_order(draft: TableDraft, update: Object) -> None:
    """Make a sort order the default of writers."""
    order_id = shape.integer(update, "sort-order-id", "set-default-sort-order")
    if order_id == LAST_ADDED:
        order_id = _last_added(draft.last_order_id, "sort order")
    if order_id == draft.number("default-sort-order-id"):
        return
    if draft.order(order_id) is None:
        raise Invalid(f"Cannot set default sort order to unknown sort order: {order_id}")
    draft.put("default-sort-order-id", order_id)
    draft.layout_changed = True


def check_layout(draft: TableDraft) -> None:
    """Check that the default spec and order fit the current schema, after all updates."""
    if not draft.layout_changed:
        return
    index = index_schema(draft.current_schema())
    spec = draft.spec(draft.number("default-spec-id"))
    order = draft.order(draft.number("default-sort-order-id"))
    if spec is None or order is None:
        raise Invalid("a table needs a default partition spec and a default sort order: add them")
    check_spec_sources(spec, index)
    check_order_sources(order, index)


def _next_id(draft: TableDraft, layout_list: _LayoutList, least: int) -> int:
    layouts = draft.objects(layout_list.key)
    ids = (
        shape.integer(each, layout_list.id_key, f"each of {layout_list.key}") for each in layouts
    )
    return max((least, *(used_id + 1 for used_id in ids)))


def _add(draft: TableDraft, layout_list: _LayoutList, new_layout: Object, next_id: int) -> int:
    """The id of an existing item with the same meaning, or of `new_layout`, which is added."""
    size = len(shape.array(new_layout, "fields", layout_list.key))
    fingerprints, own = (
        draft.fingerprints(layout_list.key, layout_list.id_key, size, layout_list.fingerprint),
        layout_list.fingerprint(new_layout),
    )
    if own not in fingerprints:
        draft.own(layout_list.key).append({**new_layout, layout_list.id_key: next_id})
        fingerprints[own] = next_id
    return fingerprints[own]


def _last_added(last_id: int | None, thing: str) -> int:
    if last_id is None:
        raise Invalid(f"Cannot set last added {thing}: no {thing} has been added")
    return last_id


def _ids(update: Object, key: str, label: str) -> set[int]:
    return {shape.as_int(each, f"each of {key}") for each in shape.array(update, key, label)}


def _drop(draft: TableDraft, key: str, id_key: str, ids: set[int]) -> None:
    layouts = draft.objects(key)
    kept_layouts = [each for each in layouts if each[id_key] not in ids]
    if len(kept_layouts) < len(layouts):
        draft.replace(key, kept_layouts)
