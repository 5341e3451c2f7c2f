"""Watches the queries of one session, and derives the lineage of what it wrote.

A task has its own session, so its listener hears the queries of that task only. Spark may report one action
several times (a table that is created, filled and saved): a write is identified by its target, and the
innermost one carries the scans, so the others add nothing.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Lock

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from arco.core.errors import Unsupported
from arco.flow.lineage.observation import (
    Dataset,
    LineageObservation,
    ObservedEdge,
    ReadFact,
    combine_reads,
    is_same_dataset,
    weakest,
)
from arco.flow.lineage.plan import PlanLineage, read_plan
from arco.flow.lineage.plan_tree import PlanFacts
from arco.flow.spark.jvm import CallBudget, Java, session_tag, texts
from arco.flow.spark.lineage.query import ObservedQuery, fetch_plan, fetch_query

DRAIN_MS = 10_000

_MAX_QUERIES = 2_000
_MAX_TEXT = 32_000_000  # of the plans of all writes together
# More jobs than these are a reason to weaken the lineage, like a job without a query.
_MAX_JOBS = 200  # to inspect
_MAX_NAMES = 1_000  # to ask for: Spark remembers as many
_SCHEMA_READERS = frozenset(
    ("csv", "json", "load", "orc", "parquet", "sql", "table", "text", "xml")
)
_SESSION_TAG = "spark-session-"
_LOCAL_ITERATOR = "toLocalIterator"

_UNOBSERVED_JOBS = "rows were read without a query (an RDD, foreach, another session)"
_OWN_ROWS = "some rows were brought by the program, after it had collected others"
_COLLECTED_ROWS = "the program has collected rows of {}, and no plan shows how it used them"
_UNKNOWN_SOURCES = "what a query beside the write has read is not known: {}"
_INTERMEDIATE = "columns of {} are hidden: the program wrote it before, and read it again"


class _Listener:
    """What Spark calls for each query, on the thread of its listener bus."""

    def __init__(self, capture: "Capture") -> None:
        self._capture = capture

    def onSuccess(self, function: str, execution: Java, _ns: int) -> None:  # noqa: N802
        self._capture.add_query(execution, function)

    def onFailure(self, _function: str, _execution: Java, _problem: Java) -> None:  # noqa: N802
        """A query that failed has written nothing."""

    class Java:
        """The Java interface that it implements."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


