"""Partition specs and transforms: validity for a schema, equality, and the ids of partition fields.

A transform that the engine does not know is kept as it is, since clients may be newer than this server.
"""

import re
from collections.abc import Iterable, Sequence

from arco.core.errors import Invalid
from arco.core.json import Json, encode
from arco.iceberg.engine import shape
from arco.iceberg.engine.field_type import is_primitive, type_name
from arco.iceberg.engine.schema import SchemaIndex
from arco.iceberg.engine.shape import Object

VOID = "void"

_MAX_WIDTH = 2**31 - 1
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]", re.IGNORECASE)
_MOMENTS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DAYS = _MOMENTS | {"date"}
_CUT = frozenset({"int", "long", "string", "binary", "decimal"})
_HASHED = _CUT | _DAYS | {"time", "fixed", "uuid"}
_SOURCES = {
    "bucket": _HASHED,
    "truncate": _CUT,
    "year": _DAYS,
    "month": _DAYS,
    "day": _DAYS,
    "hour": _MOMENTS,
}
_NO_IDENTITY = frozenset({"variant", "geometry", "geography"})

FIRST_FIELD_ID = 1_000
UNPARTITIONED_LAST_ID = FIRST_FIELD_ID - 1


def read_transform(text: str) -> str:
    """The normalized text of a transform."""
    lower = text.lower()
    if lower in {*_SOURCES, "identity", VOID}:
        return lower
    match = _WITH_WIDTH.fullmatch(text)
    if match is None:
        return text
    if len(match[2]) > 10 or not 0 < int(match[2]) <= _MAX_WIDTH:
        raise Invalid(f"the width of a transform is a positive number of 32 bits: {text}")
    return f"{match[1].lower()}[{int(match[2])}]"


def check_source(transform: str, kind: Json) -> None:
    """Refuse a transform that does not apply to the type of its column."""
    name = transform.partition("[")[0]
    source = type_name(kind)
    is_unsupported = source not in _SOURCES.get(name, {source})
    if name == "identity":
        is_unsupported = source in _NO_IDENTITY or not is_primitive(kind)
    if is_unsupported:
        raise Invalid(f"Invalid source type {kind} for transform: {transform}")


def read_spec(value: Json) -> Object:
    """`value` as a partition spec with normalized transforms, not yet checked with a schema."""
    spec = shape.without_nulls(shape.as_object(value, "the partition spec"), "spec-id")
    shape.maybe_integer(spec, "spec-id", "the partition spec")
    fields = [_read_field(each) for each in shape.objects(spec, "fields", "the partition spec")]
    missing = sum("field-id" not in each for each in fields)
    if missing not in {0, len(fields)}:
        raise Invalid(
            f"Cannot parse spec with missing field IDs: {missing} missing of {len(fields)} fields."
        )
    ids = [each.get("field-id") for each in fields]
    if not missing and len(set(ids)) != len(ids):
        raise Invalid("Cannot use a partition field id more than once in a spec")
    return {**spec, "fields": [*fields]}


def _read_field(field: Object) -> Object:
    field = shape.without_nulls(field, "field-id")
    name = shape.text(field, "name", "a partition field")
    shape.integer(field, "source-id", f"partition field {name}")
    shape.maybe_integer(field, "field-id", f"partition field {name}")
    transform = read_transform(shape.text(field, "transform", f"partition field {name}"))
    return {**field, "transform": transform}


def fields_of(spec: Object) -> list[Object]:
    """The fields of a spec."""
    return shape.objects(spec, "fields", "a partition spec")


def check_names(spec: Object, index: SchemaIndex) -> None:
    """Check that partition names are unique and not those of other columns than their source."""
    seen: set[str] = set()
    for each in fields_of(spec):
        name = shape.text(each, "name", "a partition field")
        source = shape.integer(each, "source-id", f"partition field {name}")
        column = index.by_name(name)
        if column is not None and source in index.fields and column.field_id != source:
            raise Invalid(
                f"Cannot create identity partition sourced from different field in schema: {name}"
            )
        if not name:
            raise Invalid("Cannot use empty partition name")
        if name in seen:
            raise Invalid(f"Cannot use partition name more than once: {name}")
        seen.add(name)


def check_sources(spec: Object, index: SchemaIndex) -> None:
    """Check that each partition field has an existing column that fits its transform."""
    for each in fields_of(spec):
        name = shape.text(each, "name", "a partition field")
        transform = read_transform(shape.text(each, "transform", f"partition field {name}"))
        if transform == VOID:
            continue  # a removed field in v1; its column may be dropped
        column = index.fields.get(shape.integer(each, "source-id", f"partition field {name}"))
        if column is None:
            raise Invalid(f"Cannot find source column for partition field: {name}")
        if not is_primitive(column.kind):
            raise Invalid(
                f"Cannot partition by non-primitive source field: {column.path}: "
                f"{type_name(column.kind)}"
            )
        check_source(transform, column.kind)
        _check_parents(column.parent, index)


def _check_parents(parent: int | None, index: SchemaIndex) -> None:
    while parent is not None:
        parent_field = index.fields[parent]
        if type_name(parent_field.kind) != "struct":
            raise Invalid(
                f"Invalid partition field parent: {parent_field.path}: {type_name(parent_field.kind)}"
            )
        parent = parent_field.parent


def spec_fingerprint(spec: Object) -> bytes:
    """A fingerprint of a spec without its ids: equal for specs that partition alike."""
    return encode([(*_source(each), each.get("name")) for each in fields_of(spec)])


def _source(each: Object) -> tuple[Json, Json]:
    return each.get("source-id"), read_transform(str(each.get("transform")))


def with_field_ids(
    spec: Object, specs: Sequence[Object], last_id: int, format_version: int
) -> Object:
    """`spec` with an id for each field, if the client gave none.

    From format version 2 on a field of an older spec keeps its id, and others get new ones. Version 1
    numbers each spec from the start.
    """
    fields = fields_of(spec)
    if all("field-id" in each for each in fields):
        return spec
    ids_by_source: dict[tuple[Json, Json], int] = {}
    if format_version == 1:
        last_id = UNPARTITIONED_LAST_ID
    else:
        ids_by_source = {_source(each): _field_id(each) for old in specs for each in fields_of(old)}
    numbered: list[Json] = []
    for each in fields:
        field_id = ids_by_source.pop(_source(each), None)
        if field_id is None:
            last_id += 1
            field_id = last_id
        numbered.append({**each, "field-id": field_id})
    return {**spec, "fields": numbered}


def with_positions(spec: Object) -> Object:
    """`spec` with field ids from 1000 if it has none, as in old v1 metadata."""
    return with_field_ids(spec, (), UNPARTITIONED_LAST_ID, 1)


def check_sequential(spec: Object) -> None:
    """Check that ids count up from 1000: format version 1 finds values by position."""
    ids = [_field_id(each) for each in fields_of(spec)]
    if ids != list(range(FIRST_FIELD_ID, FIRST_FIELD_ID + len(ids))):
        raise Invalid(f"Spec does not use sequential IDs that are required in v1: {ids}")


def last_field_id(specs: Iterable[Object]) -> int:
    """The highest id of a partition field in use, or 999."""
    ids = (_field_id(each) for spec in specs for each in fields_of(spec))
    return max(ids, default=UNPARTITIONED_LAST_ID)


def _field_id(each: Object) -> int:
    return shape.integer(each, "field-id", "a partition field")
