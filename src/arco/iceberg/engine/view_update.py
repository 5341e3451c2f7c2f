"""Commits to views: requirements, and updates that are applied to a draft.

The rules are those of Iceberg's own builder: existing schemas and versions are used again, new ones get
the next number, old versions expire. One difference: the "last added" schema or version (-1) may be an
existing one, so that of two clients that make the same change at once the second is not refused. An
unknown update or requirement is refused, since skipping it would be another change than the requested
one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from arco.catalog.name import RESERVED, check_property_sizes
from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.shape import Object

LAST_ADDED = -1
_SQL = "sql"

_TYPES = frozenset({"type", "element", "key", "value"})


def read_version(value: Json, label: str = "the view version") -> Object:
    """A version from a client or a file, if its members have the right types."""
    version = shape.without_nulls(shape.as_object(value, label), "default-catalog")
    if shape.integer(version, "version-id", label) < 0:
        raise Invalid(f"version-id of {label} is negative")
    shape.integer(version, "schema-id", label)
    shape.long(version, "timestamp-ms", label)
    shape.texts(version, "summary", label)
    shape.maybe_text(version, "default-catalog", label)
    for level in shape.array(version, "default-namespace", label):
        shape.as_text(level, f"each of default-namespace of {label}")
    representations = shape.objects(version, "representations", label)
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
        lost_dialects = ", ".join(sorted(lost))
        raise Invalid(
            f"the new version of the view has no query for {lost_dialects[:400]}, which the current one"
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


FORMAT_VERSION = 1
HISTORY_ENTRIES = "version.history.num-entries"
DROP_DIALECT = "replace.drop-dialect.allowed"
_DEFAULT_HISTORY_ENTRIES = 10
_MAX_INT = 2**31 - 1
# In the order of members in files. A finished view has a string where null is here.
_EMPTY: Metadata = {
    "view-uuid": None,
    "format-version": FORMAT_VERSION,
    "location": None,
    "properties": {},
    "schemas": [],
    "current-version-id": None,
    "versions": [],
    "version-log": [],
}


class ViewDraft:
    """A draft of view metadata: takes updates in order; `finished` returns the result."""

    def __init__(self, base: Metadata | None, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        fields: Metadata = _EMPTY if base is None else base
        self._fields = dict(fields)
        self._schemas = shape.objects(fields, "schemas", "the view")
        self._versions = shape.objects(fields, "versions", "the view")
        self._log = shape.objects(fields, "version-log", "the view")
        self._properties = view_properties(fields)
        self._current = shape.maybe_integer(fields, "current-version-id", "the view")
        self._before = None if self._current is None else self._version(self._current)
        self._last_schema: int | None = None
        self._last_version: int | None = None
        self._added: set[int] = set()
        self._entry: Object | None = None

    def assign_uuid(self, uuid: str) -> None:
        """Set the view's uuid, once."""
        current = self._fields.get("view-uuid")
        if current is not None and current != uuid:
            raise Invalid("Cannot reassign uuid")
        self._fields["view-uuid"] = uuid

    def upgrade_format_version(self, format_version: int) -> None:
        """Set the format version; there is only one so far."""
        current = shape.integer(self._fields, "format-version", "the view")
        if format_version < current:
            raise Invalid(f"Cannot downgrade v{current} view to v{format_version}")
        if format_version > FORMAT_VERSION:
            raise Invalid(f"Unsupported format version: {format_version}")
        self._fields["format-version"] = format_version

    def set_location(self, location: str) -> None:
        """Set the location of the view's metadata files."""
        if not location:
            raise Invalid("the location of a view is empty")
        self._fields["location"] = location

    def set_properties(self, updates: Mapping[str, str]) -> None:
        """Set properties."""
        _refuse_reserved(updates)
        check_property_sizes({**self._properties, **updates})
        self._properties.update(updates)

    def remove_properties(self, keys: Iterable[str]) -> None:
        """Remove properties; missing ones are ignored."""
        removals = list(keys)
        _refuse_reserved(removals)
        for key in removals:
            self._properties.pop(key, None)

    def add_schema(self, value: Json) -> int:
        """Add a schema unless an equal one exists; returns its id."""
        schema = read_view_schema(value)
        for each in self._schemas:
            if same_view_schema(each, schema):
                self._last_schema = schema_id(each)
                return self._last_schema
        number = _free(max((schema_id(each) for each in self._schemas), default=-1) + 1)
        self._schemas = [*self._schemas, {**schema, "schema-id": number}]
        self._last_schema = number
        return number

    def add_version(self, value: Json) -> int:
        """Add a version unless an equal one exists; returns its id."""
        version = read_version(value)
        version = {**version, "schema-id": self._schema_of(version)}
        for each in self._versions:
            if same_version(each, version):
                self._last_version = version_id(each)
                return self._last_version
        refuse_duplicate_dialects(version)
        highest = max((version_id(each) for each in self._versions), default=-1)
        number = _free(max(version_id(version), highest + 1))
        self._versions = [*self._versions, {**version, "version-id": number}]
        self._added.add(number)
        self._last_version = number
        return number

    def set_current_version(self, number: int) -> None:
        """Set the current version and log the time."""
        if number == LAST_ADDED:
            if self._last_version is None:
                raise Invalid("there is no last added version: add one first, or give its number")
            number = self._last_version
        if number == self._current:
            return
        version = self._version(number)
        # A version that becomes current again is logged with the current time.
        at = version["timestamp-ms"] if number in self._added else self._now_ms
        self._current = number
        self._entry = {"timestamp-ms": at, "version-id": number}

    def finished(self) -> Metadata:
        """The resulting metadata; the base itself if nothing has changed."""
        self._fill()
        if self._base is not None and self._fields == self._base:
            return self._base
        for field in ("view-uuid", "location"):
            if not shape.text(self._fields, field, "the view"):
                raise Invalid(f"the {field} of a view is empty")
        if self._current is None:
            raise Invalid("Invalid view: no current version was set")
        if self._before is not None and not self._may_drop_dialects():
            refuse_lost_dialects(self._before, self._version(self._current))
        self._expire(self._current)
        self._fill()
        return self._fields

    def _fill(self) -> None:
        """Copy the draft's lists and properties into the metadata."""
        if self._entry is not None:
            self._log = [*self._log, self._entry]
            self._entry = None
        if self._properties or self._fields.get("properties") is not None:
            self._fields["properties"] = {**self._properties}
        self._fields["schemas"] = [*self._schemas]
        self._fields["current-version-id"] = self._current
        self._fields["versions"] = [*self._versions]
        self._fields["version-log"] = [*self._log]

    def _schema_of(self, version: Object) -> int:
        number = shape.integer(version, "schema-id", "the view version")
        if number == LAST_ADDED:
            if self._last_schema is None:
                raise Invalid("Cannot set last added schema: no schema has been added")
            return self._last_schema
        if all(schema_id(each) != number for each in self._schemas):
            raise Invalid(f"Cannot add version with unknown schema: {number}")
        return number

    def _version(self, number: int) -> Object:
        for each in self._versions:
            if version_id(each) == number:
                return each
        raise Invalid(f"Cannot set current version to unknown version: {number}")

    def _may_drop_dialects(self) -> bool:
        return self._properties.get(DROP_DIALECT, "").lower() == "true"

    def _expire(self, current: int) -> None:
        """Keep the current version, those of this commit and the latest others."""
        keep = max(len(self._added | {current}), _history_entries(self._properties))
        if len(self._versions) <= keep:
            return
        others = sorted({version_id(each) for each in self._versions} - {current}, reverse=True)
        kept_ids = {current, *others[: keep - 1]}
        self._versions = [each for each in self._versions if version_id(each) in kept_ids]
        self._log = _unbroken_history(self._log, kept_ids)


