"""The rows of Tier 1 as types: one struct for each table that `fold.tier1` declares.

Decisions make them, events carry them and snapshots return them. Unknown fields are refused, so that a
compactor never loses a column that a newer API process wrote (P24).
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

import msgspec

from arco.fold.table import StateTable
from arco.fold.tier1 import CATALOGS, COLUMNS, OBJECTS, PLACES, SCHEMA_VERSIONS, SCHEMAS, TABLES

# The range of the Parquet columns, so that no event is accepted whose rows cannot be written.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ObjectKind(StrEnum):
    """The kind of an object."""

    CATALOG = "CATALOG"
    SCHEMA = "SCHEMA"
    TABLE = "TABLE"
    VIEW = "VIEW"


class TableFormat(StrEnum):
    """The format of a table's data files."""

    DELTA = "DELTA"
    ICEBERG = "ICEBERG"
    PARQUET = "PARQUET"
    CSV = "CSV"
    JSON = "JSON"


class TableType(StrEnum):
    """Whether Arco or the user chooses the location of a table."""

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
    """A row of a table of Tier 1."""


class LifecycleRow(StoredRow, frozen=True, kw_only=True):
    """The audit fields: when and by whom an object was created, changed and dropped."""

    created_at: Moment
    created_by: str
    updated_at: Moment
    updated_by: str
    dropped_at: Moment | None = None


class DescribedRow(LifecycleRow, frozen=True, kw_only=True):
    """The descriptive fields of an object."""

    comment: str | None = None
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    owner: str | None = None


class CatalogRow(DescribedRow, frozen=True, kw_only=True):
    """A catalog: the first level of every name."""

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

    For a table with a pointer chain, `born` is the number of its first pointer (or of its tombstone), and
    `projected` the number from which its columns were read.
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
    last_field_id: Count = 0  # field ids are never reused
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
    """One schema version of a table; `changes` and `columns` are JSON."""

    table_id: str
    version: Count
    changes: str
    columns: str
    changed_at: Moment
    changed_by: str


class ObjectRow(StoredRow, frozen=True, kw_only=True):
    """Locates the object with this id: `bucket_key` selects the bucket of its row.

    An id that begins with `uuid:` is an alias: the uuid that Iceberg clients know the table `parent_id` by.
    """

    id: str
    kind: ObjectKind
    parent_id: str | None = None
    bucket_key: str


class PlaceRow(LifecycleRow, frozen=True, kw_only=True):
    """A location where a table has files, as a place name (see `location.place_name`)."""

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
    """The id in `objects` of a table's uuid that differs from its id."""
    return f"uuid:{table_uuid.lower()}"


def to_columns(row: AnyRow) -> dict[str, object]:
    """The row as the columns of its table, without the hidden order."""
    return {column: getattr(row, name) for column, name in _NAMES[type(row)].items()}


def from_columns(kind: type[R_co], values: dict[str, object]) -> R_co:
    """The row from the columns of a file; nulls become the default of their field."""
    present = {name: value for name, value in values.items() if value is not None}
    return msgspec.convert(present, kind, strict=False)
