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
from arco.fold.retain import retain
from arco.fold.table import Table
from arco.fold.tier1 import DOMAIN, TIER1
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    PARTITIONS,
)
from arco.ledger.watermark import Watermark
from arco.query.cache import Cache
from arco.query.limits import Limits
from arco.query.lineage.codes import Mask
from arco.query.lineage.current import (
    OBSERVATION_COLUMNS,
    PARTITION_COLUMNS,
    hidden_edges,
    not_last_seen,
    writers_of,
)
from arco.query.lineage.graph import SHOWN
from arco.query.moment import Moments
from arco.query.needs import State
from arco.query.state import Piece, decode, merge
from arco.query.tail import LedgerTail, Tail

DECLARED = TIER1.get("declared_edges")

EDGES = State(LINEAGE_DOMAIN, LINEAGE_EDGES)
OBSERVATIONS = State(LINEAGE_DOMAIN, EDGE_OBSERVATIONS)
WRITTEN = State(EXECUTIONS_DOMAIN, PARTITIONS)

_AT_ONCE = 16
_DROPPED = "dropped_at"

# What is decoded of each table; tables of the catalog are small, and all of it is.
_COLUMNS = {
    EDGES.name: EDGES.columns_for(SHOWN),
    OBSERVATIONS.name: OBSERVATIONS.columns_for(OBSERVATION_COLUMNS),
    WRITTEN.name: WRITTEN.columns_for(PARTITION_COLUMNS),
}


@dataclass(frozen=True)
class Moment:
    """The state that edges are read from.

    `edges_key` is another where the edges may be others, `key` also where others may be hidden.
    """

    lineage: Snapshot
    catalog: Snapshot
    executions: Snapshot
    tail: Tail | None
    executions_tail: Tail | None
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
        limits: Limits,
        declared: Table | None = DECLARED,
    ) -> None:
        self._readers = readers
        self._moments = Moments(readers)
        self._declared = declared
        self._tasks = readers[DOMAIN].store.runtime.tasks
        self._tails = {
            domain: LedgerTail(readers[domain].store, domain, limits)
            for domain in (LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
        }
        self._files = Cache(limits.cache_bytes)

    async def look(self, *, fresh: bool, as_of: str | None = None) -> Moment:
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
        return Moment(lineage, catalog, executions, tail, executions_tail, edges_key, key)

    async def _since(self, domain: str, snapshot: Snapshot) -> Tail:
        manifest, tail = snapshot.manifest, self._tails[domain]
        if manifest is None:
            return await tail.since(Watermark(), {})
        return await tail.since(manifest.watermark, manifest.retained_from)

    async def rows(self, moment: Moment, fresh: FreshRows) -> pa.Table:
        """All edges, one row each, with the columns of `SHOWN`; `fresh` are those of the moment's tails."""
        found = [await self._table(moment.lineage, EDGES, fresh.edges)]
        if self._declared is not None:
            declared = State(DOMAIN, self._declared)
            found.append(await self._table(moment.catalog, declared, None))
        self._files.trim()
        return await self._tasks.in_thread(lambda: pa.concat_tables(map(_shown, found)))

    async def hidden(self, moment: Moment, edges: pa.Table, fresh: FreshRows) -> Mask:
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

    async def _table(self, snapshot: Snapshot, state: State, fresh: pa.Table | None) -> pa.Table:
        table, manifest = state.table, snapshot.manifest
        tail = () if manifest is None else manifest.tail.get(table.name, ())
        news = {ref.path for ref in tail}
        refs = await snapshot.files_of(table)
        pieces = [
            Piece(rows, ref.path in news, frozenset(ref.buckets))
            for ref, rows in zip(refs, await self._read(state, refs), strict=True)
        ]
        if fresh is not None:
            pieces.append(Piece(fresh, tail=True, buckets=frozenset(table.buckets_in(fresh))))
        since = None if manifest is None else manifest.retained_from.get(table.name)
        return await self._tasks.in_thread(lambda: retain(table, merge(table, pieces), since))

    async def _read(self, state: State, refs: Sequence[FileRef]) -> list[pa.Table]:
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
        for name in SHOWN
    ]
    return pa.table(columns, names=list(SHOWN))
