"""GraphCache by the state that they were made of: made once for all who ask, the last few kept.

Partitions are told of far more often than edges. So edges and graphs are kept apart from what is hidden of
them: where a new state hides the same edges, the graph is the same.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from arco.core.errors import Conflict, Unavailable
from arco.core.hashing import sha256_hex
from arco.core.tasks import Task, Tasks
from arco.query.ledger_tail import LedgerTail
from arco.query.limits import QueryLimits
from arco.query.lineage.edges import (
    EDGES,
    OBSERVATIONS,
    WRITTEN,
    EdgeReader,
    FreshRows,
    LineageSnapshot,
)
from arco.query.lineage.graph import LineageGraph, Mask, build_graph
from arco.query.lineage.response_builder import PairSummaries, summarize_pairs
from arco.query.lineage.traversal import outdated_edges
from arco.query.system_tables import DomainTable

_KEPT = 2  # what is published, and what is fresh
_LOOKS = 3  # at heads that move while we read

T = TypeVar("T")


@dataclass(frozen=True)
class IndexedGraph:
    """A graph with all that is computed of it once."""

    graph: LineageGraph
    facts: PairSummaries
    outdated: Mask


class TailFolder(Protocol):
    """An SQL engine, as far as it makes rows of events."""

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> pa.Table:
        """The rows of a table of state that the events of a tail make, folded among themselves."""


class _Shared(Generic[T]):
    """What is made once for all who ask for it by the same key."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._kept: OrderedDict[str, Task[T]] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    async def get(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        making = self._kept.get(key)
        if making is None:
            making = self._kept[key] = self._tasks.spawn(make())
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        try:
            return await making.wait()
        except Exception:
            if self._kept.get(key) is making:
                del self._kept[key]  # the next to ask tries anew
            raise


class GraphCache:
    """Gives the graph of a state."""

    def __init__(
        self, edges: EdgeReader, engine: TailFolder, tasks: Tasks, limits: QueryLimits
    ) -> None:
        self._edges = edges
        self._engine = engine
        self._tasks = tasks
        self._limits = limits
        self._of_moments: _Shared[IndexedGraph] = _Shared(tasks)
        self._rows: _Shared[pa.Table] = _Shared(tasks)
        self._indexed: _Shared[IndexedGraph] = _Shared(tasks)

    async def at(
        self, as_of: str | None, *, fresh: bool, caller: str | None = None
    ) -> tuple[LineageSnapshot, IndexedGraph]:
        """The graph of what is published, now or then, or of all that was acknowledged."""
        work = self._at(as_of, caller, fresh=fresh)
        try:
            return await self._tasks.deadline(self._limits.load_ms, work)
        except TimeoutError as problem:
            raise Unavailable("the store did not give the edges in time: try again") from problem

    async def _at(
        self, as_of: str | None, caller: str | None, *, fresh: bool
    ) -> tuple[LineageSnapshot, IndexedGraph]:
        for _ in range(_LOOKS):
            try:
                moment = await self._edges.look(fresh=fresh, as_of=as_of)
            except Conflict:
                if not fresh:
                    raise
                continue  # what is above this snapshot was compacted and collected while we looked
            return moment, await self._of(moment, caller)
        raise Unavailable("the ledger is being collected faster than it is read: try again")

    async def _of(self, moment: LineageSnapshot, caller: str | None) -> IndexedGraph:
        fresh = FreshRows()
        if moment.key not in self._of_moments:
            # Not part of what all callers share: it ends when this caller leaves.
            fresh = FreshRows(
                edges=await self._tail_rows(moment.tail, EDGES, caller),
                observations=await self._tail_rows(moment.tail, OBSERVATIONS, caller),
                partitions=await self._tail_rows(moment.executions_tail, WRITTEN, caller),
            )
        return await self._of_moments.get(moment.key, lambda: self._make(moment, fresh))

    async def _tail_rows(
        self, tail: LedgerTail | None, state: DomainTable, caller: str | None
    ) -> pa.Table | None:
        if tail is None or not tail.segments:
            return None
        return await self._engine.tail_rows(tail, state, caller=caller)

    async def _make(self, moment: LineageSnapshot, fresh: FreshRows) -> IndexedGraph:
        rows = await self._rows.get(moment.edges_key, lambda: self._edges.rows(moment, fresh))
        hidden = await self._edges.hidden(moment, rows, fresh)
        key = f"{moment.edges_key}/{sha256_hex(hidden.tobytes())}"
        return await self._indexed.get(key, lambda: self._index(rows, hidden))

    async def _index(self, rows: pa.Table, hidden: Mask) -> IndexedGraph:
        def index() -> IndexedGraph:
            shown = rows.filter(pa.array(~hidden)) if hidden.any() else rows
            graph = build_graph(shown).warm()
            return IndexedGraph(graph, summarize_pairs(graph), outdated_edges(graph))

        return await self._tasks.in_thread(index)
