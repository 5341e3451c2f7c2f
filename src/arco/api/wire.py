"""What travels: the bodies that are taken and the documents that are given, as types.

The OpenAPI document is made from these, so their docstrings and constraints are what a caller reads. Bodies
refuse unknown fields: a misspelt wish would otherwise be granted as if it had not been made.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arco.catalog.diff import How
from arco.catalog.manifest import Commit, Manifest
from arco.catalog.model import ObjectKind, Sensitivity, TableFormat, TableType

Json = Any  # whatever JSON holds: here it only passes through
# Told, not checked: the catalog knows all that a name may be, and says better what is wrong with one.
NAME_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f/\\]+$"
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        examples=["orders"],
        extra_json_schema={"pattern": NAME_PATTERN},
    ),
]
ColumnName = Annotated[str, Meta(min_length=1, max_length=255, examples=["amount"])]
DataType = Annotated[
    str,
    Meta(
        min_length=1,
        description="Spark SQL's simple string.",
        examples=["bigint", "decimal(10,2)", "struct<a:int>"],
    ),
]
Comment = Annotated[str, Meta(description="Free text of at most 64 KiB.")]
Owner = Annotated[
    str,
    Meta(description="Whoever is to be asked: `user:NAME`, or any name.", examples=["user:ada"]),
]
Location = Annotated[
    str,
    Meta(
        description="Where the files of an external table are.", examples=["s3://lake/sales/orders"]
    ),
]
DEFAULT_DIALECT = "spark"
Sql = Annotated[
    str, Meta(min_length=1, max_length=500_000, examples=["SELECT id, email FROM orders"])
]
Dialect = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description=f"Whose SQL it is; `{DEFAULT_DIALECT}` if nothing is said.",
        examples=[DEFAULT_DIALECT, "trino", "duckdb"],
    ),
]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Anything that is sent to us."""


class Described(Body, frozen=True, kw_only=True):
    """What may be said of an object when it is made."""

    name: Name
    comment: Comment | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    owner: Owner | None = None


class NewCatalog(Described, frozen=True, kw_only=True):
    """A catalog to be made."""


class NewSchema(Described, frozen=True, kw_only=True):
    """A schema to be made; `parent` has the levels above it, none for a schema at the top."""

    parent: tuple[Name, ...] = ()


class NewColumn(Body, frozen=True, kw_only=True):
    """A column to be made."""

    name: ColumnName
    data_type: DataType
    nullable: bool = True
    comment: Comment | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class NewColumns(Body, frozen=True, kw_only=True):
    """Several columns to be made in one change."""

    columns: Annotated[tuple[NewColumn, ...], Meta(min_length=1)]


class NewTable(Described, frozen=True, kw_only=True):
    """A table to be made. Without a location it is managed: its place is chosen for it."""

    format: TableFormat
    location: Location | None = None
    columns: tuple[NewColumn, ...] = ()


class Representation(Body, frozen=True, kw_only=True):
    """The query of a view in one dialect of SQL."""

    sql: Sql
    dialect: Dialect = DEFAULT_DIALECT


class NewViewColumn(Body, frozen=True, kw_only=True):
    """A column that the query of a view results in; nobody reads it off the query."""

    name: ColumnName
    data_type: DataType
    nullable: bool = True
    comment: Comment | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class NewView(Described, frozen=True, kw_only=True):
    """A view to be made: with one query, `sql` in a `dialect`, or several, `representations`.

    Names in a query that are not whole lie in `default_catalog` (none: the engine's own) and
    `default_namespace` (none: the view's schema).
    """

    columns: Annotated[tuple[NewViewColumn, ...], Meta(min_length=1)]
    sql: Sql | None = None
    dialect: Dialect | None = None
    representations: tuple[Representation, ...] = ()
    default_catalog: Name | None = None
    default_namespace: tuple[Name, ...] | None = None


class Changes(Body, frozen=True, kw_only=True):
    """What may be changed of any object: what is absent stays, null clears.

    Properties are merged: those that are not named stay, those that are null go.
    """

    name: Name | UnsetType = UNSET
    comment: Comment | UnsetType | None = UNSET
    properties: dict[str, str | None] | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType | None = UNSET
    owner: Owner | UnsetType | None = UNSET


class CatalogChanges(Changes, frozen=True, kw_only=True):
    """Changes of a catalog; `name` renames it."""


class SchemaChanges(Changes, frozen=True, kw_only=True):
    """Changes of a schema; `name` renames its last level."""


class TableChanges(Changes, frozen=True, kw_only=True):
    """Changes of a table; `name` renames it, `schema` (and `catalog`) moves it."""

    schema: Annotated[tuple[Name, ...], Meta(min_length=1)] | UnsetType = UNSET
    catalog: Name | UnsetType = UNSET


class ViewChanges(TableChanges, frozen=True, kw_only=True):
    """Changes of a view: of its name and place, of what is said of it, or of its query and columns.

    The query and the name are changed in two requests.
    """

    columns: Annotated[tuple[NewViewColumn, ...], Meta(min_length=1)] | UnsetType = UNSET
    sql: Sql | UnsetType = UNSET
    dialect: Dialect | UnsetType = UNSET
    representations: Annotated[tuple[Representation, ...], Meta(min_length=1)] | UnsetType = UNSET
    default_catalog: Name | UnsetType | None = UNSET
    default_namespace: tuple[Name, ...] | UnsetType = UNSET


class ColumnChanges(Body, frozen=True, kw_only=True):
    """Changes of a column: what is absent stays, null clears."""

    name: ColumnName | UnsetType = UNSET
    data_type: DataType | UnsetType = UNSET
    nullable: bool | UnsetType = UNSET
    comment: Comment | UnsetType | None = UNSET
    default_value: str | UnsetType | None = UNSET
    pii_type: str | UnsetType | None = UNSET
    sensitivity: Sensitivity | UnsetType | None = UNSET
    position: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET


