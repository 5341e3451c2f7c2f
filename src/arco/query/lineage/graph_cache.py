"""A cache of lineage graphs by the state that they were made of, shared by concurrent requests.

Partitions change far more often than edges. So edges and graphs are cached apart from the set of superseded
edges: a new state with the same superseded edges has the same graph.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from arco.core.errors import Conflict, Unavailable
from arco.core.hashing import sha256_hex
from arco.core.lru_cache import LruCache
from arco.core.tasks import Task, Tasks
from arco.query.ledger_tail import LedgerTail
from arco.query.limits import QueryLimits
from arco.query.lineage.edges import (
    EDGE_STATE,
    OBSERVATION_STATE,
    PARTITION_STATE,
    EdgeReader,
    FreshRows,
    LineageSnapshot,
)
from arco.query.lineage.graph import LineageGraph, Mask, build_graph
from arco.query.lineage.response_builder import PairSummaries, summarize_pairs
from arco.query.lineage.traversal import outdated_edges
from arco.query.system_tables import DomainTable

_CACHED = 2  # the published and the fresh state
_READ_ATTEMPTS = 3  # while garbage collection removes what a fresh read is about to read

T = TypeVar("T")


@dataclass(frozen=True)
class IndexedGraph:
    """A graph with everything that is computed of it once."""

    graph: LineageGraph
    summaries: PairSummaries
    outdated: Mask


class TailFolder(Protocol):
    """An engine that makes rows of a ledger tail."""

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> pa.Table:
        """The rows of a state table that the events of a tail make, folded among themselves."""


class _SharedResults(Generic[T]):
    """Results by key; concurrent requests for one key share one task."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._cached = LruCache[str, Task[T]](_CACHED)

    def __contains__(self, key: str) -> bool:
        return key in self._cached

    async def get(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = self._cached.get(key)
        if task is None:
            task = self._tasks.spawn(make())
            self._cached.put(key, task)
        try:
            return await task.wait()
        except Exception:
            if self._cached.get(key) is task:
                self._cached.pop(key)  # the next request tries again
            raise


class GraphCache:
    """Reads and caches the graphs of states."""

    def __init__(
        self, edges: EdgeReader, engine: TailFolder, tasks: Tasks, limits: QueryLimits
    ) -> None:
        self._edges = edges
        self._engine = engine
        self._tasks = tasks
        self._limits = limits
        self._by_snapshot: _SharedResults[IndexedGraph] = _SharedResults(tasks)
        self._rows: _SharedResults[pa.Table] = _SharedResults(tasks)
        self._indexed: _SharedResults[IndexedGraph] = _SharedResults(tasks)

    async def at(
        self, as_of: str | None, *, fresh: bool, caller: str | None = None
    ) -> tuple[LineageSnapshot, IndexedGraph]:
        """The graph of a published state, or of a fresh read."""
        work = self._at(as_of, caller, fresh=fresh)
        try:
            return await self._tasks.deadline(self._limits.load_ms, work)
        except TimeoutError as problem:
            raise Unavailable("the store did not return the edges in time: try again") from problem

    async def _at(
        self, as_of: str | None, caller: str | None, *, fresh: bool
    ) -> tuple[LineageSnapshot, IndexedGraph]:
        for _ in range(_READ_ATTEMPTS):
            try:
                snapshot = await self._edges.read_snapshot(fresh=fresh, as_of=as_of)
            except Conflict:
                if not fresh:
                    raise
                continue  # the segments above this snapshot were compacted and collected meanwhile
            return snapshot, await self._indexed_graph(snapshot, caller)
        raise Unavailable("the ledger is collected faster than it can be read: try again")

    async def _indexed_graph(self, snapshot: LineageSnapshot, caller: str | None) -> IndexedGraph:
        fresh = FreshRows()
        if snapshot.key not in self._by_snapshot:
            # Not shared between requests: it is cancelled with this request.
            fresh = FreshRows(
                edges=await self._tail_rows(snapshot.tail, EDGE_STATE, caller),
                observations=await self._tail_rows(snapshot.tail, OBSERVATION_STATE, caller),
                partitions=await self._tail_rows(snapshot.executions_tail, PARTITION_STATE, caller),
            )
        return await self._by_snapshot.get(snapshot.key, lambda: self._make(snapshot, fresh))

    async def _tail_rows(
        self, tail: LedgerTail | None, state: DomainTable, caller: str | None
    ) -> pa.Table | None:
        if tail is None or not tail.segments:
            return None
        return await self._engine.tail_rows(tail, state, caller=caller)

    async def _make(self, snapshot: LineageSnapshot, fresh: FreshRows) -> IndexedGraph:
        rows = await self._rows.get(snapshot.edges_key, lambda: self._edges.rows(snapshot, fresh))
        superseded = await self._edges.superseded(snapshot, rows, fresh)
        key = f"{snapshot.edges_key}/{sha256_hex(superseded.tobytes())}"
        return await self._indexed.get(key, lambda: self._index(rows, superseded))

    async def _index(self, rows: pa.Table, superseded: Mask) -> IndexedGraph:
        def index() -> IndexedGraph:
            current = rows.filter(pa.array(~superseded)) if superseded.any() else rows
            graph = build_graph(current).warm()
            return IndexedGraph(graph, summarize_pairs(graph), outdated_edges(graph))

        return await self._tasks.in_thread(index)
