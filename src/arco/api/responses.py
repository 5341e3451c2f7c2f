"""The documents that the native API sends, as types, and how rows of the catalog become them.

The OpenAPI document is made from the types, so their docstrings are what a caller reads.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from arco.api.requests import Representation
from arco.catalog.diff import ChangeKind
from arco.catalog.manifest import Commit, Manifest
from arco.catalog.model import (
    CatalogRow,
    ColumnRow,
    CommittedRow,
    DescribedRow,
    ObjectKind,
    SchemaRow,
    Sensitivity,
    TableFormat,
    TableRow,
    TableType,
)
from arco.catalog.name import print_dotted
from arco.catalog.table_format import ViewDefinition

Json = Any  # any JSON value, passed through


class ResponseModel(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is sent."""


class ObjectResponse(ResponseModel, frozen=True, kw_only=True):
    """The fields of every object of the catalog; `commit` is the number in its ETag."""

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


class CatalogResponse(ObjectResponse, frozen=True, kw_only=True):
    """A catalog."""


class SchemaResponse(ObjectResponse, frozen=True, kw_only=True):
    """A schema; `schema` has all its levels, its own name last."""

    catalog: str
    schema: tuple[str, ...]
    catalog_id: str
    parent_id: str | None


class ColumnResponse(ResponseModel, frozen=True, kw_only=True):
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


class TableResponse(ObjectResponse, frozen=True, kw_only=True):
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
    columns: tuple[ColumnResponse, ...] | UnsetType = UNSET


class ViewResponse(TableResponse, frozen=True, kw_only=True):
    """A view; a list omits the queries of its views."""

    representations: tuple[Representation, ...] | UnsetType = UNSET
    default_catalog: str | UnsetType | None = UNSET
    default_namespace: tuple[str, ...] | UnsetType = UNSET


AnyObjectResponse = CatalogResponse | SchemaResponse | TableResponse


class CatalogPage(ResponseModel, frozen=True, kw_only=True):
    """Catalogs by name."""

    items: tuple[CatalogResponse, ...]
    next_page_token: str | None


class SchemaPage(ResponseModel, frozen=True, kw_only=True):
    """Schemas by name."""

    items: tuple[SchemaResponse, ...]
    next_page_token: str | None


class TablePage(ResponseModel, frozen=True, kw_only=True):
    """Tables and views by name."""

    items: tuple[TableResponse, ...]
    next_page_token: str | None


class ViewPage(ResponseModel, frozen=True, kw_only=True):
    """Views by name."""

    items: tuple[ViewResponse, ...]
    next_page_token: str | None


class AddedColumns(ResponseModel, frozen=True, kw_only=True):
    """The columns that were added."""

    columns: tuple[ColumnResponse, ...]


class SchemaVersion(ResponseModel, frozen=True, kw_only=True):
    """The columns of a table from one change to the next, and what that change was."""

    version: int
    changes: Json
    columns: Json
    changed_at: datetime
    changed_by: str


class SchemaVersionPage(ResponseModel, frozen=True, kw_only=True):
    """Versions of a table's columns, newest first."""

    items: tuple[SchemaVersion, ...]
    next_page_token: str | None


class ObjectVersion(ResponseModel, frozen=True, kw_only=True):
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
    columns: tuple[ColumnResponse, ...]


class ObjectHistory(ResponseModel, frozen=True, kw_only=True):
    """What became of one object, newest first."""

    items: tuple[ObjectVersion, ...]
    next_page_token: str | None


class CommitEntry(ResponseModel, frozen=True, kw_only=True):
    """The audit record of one number; `sha256` is that of its manifest, an anchor for `arco verify`."""

    number: int
    sha256: str
    published_at: datetime
    commit: Commit


class CommitPage(ResponseModel, frozen=True, kw_only=True):
    """Commits, newest first."""

    items: tuple[CommitEntry, ...]
    next_page_token: str | None


class ManifestEntry(ResponseModel, frozen=True, kw_only=True):
    """What is published in a domain; number -1 and null before anything is."""

    domain: str
    number: int
    sha256: str | None
    created_at: datetime | None
    manifest: Manifest | None


