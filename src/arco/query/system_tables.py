"""The tables of `system`: their columns, and the state tables or chains that they are made of.

Most are one state table. Some read others too: to find what is live, to count, or for statistics, which are
read only by a query that uses them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from arco.fold.table import INTEGER, STRING, STRINGS, TIME, ColumnType, StateTable
from arco.fold.tier1 import (
    CATALOGS,
    COLUMNS,
    DOMAIN,
    OBJECTS,
    PLACES,
    SCHEMA_VERSIONS,
    SCHEMAS,
    TABLES,
    TIER1,
)
from arco.fold.tier2 import (
    COLUMN_STATS,
    EDGE_OBSERVATIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    OCCURRED,
    QUARANTINE,
    TABLE_STATS,
    TIER2,
)


def _schema(**kinds: ColumnType) -> pa.Schema:
    return pa.schema([pa.field(name, kind.arrow()) for name, kind in kinds.items()])


CHAIN_SCHEMAS: dict[str, pa.Schema] = {
    "commits": _schema(
        number=INTEGER,
        commit_ulid=STRING,
        kind=STRING,
        created_at=TIME,
        authors=STRINGS,
        operations=INTEGER,
        files_added=INTEGER,
        files_removed=INTEGER,
        path=STRING,
        sha256=STRING,
        parent_sha256=STRING,
    ),
    "audit": _schema(
        number=INTEGER,
        commit_ulid=STRING,
        at=TIME,
        actor=STRING,
        operation=STRING,
        kind=STRING,
        object_id=STRING,
        name=STRING,
        request_id=STRING,
        event_id=STRING,
    ),
    "manifests": _schema(
        domain=STRING,
        number=INTEGER,
        created_at=TIME,
        commit_ulid=STRING,
        sha256=STRING,
        parent_sha256=STRING,
        fencing_token=INTEGER,
        rows_changed_at=INTEGER,
        files=INTEGER,
        rows=INTEGER,
        bytes=INTEGER,
        requests=INTEGER,
        tail_files=INTEGER,
        frontier=INTEGER,
        open_streams=INTEGER,
    ),
    "files": _schema(
        domain=STRING,
        table=STRING,
        path=STRING,
        rows=INTEGER,
        bytes=INTEGER,
        sha256=STRING,
        place=STRING,
        newest=INTEGER,
        visibility=STRING,
    ).append(pa.field("buckets", pa.list_(pa.int64()))),
    "streams": _schema(domain=STRING, stream=STRING, last_segment=INTEGER),
}
CHAIN_SCHEMAS["domains"] = CHAIN_SCHEMAS["manifests"]  # the newest manifest of each

DROPPED_SCHEMA = _schema(
    kind=STRING, id=STRING, name=STRING, parent_id=STRING, dropped_at=TIME, dropped_with=STRING
)

# Columns that are joined if a query uses them, and the state table that they are from.
STATISTICS = {
    TABLES.name: (TABLE_STATS, ("row_count", "size_bytes", "file_count", "last_modified_at")),
    COLUMNS.name: (COLUMN_STATS, ("null_count", "distinct_count", "min_value", "max_value")),
}
OBSERVATION_COUNT = "observation_count"


def _visible(table: StateTable) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in table.visible])


def _with_statistics(table: StateTable) -> pa.Schema:
    statistics, names = STATISTICS[table.name]
    return pa.schema([*_visible(table), *(statistics.schema.field(name) for name in names)])


SYSTEM_SCHEMAS: dict[str, pa.Schema] = {
    **{name: _visible(table) for name, table in TIER1.items()},
    TABLES.name: _with_statistics(TABLES),
    COLUMNS.name: _with_statistics(COLUMNS),
    "dropped_objects": DROPPED_SCHEMA,
    **CHAIN_SCHEMAS,
    **{name: _visible(table) for tables in TIER2.values() for name, table in tables.items()},
    LINEAGE_EDGES.name: _visible(LINEAGE_EDGES).append(pa.field(OBSERVATION_COUNT, pa.int64())),
    QUARANTINE.name: pa.schema([pa.field("domain", pa.string()), *_visible(QUARANTINE)]),
}


DOMAIN_COLUMN = "domain"  # of tables that show several domains
DOMAINS = (DOMAIN, *TIER2)


@dataclass(frozen=True)
class DomainTable:
    """A state table in its domain."""

    domain: str
    table: StateTable

    @property
    def name(self) -> str:
        return f"{self.domain}/{self.table.name}"

    def columns_for(self, used: Iterable[str]) -> tuple[str, ...]:
        """The columns of a Tier 2 table that are needed to fold the used ones."""
        wanted = {*used, OCCURRED}
        names = set(self.table.key)
        for rule in self.table.rules:
            if wanted.intersection(rule.columns):
                names |= {*wanted.intersection(rule.columns), *rule.order}
        return tuple(sorted(names))


@dataclass(frozen=True)
class TableInput:
    """A state table that a table of `system` is made of.

    If it is `filtered`, a filter on a column of the table of `system` applies to the state table too.
    """

    state: DomainTable
    filtered: bool = True

    @cached_property
    def filter_columns(self) -> frozenset[str]:
        """The columns by which files can be pruned: the bucket column and the first sort column.

        Only columns of the key: a file with an older row of a key must not be read without the newer one.
        """
        table = self.state.table
        if not self.filtered:
            return frozenset()
        texts = {column.name for column in table.columns if column.kind is STRING}
        first = {table.sort[0]} | ({table.bucket.column} if table.bucket is not None else set())
        return frozenset(first & texts & set(table.key))


@dataclass(frozen=True)
class SystemTable:
    """The inputs of a table of `system`; `joined_inputs` are read only for the `joined_columns`."""

    inputs: tuple[TableInput, ...]
    joined_columns: frozenset[str] = frozenset()
    joined_inputs: tuple[TableInput, ...] = ()


STATE_TABLES = {
    state.name: state
    for state in (
        *(DomainTable(DOMAIN, table) for table in TIER1.values()),
        *(
            DomainTable(domain, table)
            for domain, tables in TIER2.items()
            for table in tables.values()
        ),
    )
}


def _catalog(own: StateTable | None, *others: StateTable) -> SystemTable:
    inputs = [TableInput(DomainTable(DOMAIN, table), filtered=False) for table in others]
    inputs += [] if own is None else [TableInput(DomainTable(DOMAIN, own))]
    if own is None or own.name not in STATISTICS:
        return SystemTable(tuple(inputs))
    statistics, names = STATISTICS[own.name]
    joined = (TableInput(DomainTable(EXECUTIONS_DOMAIN, statistics)),)
    return SystemTable(tuple(inputs), frozenset(names), joined)


_CONTAINERS = (CATALOGS, SCHEMAS)
_OBJECTS = (*_CONTAINERS, TABLES)

SYSTEM_TABLES: dict[str, SystemTable] = {
    CATALOGS.name: _catalog(CATALOGS),
    SCHEMAS.name: _catalog(SCHEMAS, CATALOGS),
    TABLES.name: _catalog(TABLES, *_CONTAINERS),
    COLUMNS.name: _catalog(COLUMNS, *_OBJECTS),
    SCHEMA_VERSIONS.name: _catalog(SCHEMA_VERSIONS, *_OBJECTS),
    OBJECTS.name: _catalog(OBJECTS, *_OBJECTS),
    PLACES.name: _catalog(PLACES, *_OBJECTS),
    "dropped_objects": _catalog(None, *_OBJECTS, COLUMNS),
    **{
        name: SystemTable((TableInput(DomainTable(domain, table)),))
        for domain, tables in TIER2.items()
        for name, table in tables.items()
    },
    LINEAGE_EDGES.name: SystemTable(
        (TableInput(DomainTable(LINEAGE_DOMAIN, LINEAGE_EDGES)),),
        frozenset({OBSERVATION_COUNT}),
        (TableInput(DomainTable(LINEAGE_DOMAIN, EDGE_OBSERVATIONS)),),
    ),
    QUARANTINE.name: SystemTable(
        tuple(TableInput(DomainTable(domain, QUARANTINE)) for domain in TIER2)
    ),
}

# The tables that are made of chains of manifests, and the domains of the chains.
CHAIN_TABLES: dict[str, tuple[str, ...]] = {
    name: (DOMAIN,) if name in ("commits", "audit") else DOMAINS for name in CHAIN_SCHEMAS
}


def filter_columns(view: str) -> frozenset[str]:
    """The columns of a table of `system` whose filters prune files or domains."""
    if view in CHAIN_TABLES:
        return frozenset({DOMAIN_COLUMN}) if len(CHAIN_TABLES[view]) > 1 else frozenset()
    table = SYSTEM_TABLES[view]
    domain = {DOMAIN_COLUMN} if view == QUARANTINE.name else set()
    inputs = (*table.inputs, *table.joined_inputs)
    return frozenset(domain).union(*(each.filter_columns for each in inputs))