class Capture:
    """Watches a session until it is closed, and the jobs of this thread until `stop_job_tracking`."""

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
        self._queries: list[ObservedQuery] = []
        self._notes: dict[str, None] = {}
        self._spent_ms: dict[int, float] = {}
        self._is_open = True
        self._last_of_code: int | None = None
        self._jobs: _ThreadJobs | None = None
        try:
            self._jobs = _ThreadJobs(session)
            ensure_callback_server_started(self._gateway)  # type: ignore[no-untyped-call]
            self._manager.register(_Listener(self))
        except Exception as problem:  # the task goes on, and its lineage says why it is weak
            self._notes.setdefault(f"queries could not be watched: {type(problem).__name__}")

    def mark_end_of_code(self) -> None:
        """Note that later queries are not those of the user's code, but write its results."""
        try:
            last = self._session.range(0)._jdf.queryExecution().id()  # noqa: SLF001 - runs nothing
            self._last_of_code = int(last)
        except Exception as problem:  # the JVM has ended; the write will fail with that
            self._notes.setdefault(f"the order of queries is not known: {type(problem).__name__}")

    def add_query(self, execution: Java, function: str = "") -> None:
        """Keep what is known of a query; called by Spark, and never raises."""
        if not self._is_open:
            return
        try:
            query = fetch_query(self._gateway, execution, function)
        except Exception as problem:  # no error may reach Spark's listener bus
            note = f"a query could not be watched: {type(problem).__name__}"
            query = ObservedQuery(has_all_sources=False, note=note)
        with self._lock:
            self._queries.append(query)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Bound the memory used: the write that matters comes last."""
        if len(self._queries) > _MAX_QUERIES:
            del self._queries[0]
            self._notes.setdefault("there were more queries than are kept")
        size = sum(len(query.text or "") for query in self._queries)
        for at, query in enumerate(self._queries[:-1]):
            if size <= _MAX_TEXT:
                break
            size -= len(query.text or "")
            self._queries[at] = replace(
                query, text=None, note="its plan was dropped to save memory"
            )

    def finish(
        self,
        target: Dataset,
        *,
        frame: DataFrame | None = None,
        ignored_literals: Collection[str] = (),
    ) -> LineageObservation:
        """The lineage of a target: what its write read, and what may have influenced it.

        That is what queries of the program that wrote nothing have read, and what went into its other
        writes if their results were read again. If no write of the target was seen, the plan of `frame` is
        used. `ignored_literals` differ from run to run, such as the values of the partition.
        """
        queries = self._all_queries()
        writes = [query for query in queries if _writes(query, target)]
        direct = [query for query in queries if self._may_influence(query, target)]
        intermediate = self._intermediate_writes(queries, direct, target)
        relevant = direct + intermediate
        reads = combine_reads(
            [fact for query in writes for fact in query.reads],
            [fact for query in relevant for fact in query.reads],
            [source for query in relevant for source in query.sources],
        )
        if writes:
            has_collected = _have_collected(relevant, target)
            observation = self._observe(
                writes, reads, ignored_literals, has_collected=has_collected
            )
        else:
            planned = (
                None if frame is None else observe_plan(frame, ignored_literals=ignored_literals)
            )
            observation = _without_write(target, reads, planned)
        beside = [query for query in relevant if not _writes(query, target)]
        for reason in self._uncertainties(beside, intermediate):
            observation = observation.weaken("declared", reason)
        return observation

    def reads(self) -> tuple[ReadFact, ...]:
        """All that any query of the session has read so far."""
        queries = self._all_queries()
        facts = [fact for query in queries for fact in query.reads]
        return combine_reads([], facts, [source for query in queries for source in query.sources])

    def spent_ms(self) -> list[float]:
        """Python's processor time spent on each query, including the reading of its plan."""
        return [self._spent_ms.get(id(query), query.spent_ms) for query in self._all_queries()]

    def stop_job_tracking(self) -> None:
        """Ignore jobs that this thread starts from now on; queries of the session are still observed."""
        if self._jobs is not None:
            self._jobs.close()

    def close(self) -> None:
        """Stop watching. Spark cannot remove a single listener: all of the session's are removed."""
        self._is_open = False
        self.stop_job_tracking()
        with suppress(Exception):  # the JVM may have ended
            self._manager.clear()

    def _has_unobserved_jobs(self) -> bool:
        """Whether rows were read without a query; if that cannot be found out, it is noted."""
        try:
            return self._jobs is not None and self._jobs.has_unobserved()
        except Exception as problem:  # the JVM has ended
            self._notes.setdefault(f"its jobs are not known: {type(problem).__name__}")
            return False

    def _uncertainties(
        self, beside: list[ObservedQuery], intermediate: list[ObservedQuery]
    ) -> Iterator[str]:
        """Why columns may come from a source that is in no plan of the write."""
        if self._has_unobserved_jobs():
            yield _UNOBSERVED_JOBS
        yield from [*self._notes]
        incomplete = (query.note for query in beside if not query.has_all_sources)
        if (note := next(incomplete, None)) is not None:  # one such query is enough
            yield _UNKNOWN_SOURCES.format(note)
        collected = [query for query in beside if query.gives_rows]
        if names := _names(source for query in collected for source in query.sources):
            yield _COLLECTED_ROWS.format(names)
        if names := _names(query.targets[0] for query in intermediate if query.sources):
            yield _INTERMEDIATE.format(names)

    def _is_of_code(self, query: ObservedQuery) -> bool:
        return self._last_of_code is None or query.number <= self._last_of_code

    def _may_influence(self, query: ObservedQuery, target: Dataset) -> bool:
        """Whether it is a write of the target, or gave the program something to decide by."""
        if query.targets:
            return _writes(query, target)
        return self._is_of_code(query)

    def _intermediate_writes(
        self, queries: list[ObservedQuery], reading: list[ObservedQuery], target: Dataset
    ) -> list[ObservedQuery]:
        """The other writes of the program whose results were read again for the target."""
        intermediate: list[ObservedQuery] = []
        others = [query for query in queries if query.targets and self._is_of_code(query)]
        others = [query for query in others if not _writes(query, target)]
        while reading:
            sources = {source for query in reading for source in query.sources}
            reading = [each for each in others if any(_writes(each, source) for source in sources)]
            others = [each for each in others if each not in reading]
            intermediate += reading
        return intermediate

    def _observe(
        self,
        writes: list[ObservedQuery],
        reads: tuple[ReadFact, ...],
        ignored_literals: Collection[str],
        *,
        has_collected: bool,
    ) -> LineageObservation:
        """All writes of one target together; there are several if it was appended to more than once."""
        edges: dict[ObservedEdge, None] = {}
        notes: dict[str, None] = {}
        plans: list[PlanLineage] = []
        for query in writes:
            budget = CallBudget(spent_ms=query.spent_ms)
            plan = _read(query.text, query.facts, ignored_literals, budget)
            self._spent_ms[id(query)] = budget.spent_ms()
            plans.append(plan)
            edges.update(dict.fromkeys(plan.edges))
            notes.update(dict.fromkeys(filter(None, (query.note, plan.note))))
        observation = LineageObservation(
            reads,
            tuple(edges),
            weakest(*(each.soundness for each in plans)),
            next((each.fingerprint for each in reversed(plans) if each.fingerprint), None),
            "; ".join(notes),
        )
        if has_collected and any(each.has_literal_rows for each in plans):
            return observation.weaken("declared", _OWN_ROWS)
        return observation

    def _all_queries(self) -> list[ObservedQuery]:
        """Every query so far, after Spark's listener bus was drained or the time for that is up."""
        try:
            self._context._jsc.sc().listenerBus().waitUntilEmpty(DRAIN_MS)  # noqa: SLF001
        except Exception:  # a timeout, or the JVM has ended: the queries until then count
            self._notes.setdefault("Spark did not report all queries in time")
        with self._lock:
            return list(self._queries)


