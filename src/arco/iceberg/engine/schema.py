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

MAX_FIELDS = 50_000  # of all columns together, at any depth


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
        field_id = self.paths.get(name, self.short_paths.get(name))
        return None if field_id is None else self.fields[field_id]

    @property
    def highest(self) -> int:
        """The highest id in use; 0 if there is none."""
        return max(self.fields, default=0)


def read_schema(value: Json) -> Object:
    """`value` as a valid schema with normalized types."""
    requested = shape.as_object(value, "the schema")
    _refuse_vast(requested)
    if requested.get("type", "struct") != "struct":
        raise Invalid(f"a schema is a struct, not {shape.kind(requested['type'])}")
    fields: list[Json] = [
        _read_field(each, 1) for each in shape.objects(requested, "fields", "the schema")
    ]
    schema = shape.without_nulls(requested, "schema-id", "identifier-field-ids")
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
        if count > MAX_FIELDS:
            raise Invalid(f"a schema has at most {MAX_FIELDS} fields")


def _read_field(json_field: Object, depth: int) -> Object:
    name = shape.text(json_field, "name", "a field of the schema")
    shape.integer(json_field, "id", f"field {name}")
    kind = read_type(json_field.get("type"), name, _read_field, depth)
    if shape.flag(json_field, "required", f"field {name}"):
        refuse_required_unknown(kind, name)
    json_field = shape.without_nulls(json_field, "doc")
    shape.maybe_text(json_field, "doc", f"field {name}")
    return {**read_defaults(json_field, kind, name), "type": kind}


def identifiers(schema: Object) -> set[int]:
    """The ids of the fields that identify a row."""
    if schema.get("identifier-field-ids") is None:
        return set()
    ids = shape.array(schema, "identifier-field-ids", "the schema")
    return {shape.as_int(each, "each of identifier-field-ids") for each in ids}


def _check_identifier(field_id: int, index: SchemaIndex) -> None:
    identifier = index.fields.get(field_id)
    if identifier is None:
        raise Invalid(f"Cannot add fieldId {field_id} as an identifier field: field does not exist")
    refusal = f"Cannot add field {identifier.name} as an identifier field:"
    if not is_primitive(identifier.kind):
        raise Invalid(f"{refusal} not a primitive type field")
    if not identifier.required:
        raise Invalid(f"{refusal} not a required field")
    if identifier.kind in {"float", "double"}:
        raise Invalid(f"{refusal} must not be float or double field")
    parent = identifier.parent
    while parent is not None:
        parent_field = index.fields[parent]
        if type_name(parent_field.kind) != "struct":
            raise Invalid(f"{refusal} must not be nested in {parent_field.path}")
        if not parent_field.required:
            raise Invalid(f"{refusal} must not be nested in an optional field {parent_field.path}")
        parent = parent_field.parent


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
    schema_field = SchemaField(
        shape.integer(each, "id", f"field {name}"),
        name,
        f"{path}{name}",
        each.get("type"),
        each.get("required") is True,
        parent,
        each.get("initial-default"),
    )
    _enter(index, schema_field, f"{short}{name}")


def _enter(index: SchemaIndex, schema_field: SchemaField, short: str) -> None:
    if schema_field.field_id in index.fields:
        existing_path = index.fields[schema_field.field_id].path
        raise Invalid(
            f"Invalid schema: multiple fields for id {schema_field.field_id}: "
            f"{existing_path} and {schema_field.path}"
        )
    if schema_field.path in index.paths:
        raise Invalid(
            f"Invalid schema: multiple fields for name {schema_field.path}: "
            f"{index.paths[schema_field.path]} and {schema_field.field_id}"
        )
    index.fields[schema_field.field_id] = schema_field
    index.paths[schema_field.path] = schema_field.field_id
    index.short_paths.setdefault(short, schema_field.field_id)
    if isinstance(schema_field.kind, dict):
        _index_nested(index, schema_field, schema_field.kind, short)


def _index_nested(index: SchemaIndex, parent: SchemaField, kind: Object, short: str) -> None:
    if kind.get("type") == "struct":
        for each in shape.objects(kind, "fields", f"struct {parent.path}"):
            _index_field(index, each, parent.field_id, f"{parent.path}.", f"{short}.")
        return
    for part in ("element",) if kind.get("type") == "list" else ("key", "value"):
        inner = kind.get(part)
        part_field = SchemaField(
            shape.integer(kind, f"{part}-id", parent.path),
            part,
            f"{parent.path}.{part}",
            inner,
            part == "key" or kind.get(f"{part}-required") is True,
            parent.field_id,
        )
        silent = part != "key" and type_name(inner) == "struct"
        _enter(index, part_field, short if silent else f"{short}.{part}")


def check_version(index: SchemaIndex, format_version: int) -> None:
    """Refuse types and defaults that tables of this format version cannot have."""
    if format_version >= 3:
        return
    problems = []
    for field_id in sorted(index.fields):
        schema_field = index.fields[field_id]
        if needs_v3(schema_field.kind):
            problems.append(
                f"Invalid type for {schema_field.path}: {schema_field.kind} is not supported until v3"
            )
        if schema_field.default is not None:
            problems.append(
                f"Invalid initial default for {schema_field.path}: "
                f"non-null default ({schema_field.default}) is not supported until v3"
            )
    if problems:
        problem_list = "\n- ".join(problems)
        raise Invalid(f"Invalid schema for v{format_version}:\n- {problem_list}")


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
