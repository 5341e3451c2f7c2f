"""The rows of Tier 1 as types: one struct for each table that `fold.tier1` declares.

They are what an event carries, what a snapshot gives back and what a decision makes. Unknown fields are
refused, so that a compactor never drops a column that a newer API has decided (P24).
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

import msgspec

from arco.fold.table import StateTable
from arco.fold.tier1 import CATALOGS, COLUMNS, OBJECTS, PLACES, SCHEMA_VERSIONS, SCHEMAS, TABLES

# What a file can hold, so that no event is accepted whose rows could not be written.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ObjectKind(StrEnum):
    """What an id can stand for."""

    CATALOG = "CATALOG"
    SCHEMA = "SCHEMA"
    TABLE = "TABLE"
    VIEW = "VIEW"


class TableFormat(StrEnum):
    """How a table's data lie in files."""

    DELTA = "DELTA"
    ICEBERG = "ICEBERG"
    PARQUET = "PARQUET"
    CSV = "CSV"
    JSON = "JSON"


class TableType(StrEnum):
    """Who rules the place of a table's files."""

    MANAGED = "MANAGED"
    EXTERNAL = "EXTERNAL"


class Sensitivity(StrEnum):
    """How freely a column's values may be shown."""

    PUBLIC = "PUBLIC"
    INTERNAL = "INTERNAL"
    CONFIDENTIAL = "CONFIDENTIAL"
    RESTRICTED = "RESTRICTED"


class StoredRow(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A row of some table of Tier 1."""


class LifecycleRow(StoredRow, frozen=True, kw_only=True):
    """When and by whom an object was made, changed and dropped."""

    created_at: Moment
    created_by: str
    updated_at: Moment
    updated_by: str
    dropped_at: Moment | None = None


class DescribedRow(LifecycleRow, frozen=True, kw_only=True):
    """What people say about an object."""

    comment: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    owner: str | None = None


class CatalogRow(DescribedRow, frozen=True, kw_only=True):
    """A catalog: the top of every name."""

    catalog_id: str
    name: str
    storage_root: str | None = None


class SchemaRow(DescribedRow, frozen=True, kw_only=True):
    """A schema. `name` is its leaf, `path` all its levels."""

    schema_id: str
    catalog_id: str
    parent_id: str | None = None
    name: str
    path: tuple[str, ...]
    visibility: str = "all"


class TableRow(DescribedRow, frozen=True, kw_only=True):
    """A table or a view.

    One whose state is a chain of its own was `born` at a number of that chain, and has its columns from
    the one in `projected`.
    """

    table_id: str
    catalog_id: str
    schema_id: str
    name: str
    kind: ObjectKind = ObjectKind.TABLE
    format: TableFormat | None = None
    table_type: TableType | None = None
    location: str | None = None
    table_uuid: str | None = None
    pii_columns: tuple[str, ...] = ()
    schema_version: Count = 0
    last_field_id: Count = 0  # never used again, whatever becomes of the column
    born: Count | None = None
    projected: Count | None = None
    moved: bool = msgspec.field(default=False, name="_moved")


class ColumnRow(LifecycleRow, frozen=True, kw_only=True):
    """A column of a table."""

    column_id: str
    table_id: str
    name: str
    data_type: str
    position: Count
    nullable: bool = True
    comment: str | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: Sensitivity | None = None
    field_id: Count | None = None


class SchemaVersionRow(StoredRow, frozen=True, kw_only=True):
    """The columns of a table as they were from one change to the next; both texts are JSON."""

    table_id: str
    version: Count
    changes: str
    columns: str
    changed_at: Moment
    changed_by: str


class ObjectRow(StoredRow, frozen=True, kw_only=True):
    """Where the object with this id is: `bucket_key` names the bucket of its row.

    An id that begins with `uuid:` is no object but a name from outside for the table in `parent_id`.
    """

    id: str
    kind: ObjectKind
    parent_id: str | None = None
    bucket_key: str


class PlaceRow(LifecycleRow, frozen=True, kw_only=True):
    """Where a table's files are, in the spelling by which places are compared."""

    location: str
    table_id: str
    format: TableFormat | None = None


AnyRow = CatalogRow | SchemaRow | TableRow | ColumnRow | SchemaVersionRow | ObjectRow | PlaceRow

ROWS: dict[str, type[AnyRow]] = {
    CATALOGS.name: CatalogRow,
    SCHEMAS.name: SchemaRow,
    TABLES.name: TableRow,
    COLUMNS.name: ColumnRow,
    SCHEMA_VERSIONS.name: SchemaVersionRow,
    OBJECTS.name: ObjectRow,
    PLACES.name: PlaceRow,
}

TABLE_OF: dict[type[AnyRow], StateTable] = {
    CatalogRow: CATALOGS,
    SchemaRow: SCHEMAS,
    TableRow: TABLES,
    ColumnRow: COLUMNS,
    SchemaVersionRow: SCHEMA_VERSIONS,
    ObjectRow: OBJECTS,
    PlaceRow: PLACES,
}

_NAMES: dict[type[AnyRow], dict[str, str]] = {
    kind: {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    for kind in TABLE_OF
}

R_co = TypeVar("R_co", bound=AnyRow, covariant=True)


class CommittedRow(msgspec.Struct, Generic[R_co], frozen=True):
    """A row, and the number of the commit that last changed it: its ETag."""

    row: R_co
    commit: int


def uuid_name(table_uuid: str) -> str:
    """The id under which `objects` has a uuid that is not the id of its table."""
    return f"uuid:{table_uuid.lower()}"


def to_columns(row: AnyRow) -> dict[str, object]:
    """The row as the columns of its table, without the hidden order."""
    return {column: getattr(row, name) for column, name in _NAMES[type(row)].items()}


def from_columns(kind: type[R_co], values: dict[str, object]) -> R_co:
    """The row in the columns of a file; what is null there takes its default here."""
    given = {name: value for name, value in values.items() if value is not None}
    return msgspec.convert(given, kind, strict=False)
