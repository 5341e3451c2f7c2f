"""Capture: the queries of one session, watched from the outside.

A task has a session of its own, so what its listener hears is what the task did. One action may be heard
several times (a table that is created, filled and saved): each write is known by what it writes, and the
innermost one carries the scans, so that hearing the others too changes nothing.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from arco.core.errors import Unsupported
from arco.flow.lineage.facts import PlanFacts
from arco.flow.lineage.observation import Dataset, Edge, Observation, ReadFact, weakest
from arco.flow.lineage.plan import PlanLineage, read_plan
from arco.flow.lineage.reads import all_reads, read_by
from arco.flow.lineage.same import is_same
from arco.flow.spark.lineage.budget import Budget
from arco.flow.spark.lineage.java import Java
from arco.flow.spark.lineage.query import Query, fetch, fetch_plan

DRAIN_MS = 10_000

_MOST_QUERIES = 2_000
_MOST_TEXT = 32_000_000  # of the plans of all writes together


class _Listener:
    """What Spark calls for each query, on a thread of its own."""

    def __init__(self, capture: "Capture") -> None:
        self._capture = capture

    def onSuccess(self, _function: str, execution: Java, _ns: int) -> None:  # noqa: N802
        self._capture.hear(execution)

    def onFailure(self, _function: str, _execution: Java, _problem: Java) -> None:  # noqa: N802
        """What failed has made nothing."""

    class Java:
        """Which interface it fills."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


class Capture:
    """Watches a session from now until it is closed."""

    def __init__(self, session: SparkSession) -> None:
        """`Unsupported` if this is a session of Spark Connect, which has no JVM to ask."""
        if not hasattr(session, "_jsparkSession"):
            raise Unsupported(
                "lineage is captured in the process that drives Spark, not over Connect"
            )
        self._context = session.sparkContext
        self._manager = session._jsparkSession.listenerManager()  # noqa: SLF001
        self._gateway: Java = self._context._gateway  # noqa: SLF001
        self._lock = Lock()
        self._queries: list[Query] = []
        self._notes: dict[str, None] = {}
        self._spent_ms: dict[int, float] = {}
        self._is_open = True
        try:
            ensure_callback_server_started(self._gateway)  # type: ignore[no-untyped-call]
            self._manager.register(_Listener(self))
        except Exception as problem:  # the task goes on, and its lineage says why there is none
            self._notes.setdefault(f"nothing could be watched: {type(problem).__name__}")

    def hear(self, execution: Java) -> None:
        """Keep what there is to know of a query; called by Spark, and never raises."""
        if not self._is_open:
            return
        try:
            query = fetch(self._gateway, execution)
        except Exception as problem:  # it must not reach Spark's bus, whatever it is
            query = Query(note=f"a query could not be watched: {type(problem).__name__}")
        with self._lock:
            self._queries.append(query)
            self._let_go_of_the_oldest()

    def _let_go_of_the_oldest(self) -> None:
        """Bound what is kept: the write that matters comes last."""
        if len(self._queries) > _MOST_QUERIES:
            del self._queries[0]
            self._notes.setdefault("there were more queries than are kept")
        kept = sum(len(query.text or "") for query in self._queries)
        for at, query in enumerate(self._queries[:-1]):
            if kept <= _MOST_TEXT:
                break
            kept -= len(query.text or "")
            self._queries[at] = replace(query, text=None, note="its plan was let go of")

    def finish(
        self, target: Dataset, *, frame: DataFrame | None = None, forget: Collection[str] = ()
    ) -> Observation:
        """What was seen of the write of a target, and all that was read for it.

        That is what its write has read, what queries have that wrote nothing, and what went into
        other writes of the session if their results were read again. Should no write of the target
        have been seen, the plan of `frame` tells what it can. `forget` are literals that differ from
        run to run, as the values of the partition that was made.
        """
        queries = self._heard()
        writes = [query for query in queries if _writes(query, target)]
        behind = _behind(queries, target)
        reads = all_reads(
            [fact for query in writes for fact in query.reads],
            [fact for query in behind for fact in query.reads],
            [source for query in behind for source in query.sources],
        )
        if not writes:
            planned = None if frame is None else plan_of(frame, forget=forget)
            return _unseen(target, reads, planned, [*self._notes])
        return self._observed(writes, reads, forget)

    def reads(self) -> tuple[ReadFact, ...]:
        """All that the session has read so far, by whichever query."""
        queries = self._heard()
        facts = [fact for query in queries for fact in query.reads]
        return all_reads([], facts, [source for query in queries for source in query.sources])

    def spent_ms(self) -> list[float]:
        """What watching each query has cost of Python's processor time, with reading its plan if it was."""
        return [self._spent_ms.get(id(query), query.spent_ms) for query in self._heard()]

    def close(self) -> None:
        """Watch no longer. Listeners cannot be taken back one by one: all of the session's are let go."""
        self._is_open = False
        with suppress(Exception):  # of a JVM that is gone already
            self._manager.clear()

    def _observed(
        self, writes: list[Query], reads: tuple[ReadFact, ...], forget: Collection[str]
    ) -> Observation:
        """All writes of one target together; they are several if it was appended to more than once."""
        edges: dict[Edge, None] = {}
        said = dict(self._notes)
        found: list[PlanLineage] = []
        for query in writes:
            budget = Budget(spent_ms=query.spent_ms)
            found.append(_read(query.text, query.facts, forget, budget))
            self._spent_ms[id(query)] = budget.spent_ms()
            edges.update(dict.fromkeys(found[-1].edges))
            said.update(dict.fromkeys(filter(None, (query.note, found[-1].note))))
        return Observation(
            reads,
            tuple(edges),
            weakest(*(each.soundness for each in found)),
            next((each.fingerprint for each in reversed(found) if each.fingerprint), None),
            "; ".join(said),
        )

    def _heard(self) -> list[Query]:
        """Every query so far, once Spark's bus has told of all of them or its time is up."""
        try:
            self._context._jsc.sc().listenerBus().waitUntilEmpty(DRAIN_MS)  # noqa: SLF001
        except Exception:  # a deadline, or a JVM that is gone: what was heard until then counts
            self._notes.setdefault("Spark has not told of all queries in time")
        with self._lock:
            return list(self._queries)


