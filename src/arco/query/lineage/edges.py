"""Reading edges: those that were observed, in the domain `lineage`, and those that were declared.

Files are decoded once and kept by their hashes, so that a new manifest costs what is new in it and one
merge. What is fresh is expanded and folded by an SQL process, within its limits, and then folded with the
rest by the code of compaction. Partitions, of the domain `executions`, say which runs wrote the data of
today; observations are read of those tables alone whose edges may have to be hidden.
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
from arco.events.lineage import COMPLETE_SOUNDNESS
from arco.fold.fold import retain
from arco.fold.table import StateTable
from arco.fold.tier1 import DOMAIN, TIER1
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    PARTITIONS,
)
from arco.ledger.watermark import Watermark
from arco.query.ledger_tail import LedgerTail, LedgerTailReader
from arco.query.limits import QueryLimits
from arco.query.lineage.graph import EDGE_COLUMNS, Mask, between_tables, mask
from arco.query.snapshots import SnapshotSelector
from arco.query.state_files import FileRows, TableCache, decode, merge
from arco.query.system_tables import DomainTable

# What is read of partitions and of observations.
PARTITION_COLUMNS = (
    *("table_id", "status", "last_execution_id", "last_successful_run"),
    "last_successful_execution_id",
)
OBSERVATION_COLUMNS = ("target_table_id", "edge_id", "execution_id", "observed_at", "soundness")

_COMPLETE, _FAILED = "COMPLETE", "FAILED"
_BETWEEN = "\n"  # the parts of a key; ids have none


@dataclass(frozen=True)
class PartitionWriters:
    """The runs that wrote the partitions of tables, of those alone whose writers are all known."""

    tables: pa.Array  # of each writer, the table that it wrote
    keys: pa.Array  # of each writer, the key of table and execution
    failed: pa.Array  # the same keys of runs that failed at a partition


def writers_of(partitions: pa.Table) -> PartitionWriters:
    """The writers of all partitions, which have the columns of `PARTITION_COLUMNS`."""
    rows = partitions.combine_chunks()
    tables, run = rows.column("table_id"), rows.column("last_execution_id")
    is_complete = pc.equal(rows.column("status"), _COMPLETE).fill_null(fill_value=False)
    is_written = pc.or_(is_complete, pc.is_valid(rows.column("last_successful_run")))
    # What was stored before writers were has only the last run, which is the writer if it is complete.
    last = pc.if_else(is_complete, run, pa.scalar(None, run.type))
    writer = pc.coalesce(rows.column("last_successful_execution_id"), last)
    unknown = pc.unique(tables.filter(pc.and_(is_written, pc.is_null(writer))))
    known = pc.and_(is_written, pc.invert(pc.is_in(tables, value_set=unknown)))
    pairs = pa.table({"table": tables.filter(known), "run": writer.filter(known)})
    pairs = pairs.group_by(["table", "run"]).aggregate([]).combine_chunks()
    has_failed = pc.equal(rows.column("status"), _FAILED).fill_null(fill_value=False)
    return PartitionWriters(
        tables=_array(pairs.column("table")),
        keys=_keys(pairs.column("table"), pairs.column("run")),
        failed=_keys(tables.filter(has_failed), run.filter(has_failed)),
    )


def not_last_seen(edges: pa.Table, writers: PartitionWriters) -> Mask:
    """The edges that may have to be hidden: no writer was the last to show them."""
    targets, runs = edges.column("target_table_id"), edges.column("execution_id")
    is_known = pc.and_(pc.is_in(targets, value_set=writers.tables), pc.is_valid(runs))
    by_writer = pc.is_in(_keys(targets, runs), value_set=writers.keys)
    return mask(_array(pc.and_(is_known, pc.invert(by_writer))))


def hidden_edges(
    edges: pa.Table, doubtful: Mask, writers: PartitionWriters, seen: pa.Table
) -> Mask:
    """Which of the doubtful edges are hidden.

    `seen` has all observations of edges into their targets, with the columns of `OBSERVATION_COLUMNS`.
    """
    seen = _of_writers(seen, writers)
    rows = edges.filter(pa.array(doubtful)).combine_chunks()
    targets = rows.column("target_table_id")
    stays = [
        pc.is_in(targets, value_set=_without_lineage(seen, writers)),
        pc.is_in(_edge_keys(rows), value_set=_edge_keys(seen)),
        _is_newer(rows, seen, writers),
        _in_doubt(rows, edges, seen),
    ]
    hidden = np.zeros(edges.num_rows, np.bool_)
    hidden[np.flatnonzero(doubtful)] = ~np.logical_or.reduce([mask(_array(each)) for each in stays])
    return hidden


def _of_writers(seen: pa.Table, writers: PartitionWriters) -> pa.Table:
    keys = _keys(seen.column("target_table_id"), seen.column("execution_id"))
    return seen.filter(pc.is_in(keys, value_set=writers.keys)).combine_chunks()


def _without_lineage(seen: pa.Table, writers: PartitionWriters) -> pa.Array:
    """The tables that have a writer which recorded no lineage for them."""
    recorded = _keys(seen.column("target_table_id"), seen.column("execution_id"))
    return pc.unique(writers.tables.filter(pc.invert(pc.is_in(writers.keys, value_set=recorded))))


def _is_newer(rows: pa.Table, seen: pa.Table, writers: PartitionWriters) -> pa.Array:
    """The edges that were seen after all that the writers of their targets have shown."""
    newest = seen.group_by("target_table_id").aggregate([("observed_at", "max")])
    at = pc.index_in(rows.column("target_table_id"), value_set=_array(newest.column(0)))
    shown = newest.column("observed_at_max").take(at)
    is_newer = pc.greater(rows.column("last_observed_at"), shown).fill_null(fill_value=False)
    keys = _keys(rows.column("target_table_id"), rows.column("execution_id"))
    return pc.and_(is_newer, pc.invert(pc.is_in(keys, value_set=writers.failed)))


def _in_doubt(rows: pa.Table, edges: pa.Table, seen: pa.Table) -> pa.Array:
    """The edges between columns of which some writer read the source, and not all columns are known."""
    is_whole = pc.is_in(seen.column("soundness"), value_set=pa.array(COMPLETE_SOUNDNESS))
    partly = _edge_keys(seen.filter(pc.invert(is_whole)))
    read = edges.filter(pc.is_in(_edge_keys(edges), value_set=partly))
    is_read = pc.is_in(_table_keys(rows), value_set=_table_keys(read))
    return pc.and_(_array(is_read), pa.array(~between_tables(rows)))


def _edge_keys(rows: pa.Table) -> pa.Array:
    return _keys(rows.column("target_table_id"), rows.column("edge_id"))


def _table_keys(rows: pa.Table) -> pa.Array:
    """Both tables; sources without an id count as one."""
    return _keys(rows.column("target_table_id"), rows.column("source_table_id"))


def _keys(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
    parts = (each.cast(pa.string()).fill_null("") for each in (first, second))
    return _array(pc.binary_join_element_wise(*parts, _BETWEEN))


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


DECLARED = TIER1.get("declared_edges")

EDGES = DomainTable(LINEAGE_DOMAIN, LINEAGE_EDGES)
OBSERVATIONS = DomainTable(LINEAGE_DOMAIN, EDGE_OBSERVATIONS)
WRITTEN = DomainTable(EXECUTIONS_DOMAIN, PARTITIONS)

_AT_ONCE = 16
_DROPPED = "dropped_at"

# What is decoded of each table; tables of the catalog are small, and all of it is.
_COLUMNS = {
    EDGES.name: EDGES.columns_for(EDGE_COLUMNS),
    OBSERVATIONS.name: OBSERVATIONS.columns_for(OBSERVATION_COLUMNS),
    WRITTEN.name: WRITTEN.columns_for(PARTITION_COLUMNS),
}


@dataclass(frozen=True)
class LineageSnapshot:
    """The state that edges are read from.

    `edges_key` is another where the edges may be others, `key` also where others may be hidden.
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
    """The rows that the tails of a moment make."""

    edges: pa.Table | None = None
    observations: pa.Table | None = None
    partitions: pa.Table | None = None


