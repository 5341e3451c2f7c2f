"""The bodies that the native API takes, as types.

The OpenAPI document is made from them, so their docstrings and constraints are what a caller reads. Bodies
refuse unknown fields: a misspelt one would otherwise be ignored.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arco.api.http.request import NAME_PATTERN
from arco.catalog.model import Sensitivity, TableFormat

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
    Meta(
        description="The person or team that is responsible: `user:NAME`, or any name.",
        examples=["user:ada"],
    ),
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
        description=f"The SQL dialect of the query; `{DEFAULT_DIALECT}` by default.",
        examples=[DEFAULT_DIALECT, "trino", "duckdb"],
    ),
]


class RequestModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that a client sends."""


class NewObject(RequestModel, frozen=True, kw_only=True):
    """The fields of every new object."""

    name: Name
    comment: Comment | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    owner: Owner | None = None


class NewCatalog(NewObject, frozen=True, kw_only=True):
    """A catalog to be made."""


class NewSchema(NewObject, frozen=True, kw_only=True):
    """A schema to be made; `parent` has the levels above it, none for a schema at the top."""

    parent: tuple[Name, ...] = ()


class NewColumn(RequestModel, frozen=True, kw_only=True):
    """A column to be made."""

    name: ColumnName
    data_type: DataType
    nullable: bool = True
    comment: Comment | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class NewColumns(RequestModel, frozen=True, kw_only=True):
    """Several columns to be made in one change."""

    columns: Annotated[tuple[NewColumn, ...], Meta(min_length=1)]


class NewTable(NewObject, frozen=True, kw_only=True):
    """A table to be made. Without a location it is managed: its place is chosen for it."""

    format: TableFormat
    location: Location | None = None
    columns: tuple[NewColumn, ...] = ()


class Representation(RequestModel, frozen=True, kw_only=True):
    """The query of a view in one dialect of SQL."""

    sql: Sql
    dialect: Dialect = DEFAULT_DIALECT


class NewViewColumn(RequestModel, frozen=True, kw_only=True):
    """A column in the result of a view's query; it is declared, not derived from the query."""

    name: ColumnName
    data_type: DataType
    nullable: bool = True
    comment: Comment | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class NewView(NewObject, frozen=True, kw_only=True):
    """A view to be made: with one query, `sql` in a `dialect`, or several, `representations`.

    Unqualified names in a query are resolved in `default_catalog` (by default the engine's own) and
    `default_namespace` (by default the view's schema).
    """

    columns: Annotated[tuple[NewViewColumn, ...], Meta(min_length=1)]
    sql: Sql | None = None
    dialect: Dialect | None = None
    representations: tuple[Representation, ...] = ()
    default_catalog: Name | None = None
    default_namespace: tuple[Name, ...] | None = None


class ObjectChanges(RequestModel, frozen=True, kw_only=True):
    """The fields of every object that may change: an absent field stays, null clears it.

    Properties are merged: absent ones stay, null removes one.
    """

    name: Name | UnsetType = UNSET
    comment: Comment | UnsetType | None = UNSET
    properties: dict[str, str | None] | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType | None = UNSET
    owner: Owner | UnsetType | None = UNSET


class CatalogChanges(ObjectChanges, frozen=True, kw_only=True):
    """Changes of a catalog; `name` renames it."""


class SchemaChanges(ObjectChanges, frozen=True, kw_only=True):
    """Changes of a schema; `name` renames its last level."""


class TableChanges(ObjectChanges, frozen=True, kw_only=True):
    """Changes of a table; `name` renames it, `schema` (and `catalog`) moves it."""

    schema: Annotated[tuple[Name, ...], Meta(min_length=1)] | UnsetType = UNSET
    catalog: Name | UnsetType = UNSET


class ViewChanges(TableChanges, frozen=True, kw_only=True):
    """Changes of a view: of its name and place, its description, or its query and columns.

    The query and the name are changed in two requests.
    """

    columns: Annotated[tuple[NewViewColumn, ...], Meta(min_length=1)] | UnsetType = UNSET
    sql: Sql | UnsetType = UNSET
    dialect: Dialect | UnsetType = UNSET
    representations: Annotated[tuple[Representation, ...], Meta(min_length=1)] | UnsetType = UNSET
    default_catalog: Name | UnsetType | None = UNSET
    default_namespace: tuple[Name, ...] | UnsetType = UNSET


class ColumnChanges(RequestModel, frozen=True, kw_only=True):
    """Changes of a column: what is absent stays, null clears."""

    name: ColumnName | UnsetType = UNSET
    data_type: DataType | UnsetType = UNSET
    nullable: bool | UnsetType = UNSET
    comment: Comment | UnsetType | None = UNSET
    default_value: str | UnsetType | None = UNSET
    pii_type: str | UnsetType | None = UNSET
    sensitivity: Sensitivity | UnsetType | None = UNSET
    position: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET


class UndropRequest(RequestModel, frozen=True, kw_only=True):
    """How to bring an object back: under its old name, or under another."""

    name: Name | None = None


class QueryRequest(RequestModel, frozen=True, kw_only=True):
    """A read-only SQL query over `system.*`."""

    sql: Annotated[
        str,
        Meta(min_length=1, max_length=100_000, examples=["SELECT name FROM system.tables LIMIT 5"]),
    ]
    as_of: str | None = None
    freshness: str | None = None