def plan_of(frame: DataFrame, *, forget: Collection[str] = ()) -> Observation:
    """What the plan of a frame says, for when no listener has seen it written; it runs nothing."""
    budget = Budget()
    session = frame.sparkSession
    gateway: Java = session.sparkContext._gateway  # noqa: SLF001
    try:
        analyzed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        plan = fetch_plan(gateway, analyzed, budget, whole=True)
    except Exception as problem:
        return Observation(
            soundness="unsupported", note=f"there is no plan: {type(problem).__name__}"
        )
    reads = read_by(plan.sources)
    if plan.note:
        return Observation(reads=reads).without_columns(plan.note)
    found = _read(plan.text, plan.facts, forget, budget)
    return Observation(reads, found.edges, found.soundness, found.fingerprint, found.note)


def _writes(query: Query, target: Dataset) -> bool:
    return any(is_same(target, each) for each in query.targets)


def _behind(queries: list[Query], target: Dataset) -> list[Query]:
    """The queries that had a part in a target."""
    found = [query for query in queries if not query.targets or _writes(query, target)]
    others = [query for query in queries if query.targets and not _writes(query, target)]
    grows = True
    while grows:
        sources = {source for query in found for source in query.sources}
        more = [each for each in others if any(_writes(each, source) for source in sources)]
        others = [each for each in others if each not in more]
        found += more
        grows = bool(more)
    return found


def _unseen(
    target: Dataset,
    reads: tuple[ReadFact, ...],
    planned: Observation | None,
    notes: Iterable[str],
) -> Observation:
    """No write was seen: what the frame's plan says, and what was read by whichever query."""
    why = "; ".join((*notes, f"no write of {target} was seen"))
    if planned is None:
        return Observation(reads).without_columns(why)
    sources = [fact.dataset for fact in planned.reads]
    note = "; ".join(filter(None, (f"{why}: the plan of its frame was read", planned.note)))
    merged = all_reads([], reads, sources)
    return Observation(merged, planned.edges, planned.soundness, planned.fingerprint, note)


def _read(
    text: str | None, facts: PlanFacts | None, forget: Collection[str], budget: Budget
) -> PlanLineage:
    if text is None or facts is None:
        return PlanLineage((), "table_only", None)
    return read_plan(text, facts, forget=forget, spent=budget.is_spent)
