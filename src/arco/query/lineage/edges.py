"""Reading edges: those that were observed, in the domain `lineage`, and those that were declared.

Files are decoded once and kept by their hashes, so that a new manifest costs what is new in it and one
merge. What is fresh is expanded and folded by an SQL process, within its limits, and then folded with the
rest by the code of compaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
from arco.fold.tier2 import LINEAGE_DOMAIN, LINEAGE_EDGES
from arco.ledger.watermark import Watermark
from arco.query.cache import Cache
from arco.query.limits import Limits
from arco.query.lineage.graph import SHOWN
from arco.query.moment import Moments
from arco.query.needs import State
from arco.query.state import Piece, decode, merge
from arco.query.tail import LedgerTail, Tail

DECLARED = TIER1.get("declared_edges")

EDGES = State(LINEAGE_DOMAIN, LINEAGE_EDGES)

_AT_ONCE = 16
_DROPPED = "dropped_at"


@dataclass(frozen=True)
class Moment:
    """The state that edges are read from; `key` is another where the edges may be others."""

    lineage: Snapshot
    catalog: Snapshot
    tail: Tail | None
    key: str


class EdgeReader:
    """Reads all edges of a workspace. `declared` is the table of the catalog that has some, if any."""

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
        self._tail = LedgerTail(readers[LINEAGE_DOMAIN].store, LINEAGE_DOMAIN, limits)
        self._files = Cache(limits.cache_bytes)

    async def look(self, *, fresh: bool, as_of: str | None = None) -> Moment:
        """The newest state, or that of a number or a time; a number is one of the domain `lineage`.

        A fresh one may meet `Conflict` if the ledger is collected meanwhile.
        """
        found = await self._moments.snapshots({LINEAGE_DOMAIN}, {DOMAIN}, as_of)
        lineage, catalog = found[LINEAGE_DOMAIN], found[DOMAIN]
        manifest = lineage.manifest
        tail: Tail | None = None
        if fresh and manifest is None:
            tail = await self._tail.since(Watermark(), {})
        elif fresh and manifest is not None:
            tail = await self._tail.since(manifest.watermark, manifest.retained_from)
        declared = [] if self._declared is None else await catalog.files_of(self._declared)
        named = [
            lineage.sha256,
            "" if tail is None else tail.key,
            *(ref.sha256 for ref in declared),
        ]
        return Moment(lineage, catalog, tail, sha256_hex(json.encode(named)))

    async def rows(self, moment: Moment, fresh: pa.Table | None = None) -> pa.Table:
        """All edges, one row each, with the columns of `SHOWN`; `fresh` are those of the moment's tail."""
        found = [await self._table(moment.lineage, LINEAGE_DOMAIN, LINEAGE_EDGES, fresh)]
        if self._declared is not None:
            found.append(await self._table(moment.catalog, DOMAIN, self._declared, None))
        self._files.trim()
        return pa.concat_tables(found)

    async def _table(
        self, snapshot: Snapshot, domain: str, table: Table, fresh: pa.Table | None
    ) -> pa.Table:
        manifest = snapshot.manifest
        tail = () if manifest is None else manifest.tail.get(table.name, ())
        news = {ref.path for ref in tail}
        refs = await snapshot.files_of(table)
        pieces = [
            Piece(rows, ref.path in news, frozenset(ref.buckets))
            for ref, rows in zip(refs, await self._read(domain, table, refs), strict=True)
        ]
        if fresh is not None:
            pieces.append(Piece(fresh, tail=True, buckets=frozenset(table.buckets_in(fresh))))
        since = None if manifest is None else manifest.retained_from.get(table.name)
        return await self._tasks.in_thread(
            lambda: _shown(retain(table, merge(table, pieces), since))
        )

    async def _read(self, domain: str, table: Table, refs: list[FileRef]) -> list[pa.Table]:
        store = self._readers[domain].store
        columns = _columns(domain, table)

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


def _columns(domain: str, table: Table) -> tuple[str, ...]:
    """What has to be decoded; tables of the catalog are small, and all of it is."""
    return () if domain == DOMAIN else State(domain, table).columns_for(SHOWN)


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