class EdgeReader:
    """Reads all edges of a workspace, and which of them are hidden.

    `readers` are those of the catalog, of `lineage` and of `executions`, by domain. `declared` is the table
    of the catalog that has declared edges, if any.
    """

    def __init__(
        self,
        readers: Mapping[str, SnapshotReader],
        limits: QueryLimits,
        declared: StateTable | None = DECLARED,
    ) -> None:
        self._readers = readers
        self._moments = SnapshotSelector(readers)
        self._declared = declared
        self._tasks = readers[DOMAIN].store.runtime.tasks
        self._tails = {
            domain: LedgerTailReader(readers[domain].store, domain, limits)
            for domain in (LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
        }
        self._files = TableCache(limits.cache_bytes)

    async def look(self, *, fresh: bool, as_of: str | None = None) -> LineageSnapshot:
        """The newest state, or that of a number or a time; a number is one of the domain `lineage`.

        A fresh one may meet `Conflict` if the ledger is collected meanwhile.
        """
        found = await self._moments.snapshots({LINEAGE_DOMAIN}, {DOMAIN, EXECUTIONS_DOMAIN}, as_of)
        lineage, catalog, executions = (
            found[domain] for domain in (LINEAGE_DOMAIN, DOMAIN, EXECUTIONS_DOMAIN)
        )
        # Partitions first: a run tells of both at once, so the lineage of a writer that is found is there.
        executions_tail = await self._since(EXECUTIONS_DOMAIN, executions) if fresh else None
        tail = await self._since(LINEAGE_DOMAIN, lineage) if fresh else None
        declared = [] if self._declared is None else await catalog.files_of(self._declared)
        written = await executions.files_of(WRITTEN.table)
        edges_key = _key(
            lineage.sha256,
            "" if tail is None else tail.key,
            *(ref.sha256 for ref in declared),
        )
        key = _key(
            edges_key,
            "" if executions_tail is None else executions_tail.key,
            str(_forgets_partitions(executions)),
            *(ref.sha256 for ref in written),
        )
        return LineageSnapshot(lineage, catalog, executions, tail, executions_tail, edges_key, key)

    async def _since(self, domain: str, snapshot: Snapshot) -> LedgerTail:
        manifest, tail = snapshot.manifest, self._tails[domain]
        if manifest is None:
            return await tail.since(Watermark(), {})
        return await tail.since(manifest.watermark, manifest.retained_from)

    async def rows(self, moment: LineageSnapshot, fresh: FreshRows) -> pa.Table:
        """All edges, one row each, with the columns of `SHOWN`; `fresh` are those of the moment's tails."""
        found = [await self._table(moment.lineage, EDGES, fresh.edges)]
        if self._declared is not None:
            declared = DomainTable(DOMAIN, self._declared)
            found.append(await self._table(moment.catalog, declared, None))
        self._files.trim()
        return await self._tasks.in_thread(lambda: pa.concat_tables(map(_shown, found)))

    async def hidden(self, moment: LineageSnapshot, edges: pa.Table, fresh: FreshRows) -> Mask:
        """Which edges the data of today no longer show."""
        nothing = np.zeros(edges.num_rows, np.bool_)
        if _forgets_partitions(moment.executions):
            return nothing  # there may be others, with other writers
        partitions = await self._table(moment.executions, WRITTEN, fresh.partitions)
        if not partitions.num_rows:
            return nothing
        writers = await self._tasks.in_thread(lambda: writers_of(partitions))
        doubtful = await self._tasks.in_thread(lambda: not_last_seen(edges, writers))
        if not doubtful.any():
            return nothing
        targets = pc.unique(edges.column("target_table_id").filter(pa.array(doubtful)))
        seen = await self._observations(moment.lineage, targets, fresh.observations)
        self._files.trim()
        return await self._tasks.in_thread(lambda: hidden_edges(edges, doubtful, writers, seen))

    async def _observations(
        self, lineage: Snapshot, targets: pa.Array, fresh: pa.Table | None
    ) -> pa.Table:
        """What was seen of edges into some tables; one may be told twice, as nothing is folded."""
        table, manifest = OBSERVATIONS.table, lineage.manifest
        buckets = table.buckets_in(pa.table({"target_table_id": targets}))
        refs = [
            ref for ref in await lineage.files_of(table) if set(buckets).intersection(ref.buckets)
        ]
        since = None if manifest is None else manifest.retained_from.get(table.name)
        found = [table.schema.empty_table(), *await self._read(OBSERVATIONS, refs)]
        found += [] if fresh is None else [fresh]

        def chosen() -> pa.Table:
            own = [
                rows.filter(pc.is_in(rows.column("target_table_id"), value_set=targets))
                for rows in found
            ]
            return retain(table, pa.concat_tables(own), since).select(OBSERVATION_COLUMNS)

        return await self._tasks.in_thread(chosen)

    async def _table(
        self, snapshot: Snapshot, state: DomainTable, fresh: pa.Table | None
    ) -> pa.Table:
        table, manifest = state.table, snapshot.manifest
        tail = () if manifest is None else manifest.tail.get(table.name, ())
        news = {ref.path for ref in tail}
        refs = await snapshot.files_of(table)
        pieces = [
            FileRows(rows, ref.path in news, frozenset(ref.buckets))
            for ref, rows in zip(refs, await self._read(state, refs), strict=True)
        ]
        if fresh is not None:
            pieces.append(FileRows(fresh, tail=True, buckets=frozenset(table.buckets_in(fresh))))
        since = None if manifest is None else manifest.retained_from.get(table.name)
        return await self._tasks.in_thread(lambda: retain(table, merge(table, pieces), since))

    async def _read(self, state: DomainTable, refs: Sequence[FileRef]) -> list[pa.Table]:
        store, table = self._readers[state.domain].store, state.table
        columns = _COLUMNS.get(state.name, ())

        async def one(ref: FileRef) -> pa.Table:
            kept = self._files.get(ref.sha256)
            if kept is not None:
                return kept
            raw = await read_named(store, ref)
            rows = await self._tasks.in_thread(lambda: decode(table, raw, ref.rows, columns))
            return self._files.put(ref.sha256, rows)

        found: list[pa.Table] = []
        for start in range(0, len(refs), _AT_ONCE):
            batch = refs[start : start + _AT_ONCE]
            found += await self._tasks.gather(*(one(ref) for ref in batch))
        return found


def _forgets_partitions(executions: Snapshot) -> bool:
    manifest = executions.manifest
    return manifest is not None and PARTITIONS.name in manifest.retained_from


def _key(*parts: str) -> str:
    return sha256_hex(json.encode(parts))


def _shown(rows: pa.Table) -> pa.Table:
    if _DROPPED in rows.column_names:
        rows = rows.filter(pc.is_null(rows.column(_DROPPED)))
    columns = [
        rows.column(name)
        if name in rows.column_names
        else pa.nulls(rows.num_rows, LINEAGE_EDGES.schema.field(name).type)
        for name in EDGE_COLUMNS
    ]
    return pa.table(columns, names=list(EDGE_COLUMNS))
