"""View metadata in Iceberg's view format: the first metadata of a view, its validity, and its facts."""

from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.iceberg.engine import shape
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.view_update import (
    FORMAT_VERSION,
    LAST_ADDED,
    ViewDraft,
    read_version,
    read_view_schema,
    refuse_duplicate_dialects,
    schema_id,
    version_id,
    view_properties,
)
from arco.iceberg.wire import CreateViewRequest

_FIRST_VERSION = 1


@dataclass(frozen=True)
class ViewFacts:
    """What the catalog reads from a view's metadata; `schema` is that of the current version."""

    view_uuid: str
    location: str
    format_version: int
    version_id: int
    schema: Object
    properties: dict[str, str]


def new_view(request: CreateViewRequest, *, view_uuid: str, location: str, now_ms: int) -> Metadata:
    """The first metadata of a view, with one schema and one version."""
    try:
        draft = ViewDraft(None, now_ms)
        draft.assign_uuid(view_uuid)
        draft.set_location(location)
        draft.set_properties(request.properties)
        draft.add_schema(request.schema)
        # The server assigns numbers and times.
        first: Object = {
            "version-id": _FIRST_VERSION,
            "timestamp-ms": now_ms,
            "schema-id": LAST_ADDED,
        }
        draft.set_current_version(draft.add_version({**request.view_version, **first}))
        return draft.finished()
    except RecursionError as problem:
        raise _too_deep() from problem


def check_view(metadata: Metadata) -> Metadata:
    """`metadata` itself, if it is a valid view's, else `Invalid`.

    A client that registers a metadata file gets the reason from here.
    """
    try:
        _check_shape(metadata)
    except RecursionError as problem:
        raise _too_deep() from problem
    return metadata


def view_facts(metadata: Metadata) -> ViewFacts:
    """The facts of valid view metadata."""
    current = shape.integer(metadata, "current-version-id", "the view")
    version = _numbered(metadata, current)
    current_schema_id = shape.integer(version, "schema-id", "a view version")
    for schema in shape.objects(metadata, "schemas", "the view"):
        if schema_id(schema) == current_schema_id:
            return ViewFacts(
                view_uuid=shape.text(metadata, "view-uuid", "the view"),
                location=shape.text(metadata, "location", "the view"),
                format_version=shape.integer(metadata, "format-version", "the view"),
                version_id=current,
                schema=schema,
                properties=view_properties(metadata),
            )
    raise Invalid(
        f"the current version of the view has schema {current_schema_id}, which is not there"
    )


def _check_shape(metadata: Metadata) -> None:
    _check_numbers(
        [
            schema_id(read_view_schema(each))
            for each in shape.objects(metadata, "schemas", "the view")
        ],
        "schemas",
    )
    versions = [read_version(each) for each in shape.objects(metadata, "versions", "the view")]
    _check_numbers([version_id(each) for each in versions], "versions")
    for version in versions:
        refuse_duplicate_dialects(version)
    for entry in shape.objects(metadata, "version-log", "the view"):
        version_id(entry)
        shape.long(entry, "timestamp-ms", "an entry of the version log")
    facts = view_facts(metadata)
    if facts.format_version != FORMAT_VERSION:
        raise Invalid(f"Unsupported format version: {facts.format_version}")
    if not facts.view_uuid or not facts.location:
        raise Invalid("a view has a view-uuid and a location; one of them is empty")


def _check_numbers(numbers: list[int], label: str) -> None:
    if len(set(numbers)) < len(numbers):
        raise Invalid(f"two {label} of the view have the same number")


def _numbered(metadata: Metadata, number: int) -> Object:
    for version in shape.objects(metadata, "versions", "the view"):
        if version_id(version) == number:
            return version
    raise Invalid(f"the current version of the view is {number}, which is not there")


def _too_deep() -> Invalid:
    return Invalid("JSON is nested too deeply")