def view_properties(view: Metadata) -> dict[str, str]:
    """The properties of a view; null counts as none."""
    if view.get("properties") is None:
        return {}
    return shape.texts(view, "properties", "the view")


def _unbroken_history(log: list[Object], kept_ids: set[int]) -> list[Object]:
    """The entries after the last one whose version was removed: a log has no gaps."""
    entries: list[Object] = []
    for entry in log:
        if version_id(entry) in kept_ids:
            entries.append(entry)
        else:
            entries.clear()
    return entries


def _history_entries(properties: Mapping[str, str]) -> int:
    text = properties.get(HISTORY_ENTRIES)
    if text is None:
        return _DEFAULT_HISTORY_ENTRIES
    digits = text.strip().removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 11 and int(digits) > 0):
        raise Invalid(f"{HISTORY_ENTRIES} must be positive but was {text[:40]}")
    return int(digits)


def _free(number: int) -> int:
    if number > _MAX_INT:
        raise Invalid("the view has no number left for another schema or version")
    return number


def _refuse_reserved(keys: Iterable[str]) -> None:
    for key in keys:
        if key.strip().casefold().startswith(RESERVED):
            raise Invalid(f"the property {key[:80]!r} is reserved: choose one without {RESERVED!r}")


def check_view_requirements(base: Metadata | None, requirements: Sequence[Json]) -> None:
    """`Conflict` unless all requirements hold for `base`; None means that there is no view."""
    for requirement in requirements:
        demand = shape.as_object(requirement, "a requirement")
        kind = shape.text(demand, "type", "a requirement")
        if kind == "assert-view-uuid":
            _assert_uuid(base, shape.text(demand, "uuid", kind))
        elif kind == "assert-create":
            if base is not None:
                raise Conflict("Requirement failed: view already exists")
        else:
            raise Invalid(f"Cannot validate the requirement {kind[:80]!r} against a view")


