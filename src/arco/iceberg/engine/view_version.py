"""Versions of a view, each with its queries by SQL dialect, and the schemas they result in."""

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.shape import Object

LAST_ADDED = -1
_SQL = "sql"

_TYPES = frozenset({"type", "element", "key", "value"})


def read_version(value: Json, what: str = "the view version") -> Object:
    """A version from a client or a file, if its members have the right types."""
    version = shape.without_nulls(shape.as_object(value, what), "default-catalog")
    if shape.integer(version, "version-id", what) < 0:
        raise Invalid(f"version-id of {what} is negative")
    shape.integer(version, "schema-id", what)
    shape.long(version, "timestamp-ms", what)
    shape.texts(version, "summary", what)
    shape.maybe_text(version, "default-catalog", what)
    for level in shape.array(version, "default-namespace", what):
        shape.as_text(level, f"each of default-namespace of {what}")
    representations = shape.objects(version, "representations", what)
    if not representations:
        raise Invalid("Invalid view version: it has no representation, so nothing defines the view")
    for each in representations:
        _check_representation(each)
    return version


def _check_representation(representation: Object) -> None:
    """Check the type, and for SQL the text and dialect; unknown types are kept."""
    if _is_sql(representation):
        shape.text(representation, "sql", "a representation")
        if not shape.text(representation, "dialect", "a representation"):
            raise Invalid("Invalid dialect: (empty string)")


def _is_sql(representation: Object) -> bool:
    return shape.text(representation, "type", "a representation").lower() == _SQL


def version_id(version: Object) -> int:
    """The id of a version, or that of a log entry."""
    return shape.integer(version, "version-id", "a view version")


def same_version(one: Object, other: Object) -> bool:
    """Whether two versions have the same definition, without their ids and times."""
    return _definition(one) == _definition(other)


def _definition(version: Object) -> Object:
    passing = {"version-id", "timestamp-ms"}
    return {
        key: value for key, value in version.items() if key not in passing and value is not None
    }


def refuse_duplicate_dialects(version: Object) -> None:
    """`Invalid` if two queries have the same dialect."""
    seen: set[str] = set()
    for dialect in _dialects(version):
        if dialect in seen:
            raise Invalid(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect[:80]}"
            )
        seen.add(dialect)


def refuse_lost_dialects(before: Object, after: Object) -> None:
    """`Invalid` if `after` lacks a dialect that `before` has."""
    lost = set(_dialects(before)) - set(_dialects(after))
    if lost:
        listed = ", ".join(sorted(lost))
        raise Invalid(
            f"the new version of the view has no query for {listed[:400]}, which the current one"
            " has: add it, or set the property replace.drop-dialect.allowed to true"
        )


def _dialects(version: Object) -> list[str]:
    """The dialects of the queries in lower case: engines ignore case."""
    return [
        shape.text(each, "dialect", "a representation").lower()
        for each in shape.objects(version, "representations", "a view version")
        if _is_sql(each)
    ]


def read_view_schema(value: Json) -> Object:
    """The schema, if the catalog can list its columns; its id may be missing."""
    schema = shape.without_nulls(
        shape.as_object(value, "the schema"), "schema-id", "identifier-field-ids"
    )
    if schema_id(schema) < 0:
        raise Invalid("schema-id of the schema is negative")
    _identifiers(schema)
    columns_of(schema)
    return schema


def schema_id(schema: Object) -> int:
    """The id of a schema; 0 if it has none."""
    return shape.maybe_integer(schema, "schema-id", "the schema") or 0


def same_view_schema(one: Object, other: Object) -> bool:
    """Whether two schemas are equal without their ids and differences of spelling."""
    return _identifiers(one) == _identifiers(other) and _normalized(_rest(one)) == _normalized(
        _rest(other)
    )


def _identifiers(schema: Object) -> set[int]:
    if schema.get("identifier-field-ids") is None:
        return set()
    field_ids = shape.array(schema, "identifier-field-ids", "the schema")
    return {shape.as_int(each, "each of identifier-field-ids") for each in field_ids}


def _rest(schema: Object) -> Object:
    apart = {"schema-id", "identifier-field-ids"}
    return {key: value for key, value in schema.items() if key not in apart}


def _normalized(value: Json) -> Json:
    """`value` without nulls, and types without blanks."""
    if isinstance(value, list):
        return [_normalized(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each.replace(" ", "") if isinstance(each, str) and key in _TYPES else _normalized(each)
        for key, each in value.items()
        if each is not None
    }
