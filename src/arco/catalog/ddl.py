"""Requests to change the catalog, as they are asked: names, not ids; wishes, not rows.

They are decided against a snapshot (see `decide`). A field that is `UNSET` is not to be changed, None is
to be cleared.
"""

import msgspec
from msgspec import UNSET, UnsetType

from arco.catalog.model import Sensitivity, TableFormat


class Request(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Anything that can be asked of the catalog.

    `expected` is what an If-Match demands: a commit, or as text the version of one object.
    """

    expected: int | str | None = None


class Description(Request, frozen=True, kw_only=True):
    """What may be said of an object when it is made."""

    comment: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    owner: str | None = None


class Amendment(Request, frozen=True, kw_only=True):
    """What may be changed of any object.

    Properties are merged; a null value removes its key, null in their place removes all.
    """

    name: str | UnsetType = UNSET
    comment: str | UnsetType | None = UNSET
    properties: dict[str, str | None] | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    owner: str | UnsetType | None = UNSET


class CatalogName(msgspec.Struct, frozen=True):
    """A catalog by its name."""

    catalog: str


class SchemaName(msgspec.Struct, frozen=True):
    """A schema by its catalog and its levels."""

    catalog: str
    path: tuple[str, ...]


class TableName(msgspec.Struct, frozen=True):
    """A table or view by its schema and its name."""

    catalog: str
    schema: tuple[str, ...]
    table: str


class CreateCatalog(Description, frozen=True, kw_only=True):
    """Make a catalog."""

    name: str
    storage_root: str | None = None


class UpdateCatalog(Amendment, frozen=True, kw_only=True):
    """Rename or describe a catalog."""

    target: CatalogName


class DropCatalog(Request, frozen=True, kw_only=True):
    """Drop a catalog; with `force` also one that holds schemas."""

    target: CatalogName
    force: bool = False


class CreateSchema(Description, frozen=True, kw_only=True):
    """Make a schema below a catalog or another schema."""

    catalog: str
    parent: tuple[str, ...] = ()
    name: str


class UpdateSchema(Amendment, frozen=True, kw_only=True):
    """Rename or describe a schema."""

    target: SchemaName


class DropSchema(Request, frozen=True, kw_only=True):
    """Drop a schema; with `force` also one that holds something."""

    target: SchemaName
    force: bool = False


class ColumnSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A column as it is asked for."""

    name: str
    data_type: str
    nullable: bool = True
    comment: str | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class CreateTable(Description, frozen=True, kw_only=True):
    """Make a table. Without a location it is managed: its place is ours to choose."""

    schema: SchemaName
    name: str
    format: TableFormat
    location: str | None = None
    columns: tuple[ColumnSpec, ...] = ()


class UpdateTable(Amendment, frozen=True, kw_only=True):
    """Rename, describe or move a table; `schema` alone moves it within its catalog."""

    target: TableName
    catalog: str | UnsetType = UNSET
    schema: tuple[str, ...] | UnsetType = UNSET


class DropTable(Request, frozen=True, kw_only=True):
    """Drop a table; it can be undropped until it is forgotten."""

    target: TableName


class AddColumns(Request, frozen=True, kw_only=True):
    """Add columns at the end, or from `position` on."""

    target: TableName
    columns: tuple[ColumnSpec, ...]
    position: int | None = None


class UpdateColumn(Request, frozen=True, kw_only=True):
    """Change one column."""

    target: TableName
    column: str
    name: str | UnsetType = UNSET
    data_type: str | UnsetType = UNSET
    nullable: bool | UnsetType = UNSET
    comment: str | UnsetType | None = UNSET
    default_value: str | UnsetType | None = UNSET
    pii_type: str | UnsetType | None = UNSET
    sensitivity: Sensitivity | UnsetType | None = UNSET
    position: int | UnsetType = UNSET


class DropColumn(Request, frozen=True, kw_only=True):
    """Drop one column."""

    target: TableName
    column: str


class Undrop(Request, frozen=True, kw_only=True):
    """Bring back what was dropped, under its old name or another."""

    id: str
    name: str | None = None


Ddl = (
    CreateCatalog
    | UpdateCatalog
    | DropCatalog
    | CreateSchema
    | UpdateSchema
    | DropSchema
    | CreateTable
    | UpdateTable
    | DropTable
    | AddColumns
    | UpdateColumn
    | DropColumn
    | Undrop
)
