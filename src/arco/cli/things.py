"""What a server tells, as far as it is shown to people; programs get the documents as they came."""

from datetime import datetime

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str
    data_type: str
    nullable: bool = True
    comment: str | None = None
    pii_type: str | None = None
    sensitivity: str | None = None


class Query(msgspec.Struct, frozen=True):
    """What a view shows, in one dialect of SQL."""

    sql: str
    dialect: str


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """A catalog, a schema, a table or a view."""

    id: str
    kind: str
    name: str
    full_name: str
    commit: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    dropped_at: datetime | None = None
    comment: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    schema: tuple[str, ...] = ()
    format: str | None = None
    table_type: str | None = None
    location: str | None = None
    schema_version: int | None = None
    columns: tuple[Column, ...] = ()
    representations: tuple[Query, ...] = ()


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One state of an object. Without an operation its commit is no longer kept."""

    number: int
    at: datetime
    actor: str
    operation: str | None = None
    fields: dict[str, object] = msgspec.field(name="object", default_factory=dict)
    columns: tuple[Column, ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One object that differs between two points."""

    change: str
    kind: str
    id: str
    name: str
    commit: int
    before: dict[str, object] = {}
    after: dict[str, object] = {}


class Manifest(msgspec.Struct, frozen=True):
    """What is published, as far as its number goes."""

    number: int


def moment(at: datetime | None) -> str:
    """A time for people."""
    return "" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"
