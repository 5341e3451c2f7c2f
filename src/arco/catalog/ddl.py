"""Requests to change the catalog.

They are decided against a snapshot (see `decide`). `UNSET` leaves a field unchanged, None clears it.
"""

import msgspec
from msgspec import UNSET, UnsetType

from arco.catalog.model import ObjectKind, Sensitivity, TableFormat


class Request(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A request to change the catalog.

    `expected` is the value of If-Match: a commit number, or as text the version of one object.
    """

    expected: int | str | None = None


class Description(Request, frozen=True, kw_only=True):
    """The descriptive fields of a request that creates an object."""

    comment: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    owner: str | None = None


class Amendment(Request, frozen=True, kw_only=True):
    """The fields that can be changed on any object.

    Properties are merged; a null value removes its key, null for all properties removes all.
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
    """Create a catalog."""

    name: str
    storage_root: str | None = None


class UpdateCatalog(Amendment, frozen=True, kw_only=True):
    """Rename or describe a catalog."""

    target: CatalogName


class DropCatalog(Request, frozen=True, kw_only=True):
    """Drop a catalog; with `force` also one that contains schemas."""

    target: CatalogName
    force: bool = False


class CreateSchema(Description, frozen=True, kw_only=True):
    """Create a schema below a catalog or another schema."""

    catalog: str
    parent: tuple[str, ...] = ()
    name: str


class UpdateSchema(Amendment, frozen=True, kw_only=True):
    """Rename or describe a schema."""

    target: SchemaName


class DropSchema(Request, frozen=True, kw_only=True):
    """Drop a schema; with `force` also one that is not empty."""

    target: SchemaName
    force: bool = False


class ColumnSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A requested column."""

    name: str
    data_type: str
    nullable: bool = True
    comment: str | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None


class CreateTable(Description, frozen=True, kw_only=True):
    """Create a table. Without a location it is managed: Arco chooses the location."""

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
    """Drop a table; it can be undropped within the retention."""

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
    """Undrop an object, under its old name or another."""

    id: str
    name: str | None = None


class AttachedColumn(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A column of a table with a pointer chain, whose format assigns the field id.

    The catalog keeps `pii_type` and `sensitivity`: they are used only for a column that it does not know.
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
    """Give a name to a table or view whose pointer chain exists already (P31).

    `location` is the managed location of the table's id, or absolute; `paths` are other absolute locations
    where it has files, none of which another table may have. `born` is the number of the first pointer,
    `projected` the number from which its columns were read.
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
    """Release the name of a table whose chain ended at `tombstone`, unless the chain goes on since.

    With `purge` its files are deleted too: the table loses its location, which no other table may take.
    """

    table_id: str
    tombstone: int
    purge: bool = False


class RestoreTable(Request, frozen=True, kw_only=True):
    """Name a dropped table again, whose chain goes on from `born`, under its old name or another."""

    table_id: str
    born: int
    name: str | None = None


class MoveTable(Request, frozen=True, kw_only=True):
    """Give a table another name or another schema."""

    table_id: str
    schema: SchemaName
    name: str


class ReservePlace(Request, frozen=True, kw_only=True):
    """Reserve a further location for a table that is about to move or to write there."""

    table_id: str
    location: str


class ProjectColumns(Request, frozen=True, kw_only=True):
    """Record the columns that a table has at a number of its chain; an older number is ignored (P34).

    `location` is its location there, if it has moved to one that was reserved.
    """

    table_id: str
    pointer: int
    columns: tuple[AttachedColumn, ...]
    location: str | None = None


class ViewQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The query of a view in one SQL dialect."""

    sql: str
    dialect: str


class CreateView(Description, frozen=True, kw_only=True):
    """Create a view. Partial names in its query are resolved in the defaults, or in its schema."""

    schema: SchemaName
    name: str
    queries: tuple[ViewQuery, ...]
    columns: tuple[ColumnSpec, ...]
    default_catalog: str | None = None
    default_namespace: tuple[str, ...] | None = None


class Redefinition(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The changes of a view's definition; `UNSET` members stay."""

    queries: tuple[ViewQuery, ...] | UnsetType = UNSET
    columns: tuple[ColumnSpec, ...] | UnsetType = UNSET
    default_catalog: str | UnsetType | None = UNSET
    default_namespace: tuple[str, ...] | UnsetType = UNSET

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return all(getattr(self, name) is UNSET for name in self.__struct_fields__)


class UpdateView(UpdateTable, frozen=True, kw_only=True):
    """Rename, move, describe or redefine a view."""

    redefinition: Redefinition = Redefinition()


class DropView(DropTable, frozen=True, kw_only=True):
    """Drop a view; it can be undropped until the retention ends."""


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

ColumnRequest = AddColumns | UpdateColumn | DropColumn

# What the catalog's own API takes. Views have no request of their own in a commit: their format carries
# theirs out, and asks the catalog for a name.
CatalogRequest = Ddl | CreateView | UpdateView | DropView


def destination(request: UpdateTable) -> TableName:
    """The name of a table after a request."""
    old = request.target
    return TableName(
        old.catalog if request.catalog is UNSET else request.catalog,
        old.schema if request.schema is UNSET else request.schema,
        old.table if request.name is UNSET else request.name,
    )
