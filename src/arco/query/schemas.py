"""The columns of every table of `system`."""

import pyarrow as pa

from arco.fold.column import Kind
from arco.fold.table import Table
from arco.fold.tier1 import COLUMNS, TABLES, TIER1
from arco.fold.tier2 import COLUMN_STATS, LINEAGE_EDGES, QUARANTINE, TABLE_STATS, TIER2

_S, _I, _T, _L = (Kind.STRING, Kind.INTEGER, Kind.TIME, Kind.STRINGS)


def _schema(**kinds: Kind) -> pa.Schema:
    return pa.schema([pa.field(name, kind.arrow()) for name, kind in kinds.items()])


HISTORY: dict[str, pa.Schema] = {
    "commits": _schema(
        number=_I,
        commit_ulid=_S,
        kind=_S,
        created_at=_T,
        authors=_L,
        operations=_I,
        files_added=_I,
        files_removed=_I,
        path=_S,
        sha256=_S,
        parent_sha256=_S,
    ),
    "audit": _schema(
        number=_I,
        commit_ulid=_S,
        at=_T,
        actor=_S,
        operation=_S,
        kind=_S,
        object_id=_S,
        name=_S,
        request_id=_S,
        event_id=_S,
    ),
    "manifests": _schema(
        domain=_S,
        number=_I,
        created_at=_T,
        commit_ulid=_S,
        sha256=_S,
        parent_sha256=_S,
        fencing_token=_I,
        rows_changed_at=_I,
        files=_I,
        rows=_I,
        bytes=_I,
        requests=_I,
        tail_files=_I,
        frontier=_I,
        open_streams=_I,
    ),
    "files": _schema(
        domain=_S,
        table=_S,
        path=_S,
        rows=_I,
        bytes=_I,
        sha256=_S,
        place=_S,
        newest=_I,
        visibility=_S,
    ).append(pa.field("buckets", pa.list_(pa.int64()))),
    "streams": _schema(domain=_S, stream=_S, last_segment=_I),
}
HISTORY["domains"] = HISTORY["manifests"]  # the newest of each

DROPPED = _schema(kind=_S, id=_S, name=_S, parent_id=_S, dropped_at=_T, dropped_with=_S)

# Columns that are joined when they are asked for, and of which table they are.
STATISTICS = {
    TABLES.name: (TABLE_STATS, ("row_count", "size_bytes", "file_count", "last_modified_at")),
    COLUMNS.name: (COLUMN_STATS, ("null_count", "distinct_count", "min_value", "max_value")),
}
OBSERVATIONS = "observation_count"


def _visible(table: Table) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in table.visible])


def _with_statistics(table: Table) -> pa.Schema:
    statistics, names = STATISTICS[table.name]
    return pa.schema([*_visible(table), *(statistics.schema.field(name) for name in names)])


SYSTEM: dict[str, pa.Schema] = {
    **{name: _visible(table) for name, table in TIER1.items()},
    TABLES.name: _with_statistics(TABLES),
    COLUMNS.name: _with_statistics(COLUMNS),
    "dropped_objects": DROPPED,
    **HISTORY,
    **{name: _visible(table) for tables in TIER2.values() for name, table in tables.items()},
    LINEAGE_EDGES.name: _visible(LINEAGE_EDGES).append(pa.field(OBSERVATIONS, pa.int64())),
    QUARANTINE.name: pa.schema([pa.field("domain", pa.string()), *_visible(QUARANTINE)]),
}
