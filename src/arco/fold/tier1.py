"""The state tables of Tier 1, domain `catalog`: the objects of the catalog.

A row is replaced as a whole by the row of a later commit. Its order is the number of the manifest that
commits it and its position in that commit, stamped by the compactor; clocks decide nothing (P22). A dropped
row stays as a tombstone until retention removes it. A table that moves to another schema leaves a row with
`_moved` in its old bucket.
"""

from arco.fold.table import (
    BOOLEAN,
    INTEGER,
    STRING,
    STRINGS,
    TEXTS,
    TIME,
    BucketSpec,
    MergeRule,
    MergeStrategy,
    StateColumn,
    StateTable,
    columns,
    tables_by_name,
)

COMMIT = "_commit"
POSITION = "_position"
MOVED = "_moved"

_ORDER = (StateColumn(COMMIT, INTEGER), StateColumn(POSITION, INTEGER))
_CREATED = columns(created_at=TIME, created_by=STRING)
_CHANGED = columns(updated_at=TIME, updated_by=STRING, dropped_at=TIME)
_LIFE = (*_CREATED, *_CHANGED)
_DESCRIBED = columns(comment=STRING, properties=TEXTS, tags=STRINGS, owner=STRING)


def _table(
    name: str,
    key: tuple[str, ...],
    columns: tuple[StateColumn, ...],
    *,
    parent: tuple[str, ...],
    label: str,
    bucket: BucketSpec | None = None,
) -> StateTable:
    """A Tier 1 table: all columns but the key are merged together, by the commit."""
    rest = tuple(column.name for column in columns if column.name not in key)
    rule = MergeRule(MergeStrategy.LAST, rest, (COMMIT, POSITION))
    return StateTable(name, key, (*columns, *_ORDER), (rule,), parent, label, bucket)


CATALOGS = _table(
    "catalogs",
    ("catalog_id",),
    (
        *columns(catalog_id=STRING, name=STRING),
        *_DESCRIBED,
        StateColumn("storage_root"),
        *_LIFE,
    ),
    parent=(),
    label="name",
)
SCHEMAS = _table(
    "schemas",
    ("schema_id",),
    (
        *(
            StateColumn("schema_id"),
            StateColumn("catalog_id"),
            StateColumn("parent_id"),
            StateColumn("name"),
        ),
        *(StateColumn("path", STRINGS), *_DESCRIBED, StateColumn("visibility"), *_LIFE),
    ),
    parent=("catalog_id", "parent_id"),
    label="name",
)
TABLES = _table(
    "tables",
    ("schema_id", "table_id"),
    (
        *(
            StateColumn("table_id"),
            StateColumn("catalog_id"),
            StateColumn("schema_id"),
            StateColumn("name"),
        ),
        *(
            StateColumn("kind"),
            StateColumn("format"),
            StateColumn("table_type"),
            StateColumn("location"),
        ),
        *(StateColumn("table_uuid"), *_DESCRIBED, StateColumn("pii_columns", STRINGS)),
        *columns(schema_version=INTEGER, last_field_id=INTEGER, born=INTEGER),
        *(StateColumn("projected", INTEGER), *_LIFE, StateColumn(MOVED, BOOLEAN)),
    ),
    parent=("schema_id",),
    label="name",
    bucket=BucketSpec("schema_id", 64),
)
COLUMNS = _table(
    "columns",
    ("table_id", "column_id"),
    (
        *(
            StateColumn("column_id"),
            StateColumn("table_id"),
            StateColumn("name"),
            StateColumn("data_type"),
        ),
        *columns(position=INTEGER, nullable=BOOLEAN, comment=STRING),
        *(StateColumn("default_value"), StateColumn("pii_type"), StateColumn("sensitivity")),
        *(StateColumn("field_id", INTEGER), *_LIFE),
    ),
    parent=("table_id",),
    label="position",
    bucket=BucketSpec("table_id", 256),
)
SCHEMA_VERSIONS = _table(
    "schema_versions",
    ("table_id", "version"),
    (
        *columns(table_id=STRING, version=INTEGER, changes=STRING),
        *columns(columns=STRING, changed_at=TIME, changed_by=STRING),
    ),
    parent=("table_id",),
    label="version",
    bucket=BucketSpec("table_id", 256),
)
OBJECTS = _table(
    "objects",
    ("id",),
    (StateColumn("id"), StateColumn("kind"), StateColumn("parent_id"), StateColumn("bucket_key")),
    parent=(),
    label="id",
    bucket=BucketSpec("id", 64),
)
# Locations of tables, except default ones, which follow from the table's id. Some formats may share one.
PLACES = _table(
    "places",
    ("location", "table_id"),
    (StateColumn("location"), StateColumn("table_id"), StateColumn("format"), *_LIFE),
    parent=(),
    label="location",
)

DOMAIN = "catalog"
TIER1 = tables_by_name((CATALOGS, SCHEMAS, TABLES, COLUMNS, SCHEMA_VERSIONS, OBJECTS, PLACES))
