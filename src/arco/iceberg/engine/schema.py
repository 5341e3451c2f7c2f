"""Schemas of tables and views: validity and equality.

A schema stays JSON, so that unknown members survive; `SchemaIndex` is for look-ups.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import msgspec

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.default_value import KEYS as DEFAULTS
from arco.iceberg.engine.default_value import read_defaults
from arco.iceberg.engine.field_type import (
    is_primitive,
    needs_v3,
    normalized,
    read_type,
    refuse_required_unknown,
    type_name,
)
from arco.iceberg.engine.shape import Object

MOST_FIELDS = 50_000  # of all columns together, at any depth


@dataclass(frozen=True)
class SchemaField:
    """One field of a schema at any depth: a column, an element, a key or a value."""

    field_id: int
    name: str  # the last part of the path
    path: str
    kind: Json
    required: bool
    parent: int | None
    default: Json = None


@dataclass(frozen=True)
class SchemaIndex:
    """The fields of one schema by id and by name."""

    fields: dict[int, SchemaField] = field(default_factory=dict)
    paths: dict[str, int] = field(default_factory=dict)
    short_paths: dict[str, int] = field(default_factory=dict)

    def by_name(self, name: str) -> SchemaField | None:
        """The field with this path; `l.x` finds `l.element.x` as well."""
        found = self.paths.get(name, self.short_paths.get(name))
        return None if found is None else self.fields[found]

    @property
    def highest(self) -> int:
        """The highest id in use; 0 if there is none."""
        return max(self.fields, default=0)


def read_schema(value: Json) -> Object:
    """`value` as a valid schema with normalized types."""
    found = shape.as_object(value, "the schema")
    _refuse_vast(found)
    if found.get("type", "struct") != "struct":
        raise Invalid(f"a schema is a struct, not {shape.kind(found['type'])}")
    fields: list[Json] = [
        _read_field(each, 1) for each in shape.objects(found, "fields", "the schema")
    ]
    schema = shape.without_nulls(found, "schema-id", "identifier-field-ids")
    schema = {**schema, "type": "struct", "fields": fields}
    shape.maybe_integer(schema, "schema-id", "the schema")
    index = index_schema(schema)
    for field_id in identifiers(schema):
        _check_identifier(field_id, index)
    return schema


def _refuse_vast(schema: Object) -> None:
    """Refuse a schema that is too large before any other work."""
    rest: list[Json] = [schema]
    count = 0
    while rest:
        each = rest.pop()
        inner = each.values() if isinstance(each, dict) else each
        rest += [value for value in cast("Iterable[Json]", inner) if isinstance(value, dict | list)]
        count += isinstance(each, dict)
        if count > MOST_FIELDS:
            raise Invalid(f"a schema has at most {MOST_FIELDS} fields")


def _read_field(found: Object, depth: int) -> Object:
    name = shape.text(found, "name", "a field of the schema")
    shape.integer(found, "id", f"field {name}")
    kind = read_type(found.get("type"), name, _read_field, depth)
    if shape.flag(found, "required", f"field {name}"):
        refuse_required_unknown(kind, name)
    found = shape.without_nulls(found, "doc")
    shape.maybe_text(found, "doc", f"field {name}")
    return {**read_defaults(found, kind, name), "type": kind}


def identifiers(schema: Object) -> set[int]:
    """The ids of the fields that identify a row."""
    if schema.get("identifier-field-ids") is None:
        return set()
    ids = shape.array(schema, "identifier-field-ids", "the schema")
    return {shape.as_int(each, "each of identifier-field-ids") for each in ids}


def _check_identifier(field_id: int, index: SchemaIndex) -> None:
    found = index.fields.get(field_id)
    if found is None:
        raise Invalid(f"Cannot add fieldId {field_id} as an identifier field: field does not exist")
    refusal = f"Cannot add field {found.name} as an identifier field:"
    if not is_primitive(found.kind):
        raise Invalid(f"{refusal} not a primitive type field")
    if not found.required:
        raise Invalid(f"{refusal} not a required field")
    if found.kind in {"float", "double"}:
        raise Invalid(f"{refusal} must not be float or double field")
    parent = found.parent
    while parent is not None:
        above = index.fields[parent]
        if type_name(above.kind) != "struct":
            raise Invalid(f"{refusal} must not be nested in {above.path}")
        if not above.required:
            raise Invalid(f"{refusal} must not be nested in an optional field {above.path}")
        parent = above.parent


def index_schema(schema: Object) -> SchemaIndex:
    """The fields of `schema`; ids and names must be unique in it."""
    index = SchemaIndex()
    for each in shape.objects(schema, "fields", "the schema"):
        _index_field(index, each, None, "", "")
    return index


def _index_field(
    index: SchemaIndex, each: Object, parent: int | None, path: str, short: str
) -> None:
    name = shape.text(each, "name", "a field of the schema")
    found = SchemaField(
        shape.integer(each, "id", f"field {name}"),
        name,
        f"{path}{name}",
        each.get("type"),
        each.get("required") is True,
        parent,
        each.get("initial-default"),
    )
    _enter(index, found, f"{short}{name}")


def _enter(index: SchemaIndex, found: SchemaField, short: str) -> None:
    if found.field_id in index.fields:
        taken = index.fields[found.field_id].path
        raise Invalid(
            f"Invalid schema: multiple fields for id {found.field_id}: {taken} and {found.path}"
        )
    if found.path in index.paths:
        raise Invalid(
            f"Invalid schema: multiple fields for name {found.path}: "
            f"{index.paths[found.path]} and {found.field_id}"
        )
    index.fields[found.field_id] = found
    index.paths[found.path] = found.field_id
    index.short_paths.setdefault(short, found.field_id)
    if isinstance(found.kind, dict):
        _index_nested(index, found, found.kind, short)


def _index_nested(index: SchemaIndex, above: SchemaField, kind: Object, short: str) -> None:
    if kind.get("type") == "struct":
        for each in shape.objects(kind, "fields", f"struct {above.path}"):
            _index_field(index, each, above.field_id, f"{above.path}.", f"{short}.")
        return
    for part in ("element",) if kind.get("type") == "list" else ("key", "value"):
        inner = kind.get(part)
        found = SchemaField(
            shape.integer(kind, f"{part}-id", above.path),
            part,
            f"{above.path}.{part}",
            inner,
            part == "key" or kind.get(f"{part}-required") is True,
            above.field_id,
        )
        silent = part != "key" and type_name(inner) == "struct"
        _enter(index, found, short if silent else f"{short}.{part}")


def check_version(index: SchemaIndex, format_version: int) -> None:
    """Refuse types and defaults that tables of this format version cannot have."""
    if format_version >= 3:
        return
    problems = []
    for field_id in sorted(index.fields):
        found = index.fields[field_id]
        if needs_v3(found.kind):
            problems.append(
                f"Invalid type for {found.path}: {found.kind} is not supported until v3"
            )
        if found.default is not None:
            problems.append(
                f"Invalid initial default for {found.path}: "
                f"non-null default ({found.default}) is not supported until v3"
            )
    if problems:
        listed = "\n- ".join(problems)
        raise Invalid(f"Invalid schema for v{format_version}:\n- {listed}")


def schema_fingerprint(schema: Object) -> bytes:
    """A fingerprint of a schema without its id: equal for schemas with the same meaning."""
    meaning = [sorted(identifiers(schema)), _meaning(schema)]
    return msgspec.json.encode(meaning, order="sorted")  # a default may be an object


def _meaning(kind: Json) -> object:
    """A type without unknown members and differences of spelling."""
    if not isinstance(kind, dict):
        return normalized(kind)
    if kind.get("type") == "struct":
        members = ("id", "name", "required", "doc", *DEFAULTS)
        return [
            (*(_value(each.get(key)) for key in members), _meaning(each.get("type")))
            for each in shape.objects(kind, "fields", "a struct")
        ]
    if kind.get("type") == "list":
        element = tuple(kind.get(key) for key in ("element-id", "element-required"))
        return ("list", *element, _meaning(kind.get("element")))
    pair = tuple(kind.get(key) for key in ("key-id", "value-id", "value-required"))
    return ("map", *pair, _meaning(kind.get("key")), _meaning(kind.get("value")))


def _value(value: Json) -> tuple[str, Json]:
    """A value with its type: 1, 1.0 and true are equal in Python."""
    return (type(value).__name__, value)
