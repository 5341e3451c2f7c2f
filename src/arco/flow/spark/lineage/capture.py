"""Capture: the queries of one session, watched from the outside.

A task has a session of its own, so what its listener hears is what the task did. One action may be heard
several times (a table that is created, filled and saved): each write is known by what it writes, and the
innermost one carries the scans, so that hearing the others too changes nothing.
"""

from collections.abc import Collection, Iterable, Iterator
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
from arco.flow.spark.lineage.jobs import Jobs
from arco.flow.spark.lineage.query import Query, fetch, fetch_plan

DRAIN_MS = 10_000

_MOST_QUERIES = 2_000
_MOST_TEXT = 32_000_000  # of the plans of all writes together

_UNSEEN_JOBS = "rows were read without a query (an RDD, foreach, another session)"
_BROUGHT_ROWS = "some rows were brought by the program, after it had collected others"
_GAVE_ROWS = "the program has collected rows, and what it made of them is in no plan: those of {}"
_NOT_WATCHED = "what a query beside the write has read is not known: {}"
_WROTE_ASIDE = "what the program itself wrote before was read again, and hides its own columns: {}"


class _Listener:
    """What Spark calls for each query, on a thread of its own."""

    def __init__(self, capture: "Capture") -> None:
        self._capture = capture

    def onSuccess(self, function: str, execution: Java, _ns: int) -> None:  # noqa: N802
        self._capture.hear(execution, function)

    def onFailure(self, _function: str, _execution: Java, _problem: Java) -> None:  # noqa: N802
        """What failed has made nothing."""

    class Java:
        """Which interface it fills."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


class Capture:
    """Watches a session from now until it is closed, and this thread until it is told to look away."""

    def __init__(self, session: SparkSession) -> None:
        """`Unsupported` if this is a session of Spark Connect, which has no JVM to ask."""
        if not hasattr(session, "_jsparkSession"):
            raise Unsupported(
                "lineage is captured in the process that drives Spark, not over Connect"
            )
        self._session = session
        self._context = session.sparkContext
        self._manager = session._jsparkSession.listenerManager()  # noqa: SLF001
        self._gateway: Java = self._context._gateway  # noqa: SLF001
        self._lock = Lock()
        self._queries: list[Query] = []
        self._notes: dict[str, None] = {}
        self._spent_ms: dict[int, float] = {}
        self._is_open = True
        self._last_of_code: int | None = None
        self._jobs: Jobs | None = None
        try:
            self._jobs = Jobs(session)
            ensure_callback_server_started(self._gateway)  # type: ignore[no-untyped-call]
            self._manager.register(_Listener(self))
        except Exception as problem:  # the task goes on, and its lineage says why there is none
            self._notes.setdefault(f"nothing could be watched: {type(problem).__name__}")

    def code_has_ended(self) -> None:
        """Say that the queries from now on are not those of the program that is watched, but its writes."""
        try:
            last = self._session.range(0)._jdf.queryExecution().id()  # noqa: SLF001 - runs nothing
            self._last_of_code = int(last)
        except Exception as problem:  # a JVM that is gone, which the write will tell of
            self._notes.setdefault(f"its queries are not in order: {type(problem).__name__}")

    def hear(self, execution: Java, function: str = "") -> None:
        """Keep what there is to know of a query; called by Spark, and never raises."""
        if not self._is_open:
            return
        try:
            query = fetch(self._gateway, execution, function)
        except Exception as problem:  # it must not reach Spark's bus, whatever it is
            note = f"a query could not be watched: {type(problem).__name__}"
            query = Query(has_all_sources=False, note=note)
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

        That is what its write has read, what queries of the program have that wrote nothing, and what
        went into its other writes if their results were read again. Should no write of the target
        have been seen, the plan of `frame` tells what it can. `forget` are literals that differ from
        run to run, as the values of the partition that was made.
        """
        queries = self._heard()
        writes = [query for query in queries if _writes(query, target)]
        own = [query for query in queries if self._may_be_behind(query, target)]
        aside = self._written_aside(queries, own, target)
        behind = own + aside
        reads = all_reads(
            [fact for query in writes for fact in query.reads],
            [fact for query in behind for fact in query.reads],
            [source for query in behind for source in query.sources],
        )
        if writes:
            seen = self._observed(
                writes,
                reads,
                forget,
                has_collected=_have_collected(behind, target),
            )
        else:
            planned = None if frame is None else plan_of(frame, forget=forget)
            seen = _unseen(target, reads, planned)
        beside = [query for query in behind if not _writes(query, target)]
        for why in self._doubts(beside, aside):
            seen = seen.weakened("declared", why)
        return seen

    def reads(self) -> tuple[ReadFact, ...]:
        """All that the session has read so far, by whichever query."""
        queries = self._heard()
        facts = [fact for query in queries for fact in query.reads]
        return all_reads([], facts, [source for query in queries for source in query.sources])

    def spent_ms(self) -> list[float]:
        """What watching each query has cost of Python's processor time, with reading its plan if it was."""
        return [self._spent_ms.get(id(query), query.spent_ms) for query in self._heard()]

    def look_away(self) -> None:
        """Let what this thread does from now on be somebody else's; queries of the session are heard."""
        if self._jobs is not None:
            self._jobs.close()

    def close(self) -> None:
        """Watch no longer. Listeners cannot be taken back one by one: all of the session's are let go."""
        self._is_open = False
        self.look_away()
        with suppress(Exception):  # of a JVM that is gone already
            self._manager.clear()

    def _has_unseen_jobs(self) -> bool:
        """Whether rows were read past all queries; that it cannot be known is noted."""
        try:
            return self._jobs is not None and self._jobs.unseen()
        except Exception as problem:  # a JVM that is gone
            self._notes.setdefault(f"its jobs are not known: {type(problem).__name__}")
            return False

    def _doubts(self, beside: list[Query], aside: list[Query]) -> Iterator[str]:
        """Where columns may have come from that are in no plan of the write, and what was not watched."""
        if self._has_unseen_jobs():
            yield _UNSEEN_JOBS
        yield from [*self._notes]
        blind = (query.note for query in beside if not query.has_all_sources)
        if (note := next(blind, None)) is not None:  # others say the same, or make it no worse
            yield _NOT_WATCHED.format(note)
        given = [query for query in beside if query.gives_rows]
        if names := _names(source for query in given for source in query.sources):
            yield _GAVE_ROWS.format(names)
        if names := _names(query.targets[0] for query in aside if query.sources):
            yield _WROTE_ASIDE.format(names)

    def _is_of_code(self, query: Query) -> bool:
        return self._last_of_code is None or query.number <= self._last_of_code

    def _may_be_behind(self, query: Query, target: Dataset) -> bool:
        """Whether it is a write of the target, or gave the program something to decide by."""
        if query.targets:
            return _writes(query, target)
        return self._is_of_code(query)

    def _written_aside(
        self, queries: list[Query], reading: list[Query], target: Dataset
    ) -> list[Query]:
        """The other writes of the program whose results were read again for a target."""
        found: list[Query] = []
        others = [query for query in queries if query.targets and self._is_of_code(query)]
        others = [query for query in others if not _writes(query, target)]
        while reading:
            sources = {source for query in reading for source in query.sources}
            reading = [each for each in others if any(_writes(each, source) for source in sources)]
            others = [each for each in others if each not in reading]
            found += reading
        return found

    def _observed(
        self,
        writes: list[Query],
        reads: tuple[ReadFact, ...],
        forget: Collection[str],
        *,
        has_collected: bool,
    ) -> Observation:
        """All writes of one target together; they are several if it was appended to more than once."""
        edges: dict[Edge, None] = {}
        said: dict[str, None] = {}
        found: list[PlanLineage] = []
        for query in writes:
            budget = Budget(spent_ms=query.spent_ms)
            found.append(_read(query.text, query.facts, forget, budget))
            self._spent_ms[id(query)] = budget.spent_ms()
            edges.update(dict.fromkeys(found[-1].edges))
            said.update(dict.fromkeys(filter(None, (query.note, found[-1].note))))
        seen = Observation(
            reads,
            tuple(edges),
            weakest(*(each.soundness for each in found)),
            next((each.fingerprint for each in reversed(found) if each.fingerprint), None),
            "; ".join(said),
        )
        if has_collected and any(each.has_own_rows for each in found):
            return seen.weakened("declared", _BROUGHT_ROWS)
        return seen

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


def _have_collected(queries: Iterable[Query], target: Dataset) -> bool:
    """Whether one of them gave rows to the program; what it does with them is not in any plan."""
    sources = (each for query in queries if not query.targets for each in query.sources)
    return any(not is_same(target, source) for source in sources)


def _writes(query: Query, target: Dataset) -> bool:
    return any(is_same(target, each) for each in query.targets)


def _names(datasets: Iterable[Dataset]) -> str:
    return ", ".join(sorted({str(each) for each in datasets}))


def _unseen(
    target: Dataset,
    reads: tuple[ReadFact, ...],
    planned: Observation | None,
) -> Observation:
    """No write was seen: what the frame's plan says, and what was read by whichever query."""
    why = f"no write of {target} was seen"
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
