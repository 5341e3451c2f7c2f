"""Log lines and metrics of background work: failures that no caller receives, and what was found.

Errors are logged by type and place in the code; their message only as far as it holds nothing private.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from arco.api.http.problem import loggable
from arco.api.http.telemetry import Log, frames
from arco.api.metrics import Metrics
from arco.compactor.inspection import Inspection
from arco.core.background import background
from arco.core.clock import Clock
from arco.core.errors import ArcoError
from arco.core.runtime import Runtime
from arco.flow.coordinator.ports import ErrorReporter
from arco.iceberg.reconciler import ReconcilerRound
from arco.server.coordinator_lock import CoordinatorLockTaken

# The lease of a killed process runs out sooner than this: such a start is an ordinary one.
_QUIET_MS = 5_000
_REMIND_MS = 30_000

_COLLECTION_OF_A_TABLE = "collection of a table"
_RECONCILIATION = "reconciliation"
_RECONCILIATION_OF_A_TABLE = "reconciliation of a table"


def failure_reporter(log: Log, metrics: Metrics) -> ErrorReporter:
    """A function that records a failure of background work: a line in the log, and a count."""

    def report(what: str, problem: Exception, /, **context: str) -> None:
        if isinstance(problem, CoordinatorLockTaken):  # a state of its own, not a failure
            log.info("runs are coordinated by another process", **context, **error_fields(problem))
            return
        log_failure(log, what, problem, **context)
        metrics.background_failed(what)

    return report


def table_failure_reporter(
    log: Log, metrics: Metrics, *, what: str = _COLLECTION_OF_A_TABLE
) -> Callable[[str, Exception], None]:
    """A function that records tables for which background work failed.

    Each failure is counted; a table and type of error is logged once, since such work is repeated every
    few hours with the same outcome.
    """
    logged: set[tuple[str, str]] = set()

    def report(table: str, problem: Exception) -> None:
        metrics.background_failed(what)
        key = (table, type(problem).__name__)
        if key not in logged:
            logged.add(key)
            log_failure(log, what, problem, table=table)

    return report


def inspection_reporter(log: Log, metrics: Metrics) -> Callable[[Inspection], None]:
    """A function that records what an inspection of a domain has found: log lines, and gauges."""

    def report(inspection: Inspection) -> None:
        domain = inspection.domain
        metrics.maintenance.inspected(
            domain,
            troubles=len(inspection.troubles),
            waiting=inspection.waiting,
            lag_ms=inspection.lag_ms,
            orphans=inspection.orphans.objects,
        )
        for stream in inspection.sealed:
            log.info("a stream past its end was sealed", domain=domain, stream=stream)
        for hint in inspection.hints:
            log.info("a hint was rewritten", domain=domain, object=hint)
        for problem in inspection.troubles:
            log.error(
                "something is wrong in the store",
                domain=domain,
                kind=str(problem.kind),
                object=problem.path,
                detail=problem.explanation,
            )

    return report


class ReconcilerReport:
    """The observer of one reconciler. A failed round is logged each time, a failed table once."""

    def __init__(self, log: Log, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics.reconciler
        self._clock = clock
        self._failed = failure_reporter(log, metrics)
        self._table_failed = table_failure_reporter(log, metrics, what=_RECONCILIATION_OF_A_TABLE)

    def reconciled(self, done: ReconcilerRound, *, full: bool) -> None:
        """A round has ended."""
        self._metrics.reconciled(done, full=full, at_ms=self._clock.now_ms())

    def round_failed(self, problem: Exception, *, full: bool) -> None:
        """A round was given up."""
        self._metrics.failed(full=full)
        self._failed(_RECONCILIATION, problem)

    def table_failed(self, table_id: str, problem: Exception) -> None:
        """One table was left to the next round."""
        self._metrics.table_failed()
        self._table_failed(table_id, problem)


class StartupWait:
    """A start that waits for the store, the compactor or a lease."""

    def __init__(self) -> None:
        self._problem: Exception | None = None

    def retrying(self, problem: Exception) -> None:
        """An attempt has failed with `problem`, and is repeated."""
        self._problem = problem

    def log_to(self, log: Log) -> None:
        """Log that the start still waits, with the last problem."""
        fields = {} if self._problem is None else error_fields(self._problem)
        log.warning("waiting for the store, the compactor or the lease of another", **fields)


@asynccontextmanager
async def log_slow_startup(runtime: Runtime, log: Log) -> AsyncIterator[StartupWait]:
    """A block that may wait for other processes: logged after a few seconds, and repeatedly."""
    wait = StartupWait()

    async def remind() -> None:
        await runtime.clock.sleep(_QUIET_MS)
        while True:
            wait.log_to(log)
            await runtime.clock.sleep(_REMIND_MS)

    async with background(runtime.tasks, remind):
        yield wait


def log_failure(log: Log, what: str, problem: Exception, **context: str) -> None:
    """Log one line: the error by its type and places, and its message as far as a log may hold it."""
    event = f"{what} failed"
    log.error(event, **context, **error_fields(problem), places=frames(problem))


def error_fields(problem: Exception) -> dict[str, str]:
    """The fields of an error in a log: its type, and its message as far as a log may hold it."""
    detail = loggable(problem) if isinstance(problem, ArcoError) else ""
    fields = {"error": type(problem).__name__}
    return {**fields, "detail": detail} if detail else fields
