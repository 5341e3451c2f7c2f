"""The tables of Tier 1, domain `catalog`: what the catalog knows of its objects.

A row is replaced as a whole by the row of a later commit. Its order is the number of the manifest that
commits it and its position in that commit, stamped by the compactor; clocks decide nothing (P22). A
dropped row stays as a tombstone until it is forgotten. A table that moves to another schema leaves a row
with `_moved` behind in the bucket that it left.
"""

from arco.fold.column import Column, Kind, columns
from arco.fold.table import Bucket, Keep, Rule, Table, by_name

COMMIT = "_commit"
POSITION = "_position"
MOVED = "_moved"

_ORDER = (Column(COMMIT, Kind.INTEGER), Column(POSITION, Kind.INTEGER))
_CREATED = columns(created_at=Kind.TIME, created_by=Kind.STRING)
_CHANGED = columns(updated_at=Kind.TIME, updated_by=Kind.STRING, dropped_at=Kind.TIME)
_LIFE = (*_CREATED, *_CHANGED)
_DESCRIBED = columns(
    comment=Kind.STRING, properties=Kind.TEXTS, tags=Kind.STRINGS, owner=Kind.STRING
)


def _table(
    name: str,
    key: tuple[str, ...],
    named: tuple[Column, ...],
    *,
    parent: tuple[str, ...],
    label: str,
    bucket: Bucket | None = None,
) -> Table:
    """A Tier-1 table: all columns but the key are one group, decided by the commit."""
    rest = tuple(column.name for column in named if column.name not in key)
    rule = Rule(Keep.LAST, rest, (COMMIT, POSITION))
    return Table(name, key, (*named, *_ORDER), (rule,), parent, label, bucket)


CATALOGS = _table(
    "catalogs",
    ("catalog_id",),
    (
        *columns(catalog_id=Kind.STRING, name=Kind.STRING),
        *_DESCRIBED,
        Column("storage_root"),
        *_LIFE,
    ),
    parent=(),
    label="name",
)
SCHEMAS = _table(
    "schemas",
    ("schema_id",),
    (
        *(Column("schema_id"), Column("catalog_id"), Column("parent_id"), Column("name")),
        *(Column("path", Kind.STRINGS), *_DESCRIBED, Column("visibility"), *_LIFE),
    ),
    parent=("catalog_id", "parent_id"),
    label="name",
)
TABLES = _table(
    "tables",
    ("schema_id", "table_id"),
    (
        *(Column("table_id"), Column("catalog_id"), Column("schema_id"), Column("name")),
        *(Column("kind"), Column("format"), Column("table_type"), Column("location")),
        *(Column("table_uuid"), *_DESCRIBED, Column("pii_columns", Kind.STRINGS)),
        *columns(schema_version=Kind.INTEGER, last_field_id=Kind.INTEGER, born=Kind.INTEGER),
        *(Column("projected", Kind.INTEGER), *_LIFE, Column(MOVED, Kind.BOOLEAN)),
    ),
    parent=("schema_id",),
    label="name",
    bucket=Bucket("schema_id", 64),
)
COLUMNS = _table(
    "columns",
    ("table_id", "column_id"),
    (
        *(Column("column_id"), Column("table_id"), Column("name"), Column("data_type")),
        *columns(position=Kind.INTEGER, nullable=Kind.BOOLEAN, comment=Kind.STRING),
        *(Column("default_value"), Column("pii_type"), Column("sensitivity")),
        *(Column("field_id", Kind.INTEGER), *_LIFE),
    ),
    parent=("table_id",),
    label="position",
    bucket=Bucket("table_id", 256),
)
SCHEMA_VERSIONS = _table(
    "schema_versions",
    ("table_id", "version"),
    (
        *columns(table_id=Kind.STRING, version=Kind.INTEGER, changes=Kind.STRING),
        *columns(columns=Kind.STRING, changed_at=Kind.TIME, changed_by=Kind.STRING),
    ),
    parent=("table_id",),
    label="version",
    bucket=Bucket("table_id", 256),
)
OBJECTS = _table(
    "objects",
    ("id",),
    (Column("id"), Column("kind"), Column("parent_id"), Column("bucket_key")),
    parent=(),
    label="id",
    bucket=Bucket("id", 64),
)
# Where tables lie, but for those at the place that follows from their id. Some formats may share a place.
PLACES = _table(
    "places",
    ("location", "table_id"),
    (Column("location"), Column("table_id"), Column("format"), *_LIFE),
    parent=(),
    label="location",
)

DOMAIN = "catalog"
TIER1 = by_name((CATALOGS, SCHEMAS, TABLES, COLUMNS, SCHEMA_VERSIONS, OBJECTS, PLACES))
