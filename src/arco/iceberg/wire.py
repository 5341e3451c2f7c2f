"""Request bodies of the Iceberg REST protocol.

Updates and requirements stay JSON: the metadata engine reads them. Unknown fields are accepted, since
clients may be newer than this server.
"""

from typing import Any, TypeVar

import msgspec

from arco.core import json
from arco.core.errors import Invalid

T = TypeVar("T")


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A request body of the protocol."""


class Identifier(Wire, frozen=True, kw_only=True):
    """The name of a table or view."""

    namespace: tuple[str, ...]
    name: str


class CreateNamespaceRequest(Wire, frozen=True, kw_only=True):
    """Create a namespace and its missing parents."""

    namespace: tuple[str, ...]
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class UpdatePropertiesRequest(Wire, frozen=True, kw_only=True):
    """Remove and set properties of a namespace."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = msgspec.field(default_factory=dict)


class CreateTableRequest(Wire, frozen=True, kw_only=True):
    """Create a table, or stage its creation."""

    name: str
    schema: dict[str, Any]
    location: str | None = None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool | None = None
    properties: dict[str, str] | None = None


class RegisterTableRequest(Wire, frozen=True, kw_only=True):
    """Register an existing metadata file under a name."""

    name: str
    metadata_location: str
    overwrite: bool | None = None


class CommitTableRequest(Wire, frozen=True, kw_only=True):
    """Change a table if the requirements hold."""

    requirements: tuple[dict[str, Any], ...] = ()
    updates: tuple[dict[str, Any], ...] = ()
    identifier: Identifier | None = None


class CommitTransactionRequest(Wire, frozen=True, kw_only=True):
    """Change several tables, all or none."""

    table_changes: tuple[CommitTableRequest, ...]


class RenameRequest(Wire, frozen=True, kw_only=True):
    """Rename a table or view, perhaps into another namespace."""

    source: Identifier
    destination: Identifier


class CreateViewRequest(Wire, frozen=True, kw_only=True):
    """Create a view."""

    name: str
    schema: dict[str, Any]
    view_version: dict[str, Any]
    location: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class CommitViewRequest(Wire, frozen=True, kw_only=True):
    """Change a view if the requirements hold."""

    requirements: tuple[dict[str, Any], ...] = ()
    updates: tuple[dict[str, Any], ...] = ()
    identifier: Identifier | None = None


class RegisterViewRequest(Wire, frozen=True, kw_only=True):
    """Register an existing metadata file of a view under a name."""

    name: str
    metadata_location: str


def read_request(raw: bytes, kind: type[T]) -> T:
    """A request body decoded as `kind`, or `Invalid`.

    A null member counts as omitted: some clients write an empty list or map as null. Nulls are removed
    only if decoding fails, so that other requests do not pay for it.
    """
    try:
        return json.decode(raw, kind)
    except Invalid:
        full_name = _without_nulls(json.decode(raw, object))
    try:
        return msgspec.convert(full_name, kind)
    except msgspec.ValidationError as problem:
        raise Invalid(json.explain(problem)) from problem


def _without_nulls(value: object) -> object:
    """A request without its null members and those of nested requests; updates stay as they are."""
    if not isinstance(value, dict):
        return value
    members = {key: member for key, member in value.items() if member is not None}
    changes = members.get("table-changes")
    if isinstance(changes, list):
        members["table-changes"] = [_without_nulls(each) for each in changes]
    return members