class UndropWish(Body, frozen=True, kw_only=True):
    """How to bring an object back: under its old name, or under another."""

    name: Name | None = None


class Question(Body, frozen=True, kw_only=True):
    """A read-only SQL query over `system.*`."""

    sql: Annotated[
        str,
        Meta(min_length=1, max_length=100_000, examples=["SELECT name FROM system.tables LIMIT 5"]),
    ]
    as_of: str | None = None
    freshness: str | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that we send."""


class Thing(Document, frozen=True, kw_only=True):
    """What every object of the catalog tells of itself; `commit` is the number in its ETag."""

    id: str
    kind: ObjectKind
    name: str
    full_name: str
    comment: str | None
    properties: dict[str, str]
    tags: tuple[str, ...]
    owner: str | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    dropped_at: datetime | UnsetType = UNSET
    commit: int


class CatalogThing(Thing, frozen=True, kw_only=True):
    """A catalog."""


class SchemaThing(Thing, frozen=True, kw_only=True):
    """A schema; `schema` has all its levels, its own name last."""

    catalog: str
    schema: tuple[str, ...]
    catalog_id: str
    parent_id: str | None


class ColumnThing(Document, frozen=True, kw_only=True):
    """A column of a table."""

    id: str
    name: str
    data_type: str
    position: int
    nullable: bool
    comment: str | None
    default_value: str | None
    pii_type: str | None
    sensitivity: Sensitivity | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class TableThing(Thing, frozen=True, kw_only=True):
    """A table or a view; a list has its columns only if they are asked for."""

    catalog: str
    schema: tuple[str, ...]
    catalog_id: str
    schema_id: str
    format: TableFormat | None
    table_type: TableType | None
    location: str | None
    schema_version: int
    pii_columns: tuple[str, ...]
    columns: tuple[ColumnThing, ...] | UnsetType = UNSET


class ViewThing(TableThing, frozen=True, kw_only=True):
    """A view; a list does not tell its queries."""

    representations: tuple[Representation, ...] | UnsetType = UNSET
    default_catalog: str | UnsetType | None = UNSET
    default_namespace: tuple[str, ...] | UnsetType = UNSET


AnyThing = CatalogThing | SchemaThing | TableThing


class CatalogPage(Document, frozen=True, kw_only=True):
    """Catalogs by name."""

    items: tuple[CatalogThing, ...]
    next_page_token: str | None


class SchemaPage(Document, frozen=True, kw_only=True):
    """Schemas by name."""

    items: tuple[SchemaThing, ...]
    next_page_token: str | None


class TablePage(Document, frozen=True, kw_only=True):
    """Tables and views by name."""

    items: tuple[TableThing, ...]
    next_page_token: str | None


class ViewPage(Document, frozen=True, kw_only=True):
    """Views by name."""

    items: tuple[ViewThing, ...]
    next_page_token: str | None


class AddedColumns(Document, frozen=True, kw_only=True):
    """The columns that were added."""

    columns: tuple[ColumnThing, ...]


class SchemaVersion(Document, frozen=True, kw_only=True):
    """The columns of a table from one change to the next, and what that change was."""

    version: int
    changes: Json
    columns: Json
    changed_at: datetime
    changed_by: str


class SchemaVersionPage(Document, frozen=True, kw_only=True):
    """Versions of a table's columns, newest first."""

    items: tuple[SchemaVersion, ...]
    next_page_token: str | None


class ObjectVersion(Document, frozen=True, kw_only=True):
    """One state of an object: who made it, when, and with which commit.

    `object` has the fields of its row. The names of what it lies in are not part of its history. Without an
    operation the commit is no longer kept.
    """

    number: int
    commit_ulid: str | None
    at: datetime
    operation: str | None
    actor: str
    object: dict[str, Json]
    columns: tuple[ColumnThing, ...]


class History(Document, frozen=True, kw_only=True):
    """What became of one object, newest first."""

    items: tuple[ObjectVersion, ...]
    next_page_token: str | None


class CommitEntry(Document, frozen=True, kw_only=True):
    """The audit record of one number; `sha256` is that of its manifest, an anchor for `arco verify`."""

    number: int
    sha256: str
    published_at: datetime
    commit: Commit


class CommitPage(Document, frozen=True, kw_only=True):
    """Commits, newest first."""

    items: tuple[CommitEntry, ...]
    next_page_token: str | None


class ManifestEntry(Document, frozen=True, kw_only=True):
    """What is published in a domain; number -1 and null before anything is."""

    domain: str
    number: int
    sha256: str | None
    created_at: datetime | None
    manifest: Manifest | None


class Change(Document, frozen=True, kw_only=True):
    """One object that differs between two points; `before` and `after` have the fields that do."""

    change: How
    kind: ObjectKind
    id: str
    name: str
    commit: int
    before: dict[str, Json]
    after: dict[str, Json]


class DiffPage(Document, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What changed from one manifest to another."""

    from_: int
    to: int
    items: tuple[Change, ...]
    next_page_token: str | None


class ResultColumn(Document, frozen=True, kw_only=True):
    """A column of a query's result."""

    name: str
    type: str


class Result(Document, frozen=True, kw_only=True):
    """The result of a query."""

    columns: tuple[ResultColumn, ...]
    rows: list[list[Json]]


class Health(Document, frozen=True, kw_only=True):
    """That the process lives, or that it is ready."""

    status: Literal["live", "ready"]
    manifest: int | UnsetType = UNSET