def _assert_uuid(base: Metadata | None, uuid: str) -> None:
    if base is None:
        raise Conflict(f"Requirement failed: view does not exist, expected UUID {uuid[:80]}")
    current = shape.text(base, "view-uuid", "the view")
    if current.lower() != uuid.lower():
        raise Conflict(
            f"Requirement failed: view UUID does not match: expected {current} != {uuid[:80]}"
        )


def apply_view_updates(base: Metadata | None, updates: Sequence[Json], *, now_ms: int) -> Metadata:
    """The view after the updates, in their order; `base` itself if they change nothing."""
    try:
        draft = ViewDraft(base, now_ms)
        for update in updates:
            _apply(draft, shape.as_object(update, "an update"))
        return draft.finished()
    except RecursionError as problem:
        raise Invalid("JSON is nested too deeply") from problem


def _apply(draft: ViewDraft, update: Object) -> None:
    # Exactly as written: the checks of locations must see the same action as the engine.
    action = shape.text(update, "action", "an update")
    apply = _ACTIONS.get(action)
    if apply is None:
        raise Invalid(f"Cannot apply the update {action[:80]!r} to a view")
    apply(draft, update)


def _assign_uuid(draft: ViewDraft, update: Object) -> None:
    draft.assign_uuid(shape.text(update, "uuid", "assign-uuid"))


def _upgrade_format_version(draft: ViewDraft, update: Object) -> None:
    format_version = shape.integer(update, "format-version", "upgrade-format-version")
    draft.upgrade_format_version(format_version)


def _add_schema(draft: ViewDraft, update: Object) -> None:
    draft.add_schema(update.get("schema"))


def _set_location(draft: ViewDraft, update: Object) -> None:
    draft.set_location(shape.text(update, "location", "set-location"))


def _set_properties(draft: ViewDraft, update: Object) -> None:
    # Early clients send `updated` and `removed`.
    key = "updates" if "updates" in update or "updated" not in update else "updated"
    draft.set_properties(shape.texts(update, key, "set-properties"))


def _remove_properties(draft: ViewDraft, update: Object) -> None:
    key = "removals" if "removals" in update or "removed" not in update else "removed"
    keys = shape.array(update, key, "remove-properties")
    draft.remove_properties([shape.as_text(each, f"each of {key}") for each in keys])


def _add_view_version(draft: ViewDraft, update: Object) -> None:
    draft.add_version(update.get("view-version"))


def _set_current_view_version(draft: ViewDraft, update: Object) -> None:
    number = shape.integer(update, "view-version-id", "set-current-view-version")
    draft.set_current_version(number)


_ACTIONS: dict[str, Callable[[ViewDraft, Object], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_view_version,
}