class DiffChange(ResponseModel, frozen=True, kw_only=True):
    """One object that differs between two points; `before` and `after` have the fields that do."""

    change: ChangeKind
    kind: ObjectKind
    id: str
    name: str
    commit: int
    before: dict[str, Json]
    after: dict[str, Json]


class DiffPage(ResponseModel, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What changed from one manifest to another."""

    from_: int
    to: int
    items: tuple[DiffChange, ...]
    next_page_token: str | None


class ResultColumn(ResponseModel, frozen=True, kw_only=True):
    """A column of a query's result."""

    name: str
    type: str


class QueryResponse(ResponseModel, frozen=True, kw_only=True):
    """The result of a query."""

    columns: tuple[ResultColumn, ...]
    rows: list[list[Json]]


class Health(ResponseModel, frozen=True, kw_only=True):
    """That the process lives, or that it is ready."""

    status: Literal["live", "ready"]
    manifest: int | UnsetType = UNSET


def catalog_response(item: CommittedRow[CatalogRow]) -> CatalogResponse:
    """The response for a catalog."""
    row = item.row
    return CatalogResponse(
        id=row.catalog_id,
        kind=ObjectKind.CATALOG,
        name=row.name,
        full_name=print_dotted((row.name,)),
        commit=item.commit,
        **_described(row),
    )


def schema_response(item: CommittedRow[SchemaRow], catalog: str) -> SchemaResponse:
    """The response for a schema."""
    row = item.row
    return SchemaResponse(
        id=row.schema_id,
        kind=ObjectKind.SCHEMA,
        name=row.name,
        full_name=print_dotted((catalog, *row.path)),
        catalog=catalog,
        schema=row.path,
        catalog_id=row.catalog_id,
        parent_id=row.parent_id,
        commit=item.commit,
        **_described(row),
    )


def table_response(
    item: CommittedRow[TableRow],
    catalog: str,
    schema: tuple[str, ...],
    columns: Sequence[ColumnRow] | None = None,
    *,
    root: str = "",
) -> TableResponse:
    """The response for a table; the location of a managed table is relative to `root`."""
    row = item.row
    return TableResponse(
        id=row.table_id,
        kind=row.kind,
        name=row.name,
        full_name=print_dotted((catalog, *schema, row.name)),
        catalog=catalog,
        schema=schema,
        catalog_id=row.catalog_id,
        schema_id=row.schema_id,
        format=row.format,
        table_type=row.table_type,
        location=_location(row, root),
        schema_version=row.schema_version,
        pii_columns=row.pii_columns,
        columns=UNSET if columns is None else tuple(column_response(each) for each in columns),
        commit=item.commit,
        **_described(row),
    )


def view_response(table: TableResponse, definition: ViewDefinition | None = None) -> ViewResponse:
    """The response for a view, with its definition if it was read."""
    fields = msgspec.structs.asdict(table)
    if definition is None:
        return ViewResponse(**fields)
    return ViewResponse(
        **fields,
        representations=tuple(
            Representation(sql=each.sql, dialect=each.dialect) for each in definition.queries
        ),
        default_catalog=definition.default_catalog,
        default_namespace=definition.default_namespace,
    )


def column_response(row: ColumnRow) -> ColumnResponse:
    """The response for a column."""
    return ColumnResponse(
        id=row.column_id,
        name=row.name,
        data_type=row.data_type,
        position=row.position,
        nullable=row.nullable,
        comment=row.comment,
        default_value=row.default_value,
        pii_type=row.pii_type,
        sensitivity=row.sensitivity,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def _location(row: TableRow, root: str) -> str | None:
    if row.location is None or row.table_type is not TableType.MANAGED:
        return row.location
    return root + row.location


def _described(row: DescribedRow) -> dict[str, Any]:
    return {
        "comment": row.comment,
        "properties": row.properties,
        "tags": row.tags,
        "owner": row.owner,
        "created_at": row.created_at,
        "created_by": row.created_by,
        "updated_at": row.updated_at,
        "updated_by": row.updated_by,
        "dropped_at": UNSET if row.dropped_at is None else row.dropped_at,
    }
