"""Graphs by the state that they were made of: made once for all who ask, the last few kept."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from arco.core.errors import Conflict, Unavailable
from arco.core.tasks import Task, Tasks
from arco.query.limits import Limits
from arco.query.lineage.codes import Mask
from arco.query.lineage.edges import EDGES, EdgeReader, Moment
from arco.query.lineage.facts import Facts, facts_of
from arco.query.lineage.graph import Graph, graph_of
from arco.query.lineage.impact import outdated_edges
from arco.query.needs import State
from arco.query.tail import Tail

_KEPT = 2  # what is published, and what is fresh
_LOOKS = 3  # at heads that move while we read


@dataclass(frozen=True)
class Indexed:
    """A graph with all that is computed of it once."""

    graph: Graph
    facts: Facts
    outdated: Mask


class TailReader(Protocol):
    """An SQL engine, as far as it makes rows of events."""

    async def tail_rows(self, tail: Tail, state: State, *, caller: str | None = None) -> pa.Table:
        """The rows of a table of state that the events of a tail make, folded among themselves."""


class Graphs:
    """Gives the graph of a state."""

    def __init__(self, edges: EdgeReader, engine: TailReader, tasks: Tasks, limits: Limits) -> None:
        self._edges = edges
        self._engine = engine
        self._tasks = tasks
        self._limits = limits
        self._kept: OrderedDict[str, Task[Indexed]] = OrderedDict()

    async def at(
        self, as_of: str | None, *, fresh: bool, caller: str | None = None
    ) -> tuple[Moment, Indexed]:
        """The graph of what is published, now or then, or of all that was acknowledged."""
        work = self._at(as_of, caller, fresh=fresh)
        try:
            return await self._tasks.deadline(self._limits.load_ms, work)
        except TimeoutError as problem:
            raise Unavailable("the store did not give the edges in time: try again") from problem

    async def _at(
        self, as_of: str | None, caller: str | None, *, fresh: bool
    ) -> tuple[Moment, Indexed]:
        for _ in range(_LOOKS):
            try:
                moment = await self._edges.look(fresh=fresh, as_of=as_of)
            except Conflict:
                if not fresh:
                    raise
                continue  # what is above this snapshot was compacted and collected while we looked
            return moment, await self._of(moment, caller)
        raise Unavailable("the ledger is being collected faster than it is read: try again")

    async def _of(self, moment: Moment, caller: str | None) -> Indexed:
        fresh: pa.Table | None = None
        if moment.key not in self._kept and moment.tail is not None:
            # Not part of what all callers share: it ends when this caller leaves.
            fresh = await self._engine.tail_rows(moment.tail, EDGES, caller=caller)
        making = self._kept.get(moment.key)
        if making is None:
            making = self._kept[moment.key] = self._tasks.spawn(self._make(moment, fresh))
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(moment.key)
        try:
            return await making.wait()
        except Exception:
            if self._kept.get(moment.key) is making:
                del self._kept[moment.key]  # the next to ask tries anew
            raise

    async def _make(self, moment: Moment, fresh: pa.Table | None) -> Indexed:
        rows = await self._edges.rows(moment, fresh)

        def index() -> Indexed:
            graph = graph_of(rows).warm()
            return Indexed(graph, facts_of(graph), outdated_edges(graph))

        return await self._tasks.in_thread(index)