def observe_plan(frame: DataFrame, *, ignored_literals: Collection[str] = ()) -> LineageObservation:
    """The lineage in the plan of a frame, for a write that no listener saw; it runs nothing."""
    budget = CallBudget()
    gateway: Java = frame.sparkSession.sparkContext._gateway  # noqa: SLF001
    try:
        analyzed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        plan = fetch_plan(gateway, analyzed, budget, with_text=True)
    except Exception as problem:
        return LineageObservation(
            soundness="unsupported", note=f"there is no plan: {type(problem).__name__}"
        )
    reads = combine_reads([], [], plan.sources)
    if plan.note:
        return LineageObservation(reads=reads).without_columns(plan.note)
    lineage = _read(plan.text, plan.facts, ignored_literals, budget)
    return LineageObservation(
        reads, lineage.edges, lineage.soundness, lineage.fingerprint, lineage.note
    )


def _have_collected(queries: Iterable[ObservedQuery], target: Dataset) -> bool:
    """Whether one of them gave rows to the program; what it does with them is in no plan."""
    sources = (each for query in queries if not query.targets for each in query.sources)
    return any(not is_same_dataset(target, source) for source in sources)


def _writes(query: ObservedQuery, target: Dataset) -> bool:
    return any(is_same_dataset(target, each) for each in query.targets)


def _names(datasets: Iterable[Dataset]) -> str:
    return ", ".join(sorted({str(each) for each in datasets}))


def _without_write(
    target: Dataset, reads: tuple[ReadFact, ...], planned: LineageObservation | None
) -> LineageObservation:
    """No write was seen: the lineage of the frame's plan, and what any query has read."""
    reason = f"no write of {target} was seen"
    if planned is None:
        return LineageObservation(reads).without_columns(reason)
    note = "; ".join(filter(None, (f"{reason}: the plan of its frame was read", planned.note)))
    all_reads = combine_reads([], reads, [fact.dataset for fact in planned.reads])
    return replace(planned, reads=all_reads, note=note)


def _read(
    text: str | None,
    facts: PlanFacts | None,
    ignored_literals: Collection[str],
    budget: CallBudget,
) -> PlanLineage:
    if text is None or facts is None:
        return PlanLineage((), "table_only", None)
    return read_plan(text, facts, ignored_literals=ignored_literals, is_out_of_time=budget.is_spent)


class _ThreadJobs:
    """The jobs that this thread starts, to find those that read rows without an observed query.

    No listener is called for work on RDDs (`df.rdd`, `foreach`) or in another session. But a job has the
    tags of the thread that started it, and a job of a query that of its session as well. So a job with the
    first tag, without the second, that has read rows is one whose plan was not observed. Inferring the
    schema of files takes such a job too: it is recognized by the name of the reader method, and the query
    that reads the files reports them. `toLocalIterator` has both tags, and still no listener is called for
    it.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._session_tag = session_tag(session)
        self._thread_tag = f"arco-watched-{self._session_tag}"
        self._context.addJobTag(self._thread_tag)

    def close(self) -> None:
        """Do not tag jobs that this thread starts from now on."""
        with suppress(Exception):  # the JVM may have ended
            self._context.removeJobTag(self._thread_tag)

    def has_unobserved(self) -> bool:
        """Whether a job that was no query of the session read rows.

        Spark remembers the last thousand jobs, of all threads together.
        """
        context: Java = self._context._jsc.sc()  # noqa: SLF001 - pyspark has no public access
        tracker = context.statusTracker()
        jobs = set(tracker.getJobIdsForTag(self._thread_tag))
        others = sorted(jobs - set(tracker.getJobIdsForTag(self._session_tag)))
        if len(others) > _MAX_JOBS or any(self._reads_rows(context, job) for job in others):
            return True
        of_queries, store = jobs.difference(others), context.statusStore()
        return len(of_queries) > _MAX_NAMES or any(
            _method(store.job(job)) == _LOCAL_ITERATOR for job in of_queries
        )

    def _reads_rows(self, context: Java, job: int) -> bool:
        info = context.statusTracker().getJobInfo(job)
        if info.isEmpty() or self._is_observed(context.statusStore().job(job)):
            return False
        return any(_has_read_rows(context, int(stage)) for stage in info.get().stageIds())

    def _is_observed(self, job: Java) -> bool:
        """Whether it is of a query of the session, perhaps a nested one, or infers a schema."""
        tags = texts(job.jobTags())
        if any(tag.startswith(_SESSION_TAG) for tag in tags):
            return any(tag.startswith(self._session_tag) for tag in tags)
        return _method(job) in _SCHEMA_READERS


def _method(job: Java) -> str:
    """The method that started a job."""
    return str(job.name()).partition(" ")[0]


def _has_read_rows(context: Java, stage: int) -> bool:
    try:
        return int(context.statusStore().lastStageAttempt(stage).inputRecords()) > 0
    except Exception:  # Spark knows no attempt of a stage that it has skipped
        return False
