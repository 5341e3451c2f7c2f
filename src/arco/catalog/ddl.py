"""Requests to change the catalog, as they are asked: names, not ids; wishes, not rows.

They are decided against a snapshot (see `decide`). A field that is `UNSET` is not to be changed, None is
to be cleared.
"""

import msgspec
from msgspec import UNSET, UnsetType

from arco.catalog.model import ObjectKind, Sensitivity, TableFormat


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


class AttachedColumn(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A column as a format that rules its own tables counts it.

    The last two are the catalog's own, and count only for a column that it does not know yet.
    """

    field_id: int
    name: str
    data_type: str
    nullable: bool = True
    comment: str | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class AttachTable(Description, frozen=True, kw_only=True):
    """Give a name to a table or view whose state another chain already holds (P31).

    `location` is the managed place of the table's id, or absolute; `paths` are other places where it keeps
    files, all absolute, and no other table may have one of them. `born` is the number in that chain
    which made the table, `projected` the one that its columns were read at.
    """

    table_id: str
    schema: SchemaName
    name: str
    kind: ObjectKind = ObjectKind.TABLE
    format: TableFormat = TableFormat.ICEBERG
    location: str
    paths: tuple[str, ...] = ()
    table_uuid: str | None = None
    columns: tuple[AttachedColumn, ...] = ()
    born: int
    projected: int


class AttachTables(Request, frozen=True, kw_only=True):
    """Name several such tables in one commit: all of them, or none."""

    tables: tuple[AttachTable, ...]


class ReleaseTable(Request, frozen=True, kw_only=True):
    """Release the name of a table whose chain ended at `tombstone`, unless it was born again since.

    With `purge` its files go, too: it lies nowhere then, and nothing can come to lie where it was.
    """

    table_id: str
    tombstone: int
    purge: bool = False


class RestoreTable(Request, frozen=True, kw_only=True):
    """Name a table again whose chain goes on from `born`, as before or otherwise."""

    table_id: str
    born: int
    name: str | None = None


class MoveTable(Request, frozen=True, kw_only=True):
    """Give a table another name or another schema."""

    table_id: str
    schema: SchemaName
    name: str


class ReservePlace(Request, frozen=True, kw_only=True):
    """Keep a place free for a table that is about to move there or to write there.

    It keeps the places that it has, too.
    """

    table_id: str
    location: str


class ProjectColumns(Request, frozen=True, kw_only=True):
    """Tell the columns that a table has at a number of its chain; what is older says nothing (P34).

    `location` is where it lies by then, if it has moved to a place that was reserved.
    """

    table_id: str
    pointer: int
    columns: tuple[AttachedColumn, ...]
    location: str | None = None


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
    | AttachTable
    | AttachTables
    | ReleaseTable
    | RestoreTable
    | MoveTable
    | ReservePlace
    | ProjectColumns
)
