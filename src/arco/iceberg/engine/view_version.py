"""Versions of a view, each with its queries by SQL dialect, and the schemas they result in."""

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.shape import Object

LAST_ADDED = -1
_SQL = "sql"


def read_version(value: Json, what: str = "the view version") -> Object:
    """The version that a client sent or a file holds, if its members have their shapes."""
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


def _check_representation(found: Object) -> None:
    """Each has a type, those in SQL a text and a dialect; kinds that we do not know are kept."""
    if _is_sql(found):
        shape.text(found, "sql", "a representation")
        if not shape.text(found, "dialect", "a representation"):
            raise Invalid("Invalid dialect: (empty string)")


def _is_sql(found: Object) -> bool:
    return shape.text(found, "type", "a representation").lower() == _SQL


def version_id(version: Object) -> int:
    """The number of a version, or the one that an entry of the log is about."""
    return shape.integer(version, "version-id", "a view version")


def same_version(one: Object, other: Object) -> bool:
    """Whether two versions define the same, whatever their numbers and times are."""
    return _definition(one) == _definition(other)


def _definition(version: Object) -> Object:
    passing = {"version-id", "timestamp-ms"}
    return {
        key: value for key, value in version.items() if key not in passing and value is not None
    }


def refuse_double_dialects(version: Object) -> None:
    """`Invalid` if two queries are in one dialect: nobody could tell which of them counts."""
    seen: set[str] = set()
    for dialect in _dialects(version):
        if dialect in seen:
            raise Invalid(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect[:80]}"
            )
        seen.add(dialect)


def refuse_lost_dialects(before: Object, after: Object) -> None:
    """`Invalid` if `after` has no query for an engine that could read `before`."""
    lost = set(_dialects(before)) - set(_dialects(after))
    if lost:
        listed = ", ".join(sorted(lost))
        raise Invalid(
            f"the new version of the view has no query for {listed[:400]}, which the current one"
            " has: add it, or set the property replace.drop-dialect.allowed to true"
        )


def _dialects(version: Object) -> list[str]:
    """The dialects of the queries; engines compare them without regard to case."""
    return [
        shape.text(each, "dialect", "a representation").lower()
        for each in shape.objects(version, "representations", "a view version")
        if _is_sql(each)
    ]


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
