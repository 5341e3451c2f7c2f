"""The book of runs of a process, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Never

from arco.api.services import FlowContext, Services
from arco.cli.flow.fences import TableFences, TableVersions
from arco.cli.flow.one_book import BookLock, BookTaken, lock_of
from arco.cli.place import Place
from arco.cli.workspace import Workspace
from arco.core.errors import ArcoError, Unavailable
from arco.core.runtime import Runtime
from arco.core.tasks import Event
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.ports import ErrorReporter
from arco.flow.coordinator.run_reader import SqlRunReader
from arco.flow.plan.event_query import BacklogWait
from arco.flow.plan.state_reader import SqlStateReader
from arco.flow.publish.tables import ParquetTables
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.iceberg.service import Iceberg
from arco.storage.collect import DEFAULT_RETENTION_MS
from arco.storage.store import Store

_AGAIN_MS = 1_000
_MOMENT_MS = 100
_ENDING_MS = 5_000  # how long ending runs that have died may keep others from the book
_LOOK_MS = 10_000  # how often who looks for long asks for such runs
_LOST = "another Arco may keep it by now, as this one could not say for too long that it does"


class Flow:
    """The book of runs, and what it stands on."""

    def __init__(
        self,
        book: RunCoordinator,
        desk: FlowContext,
        facts: LedgerEventWriter,
        lock: BookLock,
        tell: ErrorReporter,
        *,
        keeps_book: bool = True,
    ) -> None:
        self.book = book
        self.desk = desk
        self.tells_first = True  # or whoever started it asks `check` once it was tried
        self._facts = facts
        self._lock = lock
        self._tell = tell
        self._keeps_book = keeps_book
        self._problem: Exception | None = None

    async def keep(self, runtime: Runtime, tried: Event) -> None:
        """Open the book, going on with what an earlier process has left, and again should it be lost.

        Tried until it succeeds; `tried` is set once it was tried at all. Who only looks never keeps it.
        """
        if not self._keeps_book:
            await self._look_on(runtime, tried)
        patient_until_ms = runtime.clock.elapsed_ms() + 2 * _ENDING_MS
        while True:
            try:
                await self._lock.take()
                await self.book.begin()
            except Exception as problem:
                is_brief = isinstance(problem, BookTaken) and problem.is_brief
                if is_brief and runtime.clock.elapsed_ms() < patient_until_ms:
                    await runtime.clock.sleep(_MOMENT_MS)
                    continue
                self._met(problem)
                tried.set()
                await runtime.clock.sleep(_AGAIN_MS)
                continue
            self._problem = None
            tried.set()
            await self._lock.lost.wait()
            await self.book.close(_LOST)
            self._met(Unavailable(_LOST))

    async def _look_on(self, runtime: Runtime, tried: Event) -> Never:
        """Read how runs stand from the ledger, whoever keeps the book, and end runs that have died.

        A run whose process was killed is not over before a book has looked at it: its tasks would be shown
        as running for ever, rows that they have published as missing, and who follows its log would never
        come to an end. So where nobody keeps the book it is taken for the moment that this needs.
        """
        self.book.allow_reads()
        while True:
            try:
                await self._end_dead()
                self._problem = None
            except Exception as problem:
                self._met(problem)
            tried.set()
            await runtime.clock.sleep(_LOOK_MS)

    async def _end_dead(self) -> None:
        if not await self.book.has_orphaned_runs():
            return
        try:
            await self._lock.take()
        except BookTaken:
            return  # they live, or whoever has it ends them
        try:
            await self.book.end_orphaned_runs(_ENDING_MS)
        finally:
            await self._lock.release()

    def check(self) -> None:
        """Raise why the book is not open, or why who only looks cannot, if that is so."""
        if self._problem is not None:
            raise self._problem

    async def close(self) -> None:
        """Close the book. Attempts under way go on without it, for the time of a lease."""
        await self.book.close()
        self._facts.close()
        await self.desk.tables.close()
        await self._lock.release()

    def _met(self, problem: Exception) -> None:
        if self.tells_first and type(problem) is not type(self._problem):
            self._tell("keeping the book of runs", problem)
        self.tells_first = True
        self._problem = problem
        if isinstance(problem, ArcoError):
            self.book.set_closed_reason(str(problem))


def open_flow(
    place: Place,
    services: Services,
    workspace: Workspace,
    iceberg: Iceberg,
    store: Store,
    *,
    tell: ErrorReporter,
    retention_ms: int = DEFAULT_RETENTION_MS,
    keeps_book: bool = True,
) -> Flow:
    """The book of runs of a workspace, to keep or to look at; `store` is its handle of the role flow."""
    tables = ParquetTables(
        workspace.reader,
        store,
        location_root=services.location_root,
        retention_ms=retention_ms,
    )
    engine = BacklogWait(services.engine, services.runtime.clock)
    versions, runs = TableVersions(iceberg, tables), SqlRunReader(engine)
    facts = LedgerEventWriter(workspace.writers)
    events = services.domains[EXECUTIONS_DOMAIN]
    book = RunCoordinator(
        store,
        events=facts,
        fences=TableFences(workspace.reader, iceberg, tables),
        versions=versions,
        states=SqlStateReader(engine, workspace.reader, events, versions),
        runs=runs,
        on_error=tell,
    )
    services.metrics.flow.watch(book)
    lock = lock_of(place, workspace.reader.store, briefly=not keeps_book)
    desk = FlowContext(book, runs, tables)
    return Flow(book, desk, facts, lock, tell, keeps_book=keeps_book)


@asynccontextmanager
async def keeping_the_book(flow: Flow | None, services: Services) -> AsyncIterator[Event]:
    """A block beside which the book of runs is kept, if it is; until it is open, callers are sent away.

    The event is set once it is open, or could not be opened for the first time.
    """
    runtime = services.runtime
    tried = runtime.tasks.event()
    if flow is None:
        yield tried
        return
    keeping = runtime.tasks.spawn(flow.keep(runtime, tried))
    try:
        yield tried
    finally:
        keeping.cancel()
        await flow.close()
