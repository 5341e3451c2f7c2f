"""Reads the edges of the domain `lineage`, and finds those that later runs superseded.

Files are decoded once and cached by their hashes, so that a new manifest costs its new files and one merge.
A worker expands and folds the rows of a fresh read within its limits; they are then folded with the state.

A run that writes a partition replaces its data, and with it the lineage that earlier runs observed. So an
edge is superseded once every partition of its target was last written by a run that recorded lineage for
the target without this edge. The partitions are those of the domain `executions`. An edge stays if

- a partition has no recorded writer, or its writer recorded no lineage for the target;
- a writer read the source without full column lineage: that says nothing against edges between columns;
- it was observed after all lineage of the writers, because the partitions may be reported later. But the
  edge of a run that is known to have failed at the target is superseded like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.manifest import FileRef, read_named
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.hashing import sha256_hex
from arco.events.lineage_payload import COMPLETE_SOUNDNESS
from arco.fold.fold import retain
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    PARTITIONS,
)
from arco.query.inputs import SnapshotSelector
from arco.query.ledger_tail import LedgerTail, LedgerTailReader
from arco.query.limits import QueryLimits
from arco.query.lineage.graph import EDGE_COLUMNS, Mask, between_tables, mask
from arco.query.state_files import FileRows, TableCache, decode, merge
from arco.query.system_tables import DomainTable

# The columns that are read of partitions and of observations.
PARTITION_COLUMNS = (
    *("table_id", "status", "last_execution_id", "last_successful_run"),
    "last_successful_execution_id",
)
OBSERVATION_COLUMNS = ("target_table_id", "edge_id", "execution_id", "observed_at", "soundness")

_COMPLETE, _FAILED = "COMPLETE", "FAILED"
_SEPARATOR = "\n"  # between the parts of a key; ids do not contain it

EDGE_STATE = DomainTable(LINEAGE_DOMAIN, LINEAGE_EDGES)
OBSERVATION_STATE = DomainTable(LINEAGE_DOMAIN, EDGE_OBSERVATIONS)
PARTITION_STATE = DomainTable(EXECUTIONS_DOMAIN, PARTITIONS)

_PARALLEL_READS = 16

# The columns that are decoded of each table.
_COLUMNS = {
    EDGE_STATE.name: EDGE_STATE.columns_for(EDGE_COLUMNS),
    OBSERVATION_STATE.name: OBSERVATION_STATE.columns_for(OBSERVATION_COLUMNS),
    PARTITION_STATE.name: PARTITION_STATE.columns_for(PARTITION_COLUMNS),
}


@dataclass(frozen=True)
class LineageSnapshot:
    """The snapshots and ledger tails that edges are read from.

    Equal `edges_key`s mean equal edges, and equal `key`s also mean equal superseded edges.
    """

    lineage: Snapshot
    catalog: Snapshot
    executions: Snapshot
    tail: LedgerTail | None
    executions_tail: LedgerTail | None
    edges_key: str
    key: str


@dataclass(frozen=True)
class FreshRows:
    """The rows that the ledger tails make, each None without a tail."""

    edges: pa.Table | None = None
    observations: pa.Table | None = None
    partitions: pa.Table | None = None


class EdgeReader:
    """Reads all edges of a workspace, and which of them are superseded.

    `readers` are those of the catalog, of `lineage` and of `executions`, by domain.
    """

    def __init__(self, readers: Mapping[str, SnapshotReader], limits: QueryLimits) -> None:
        self._readers = readers
        self._selector = SnapshotSelector(readers)
        self._tasks = readers[DOMAIN].store.runtime.tasks
        self._tails = {
            domain: LedgerTailReader(readers[domain].store, domain, limits)
            for domain in (LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
        }
        self._files = TableCache(limits.cache_bytes)

    async def read_snapshot(self, *, fresh: bool, as_of: str | None = None) -> LineageSnapshot:
        """The newest state, or that of a number of the domain `lineage` or of a time.

        A fresh read raises `Conflict` if the ledger is garbage collected meanwhile.
        """
        snapshots = await self._selector.snapshots(
            {LINEAGE_DOMAIN}, {DOMAIN, EXECUTIONS_DOMAIN}, as_of
        )
        lineage, catalog, executions = (
            snapshots[domain] for domain in (LINEAGE_DOMAIN, DOMAIN, EXECUTIONS_DOMAIN)
        )
        executions_tail = tail = None
        if fresh:
            # Partitions first: a run reports both at once, so the lineage of every writer is then read.
            executions_tail = await self._tails[EXECUTIONS_DOMAIN].above(executions)
            tail = await self._tails[LINEAGE_DOMAIN].above(lineage)
        partition_files = await executions.files_of(PARTITION_STATE.table)
        edges_key = _key(lineage.sha256, "" if tail is None else tail.key)
        key = _key(
            edges_key,
            "" if executions_tail is None else executions_tail.key,
            str(_retention_removes_partitions(executions)),
            *(ref.sha256 for ref in partition_files),
        )
        return LineageSnapshot(lineage, catalog, executions, tail, executions_tail, edges_key, key)

    async def rows(self, snapshot: LineageSnapshot, fresh: FreshRows) -> pa.Table:
        """All edges, one row each, with the columns `EDGE_COLUMNS`."""
        edges = await self._table(snapshot.lineage, EDGE_STATE, fresh.edges)
        self._files.trim()
        return edges.select(EDGE_COLUMNS)

    async def superseded(
        self, snapshot: LineageSnapshot, edges: pa.Table, fresh: FreshRows
    ) -> Mask:
        """Which edges are superseded."""
        none = np.zeros(edges.num_rows, np.bool_)
        if _retention_removes_partitions(snapshot.executions):
            return none  # there may be more partitions, with other writers
        partitions = await self._table(snapshot.executions, PARTITION_STATE, fresh.partitions)
        if not partitions.num_rows:
            return none
        writers = await self._tasks.in_thread(lambda: _writers_of(partitions))
        candidates = await self._tasks.in_thread(lambda: _not_by_writers(edges, writers))
        if not candidates.any():
            return none
        targets = pc.unique(edges.column("target_table_id").filter(pa.array(candidates)))
        observations = await self._observations(snapshot.lineage, targets, fresh.observations)
        self._files.trim()
        return await self._tasks.in_thread(
            lambda: _superseded(edges, candidates, writers, observations)
        )

    async def _observations(
        self, lineage: Snapshot, targets: pa.Array, fresh: pa.Table | None
    ) -> pa.Table:
        """The observations of edges into some tables, not folded, so that one may occur twice."""
        table, manifest = OBSERVATION_STATE.table, lineage.manifest
        buckets = table.buckets_in(pa.table({"target_table_id": targets}))
        refs = [
            ref for ref in await lineage.files_of(table) if set(buckets).intersection(ref.buckets)
        ]
        since = None if manifest is None else manifest.retained_from.get(table.name)
        tables = [table.schema.empty_table(), *await self._read(OBSERVATION_STATE, refs)]
        tables += [] if fresh is None else [fresh]

        def select() -> pa.Table:
            own = [
                rows.filter(pc.is_in(rows.column("target_table_id"), value_set=targets))
                for rows in tables
            ]
            return retain(table, pa.concat_tables(own), since).select(OBSERVATION_COLUMNS)

        return await self._tasks.in_thread(select)

    async def _table(
        self, snapshot: Snapshot, state: DomainTable, fresh: pa.Table | None
    ) -> pa.Table:
        table, manifest = state.table, snapshot.manifest
        tail_files = () if manifest is None else manifest.tail.get(table.name, ())
        tail_paths = {ref.path for ref in tail_files}
        refs = await snapshot.files_of(table)
        files = [
            FileRows(rows, ref.path in tail_paths, frozenset(ref.buckets))
            for ref, rows in zip(refs, await self._read(state, refs), strict=True)
        ]
        if fresh is not None:
            files.append(FileRows(fresh, tail=True, buckets=frozenset(table.buckets_in(fresh))))
        since = None if manifest is None else manifest.retained_from.get(table.name)
        return await self._tasks.in_thread(lambda: retain(table, merge(table, files), since))

    async def _read(self, state: DomainTable, refs: Sequence[FileRef]) -> list[pa.Table]:
        store, table = self._readers[state.domain].store, state.table
        columns = _COLUMNS.get(state.name, ())

        async def read_one(ref: FileRef) -> pa.Table:
            cached = self._files.get(ref.sha256)
            if cached is not None:
                return cached
            raw = await read_named(store, ref)
            rows = await self._tasks.in_thread(lambda: decode(table, raw, ref.rows, columns))
            return self._files.put(ref.sha256, rows)

        tables: list[pa.Table] = []
        for start in range(0, len(refs), _PARALLEL_READS):
            batch = refs[start : start + _PARALLEL_READS]
            tables += await self._tasks.gather(*(read_one(ref) for ref in batch))
        return tables


def _retention_removes_partitions(executions: Snapshot) -> bool:
    manifest = executions.manifest
    return manifest is not None and PARTITIONS.name in manifest.retained_from


def _key(*parts: str) -> str:
    return sha256_hex(json.encode(parts))


@dataclass(frozen=True)
class PartitionWriters:
    """The runs that wrote the partitions of the tables whose writers are all known."""

    tables: pa.Array  # the table of each writer
    keys: pa.Array  # the key of table and execution of each writer
    failed: pa.Array  # the keys of runs that failed at a partition


def _writers_of(partitions: pa.Table) -> PartitionWriters:
    """The writers of partitions, whose rows have the columns `PARTITION_COLUMNS`."""
    rows = partitions.combine_chunks()
    tables, run = rows.column("table_id"), rows.column("last_execution_id")
    is_complete = pc.equal(rows.column("status"), _COMPLETE).fill_null(fill_value=False)
    is_written = pc.or_(is_complete, pc.is_valid(rows.column("last_successful_run")))
    # Rows of older versions have only the last run, which is the writer if the partition is complete.
    last = pc.if_else(is_complete, run, pa.scalar(None, run.type))
    writer = pc.coalesce(rows.column("last_successful_execution_id"), last)
    unknown = pc.unique(tables.filter(pc.and_(is_written, pc.is_null(writer))))
    has_writer = pc.and_(is_written, pc.invert(pc.is_in(tables, value_set=unknown)))
    pairs = pa.table({"table": tables.filter(has_writer), "run": writer.filter(has_writer)})
    pairs = pairs.group_by(["table", "run"]).aggregate([]).combine_chunks()
    has_failed = pc.equal(rows.column("status"), _FAILED).fill_null(fill_value=False)
    return PartitionWriters(
        tables=_array(pairs.column("table")),
        keys=_keys(pairs.column("table"), pairs.column("run")),
        failed=_keys(tables.filter(has_failed), run.filter(has_failed)),
    )


def _not_by_writers(edges: pa.Table, writers: PartitionWriters) -> Mask:
    """The edges that may be superseded: their newest observation is not of a writer."""
    targets, runs = edges.column("target_table_id"), edges.column("execution_id")
    is_known = pc.and_(pc.is_in(targets, value_set=writers.tables), pc.is_valid(runs))
    by_writer = pc.is_in(_keys(targets, runs), value_set=writers.keys)
    return mask(_array(pc.and_(is_known, pc.invert(by_writer))))


def _superseded(
    edges: pa.Table, candidates: Mask, writers: PartitionWriters, observations: pa.Table
) -> Mask:
    """Which of the candidates are superseded.

    `observations` are all observations of edges into their targets, with the columns `OBSERVATION_COLUMNS`.
    """
    keys = _keys(observations.column("target_table_id"), observations.column("execution_id"))
    by_writers = observations.filter(pc.is_in(keys, value_set=writers.keys)).combine_chunks()
    rows = edges.filter(pa.array(candidates)).combine_chunks()
    targets = rows.column("target_table_id")
    stays = [
        pc.is_in(targets, value_set=_without_lineage(by_writers, writers)),
        pc.is_in(_edge_keys(rows), value_set=_edge_keys(by_writers)),
        _is_newer(rows, by_writers, writers),
        _may_lack_columns(rows, edges, by_writers),
    ]
    superseded = np.zeros(edges.num_rows, np.bool_)
    is_current = np.logical_or.reduce([mask(_array(each)) for each in stays])
    superseded[np.flatnonzero(candidates)] = ~is_current
    return superseded


def _without_lineage(by_writers: pa.Table, writers: PartitionWriters) -> pa.Array:
    """The tables that have a writer which recorded no lineage for them."""
    recorded = _keys(by_writers.column("target_table_id"), by_writers.column("execution_id"))
    return pc.unique(writers.tables.filter(pc.invert(pc.is_in(writers.keys, value_set=recorded))))


def _is_newer(rows: pa.Table, by_writers: pa.Table, writers: PartitionWriters) -> pa.Array:
    """The edges that were observed after all lineage that the writers of their targets recorded."""
    newest = by_writers.group_by("target_table_id").aggregate([("observed_at", "max")])
    at = pc.index_in(rows.column("target_table_id"), value_set=_array(newest.column(0)))
    recorded = newest.column("observed_at_max").take(at)
    is_newer = pc.greater(rows.column("last_observed_at"), recorded).fill_null(fill_value=False)
    keys = _keys(rows.column("target_table_id"), rows.column("execution_id"))
    return pc.and_(is_newer, pc.invert(pc.is_in(keys, value_set=writers.failed)))


def _may_lack_columns(rows: pa.Table, edges: pa.Table, by_writers: pa.Table) -> pa.Array:
    """The edges between columns whose source some writer read without full column lineage."""
    is_complete = pc.is_in(by_writers.column("soundness"), value_set=pa.array(COMPLETE_SOUNDNESS))
    incomplete = _edge_keys(by_writers.filter(pc.invert(is_complete)))
    read = edges.filter(pc.is_in(_edge_keys(edges), value_set=incomplete))
    is_read = pc.is_in(_table_keys(rows), value_set=_table_keys(read))
    return pc.and_(_array(is_read), pa.array(~between_tables(rows)))


def _edge_keys(rows: pa.Table) -> pa.Array:
    return _keys(rows.column("target_table_id"), rows.column("edge_id"))


def _table_keys(rows: pa.Table) -> pa.Array:
    """Source and target table; sources without an id count as one."""
    return _keys(rows.column("target_table_id"), rows.column("source_table_id"))


def _keys(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
    parts = (each.cast(pa.string()).fill_null("") for each in (first, second))
    return _array(pc.binary_join_element_wise(*parts, _SEPARATOR))


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
