"""Trouble that no caller is told of: into the log and the metrics, or nobody would ever know."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from arco.api.http.problem import loggable
from arco.api.http.telemetry import Log, places
from arco.api.metrics import Metrics
from arco.cli.flow.one_book import BookTaken
from arco.core.errors import ArcoError
from arco.core.runtime import Runtime
from arco.flow.coordinator.ports import ErrorReporter

# The lease of a process that was killed runs out before; that is an ordinary start.
_SILENCE_MS = 5_000
_AGAIN_MS = 30_000

_OF_A_TABLE = "collection of a table"


def teller(log: Log, metrics: Metrics) -> ErrorReporter:
    """Tells what has failed beside the requests: a line in the log, and a count."""

    def tell(what: str, problem: Exception, /, **whose: str) -> None:
        if isinstance(problem, BookTaken):  # another process coordinates runs, as it should be
            log.info("runs are coordinated by another process", **whose, **about(problem))
            return
        log_failure(log, what, problem, **whose)
        metrics.background_failed(what)

    return tell


def table_teller(
    log: Log, metrics: Metrics, *, what: str = _OF_A_TABLE
) -> Callable[[str, Exception], None]:
    """Reports tables for which background work has failed: each time a count, and in the log once.

    Such work, say a collection, comes back every few hours and finds the same: a line for each table and
    kind of error is enough to find it by.
    """
    told: set[tuple[str, str]] = set()

    def tell(table: str, problem: Exception) -> None:
        metrics.background_failed(what)
        kind = (table, type(problem).__name__)
        if kind not in told:
            told.add(kind)
            log_failure(log, what, problem, table=table)

    return tell


def log_failure(log: Log, what: str, problem: Exception, **more: str) -> None:
    """One line: the error by its type and places, and its words as far as a log may hold them."""
    event = f"{what} failed"
    log.error(event, **more, **about(problem), places=places(problem))


class Wait:
    """A start that is not done yet."""

    def __init__(self) -> None:
        self._problem: Exception | None = None

    def met(self, problem: Exception) -> None:
        """It was tried, and will be tried again."""
        self._problem = problem

    def say(self, log: Log) -> None:
        """Tell whoever looks that it goes on, and what stood in the way last."""
        fields = {} if self._problem is None else about(self._problem)
        log.warning("waiting for the store, the compactor or the lease of another", **fields)


@asynccontextmanager
async def patience(runtime: Runtime, log: Log) -> AsyncIterator[Wait]:
    """A block that may have to wait for others: after a few seconds it is said, and then again."""
    wait = Wait()

    async def watch() -> None:
        await runtime.clock.sleep(_SILENCE_MS)
        while True:
            wait.say(log)
            await runtime.clock.sleep(_AGAIN_MS)

    watching = runtime.tasks.spawn(watch())
    try:
        yield wait
    finally:
        watching.cancel()


def about(problem: Exception) -> dict[str, str]:
    """An error for a log: its type, and its words as far as a log may hold them."""
    words = loggable(problem) if isinstance(problem, ArcoError) else ""
    kind = {"error": type(problem).__name__}
    return {**kind, "detail": words} if words else kind
