"""The book of runs of a process, put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from arco.api.flow.desk import FlowDesk
from arco.api.services import Services
from arco.cli.flow.fences import TableFences, TableVersions
from arco.cli.flow.one_book import BookLock
from arco.cli.place import Place
from arco.cli.workspace import Workspace
from arco.core.clock import Clock
from arco.core.tasks import Event
from arco.flow.publish.tables import ParquetTables
from arco.flow.read.run_reader import SqlRunReader
from arco.flow.read.state_reader import SqlStateReader
from arco.flow.run.book import RunBook
from arco.flow.run.facts import LedgerFacts
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.iceberg.service import Iceberg
from arco.storage.collect import DEFAULT_RETENTION_MS
from arco.storage.store import Store

_AGAIN_MS = 1_000

Tell = Callable[[str, Exception], None]


@dataclass(frozen=True)
class Flow:
    """The book of runs, and what it stands on."""

    book: RunBook
    desk: FlowDesk
    facts: LedgerFacts
    clock: Clock
    tell: Tell
    opened: Event  # set once the book can be spoken to
    lock: BookLock

    async def begin(self) -> None:
        """Open the book: go on with what an earlier process has left. Tried until it succeeds."""
        told: type[Exception] | None = None
        while not self.opened.is_set():
            try:
                self.lock.take()
                await self.book.begin()
                self.opened.set()
            except Exception as problem:
                if type(problem) is not told:
                    told = type(problem)
                    self.tell("opening the book of runs", problem)
                await self.clock.sleep(_AGAIN_MS)

    async def close(self) -> None:
        """Close the book. Attempts under way go on without it, for the time of a lease."""
        await self.book.close()
        self.facts.close()
        await self.desk.tables.close()
        self.lock.release()


def open_flow(
    place: Place,
    services: Services,
    workspace: Workspace,
    iceberg: Iceberg,
    store: Store,
    *,
    tell: Tell,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> Flow:
    """The book of runs of a workspace; `store` is its handle of the role flow."""
    tables = ParquetTables(
        workspace.reader,
        store,
        location_root=services.location_root,
        retention_ms=retention_ms,
    )
    versions, runs = TableVersions(iceberg, tables), SqlRunReader(services.engine)
    facts = LedgerFacts(workspace.writers)
    events = services.domains[EXECUTIONS_DOMAIN]
    book = RunBook(
        store,
        facts=facts,
        fences=TableFences(workspace.reader, iceberg, tables),
        versions=versions,
        states=SqlStateReader(services.engine, workspace.reader, events, versions),
        runs=runs,
    )
    services.metrics.flow.watch(book)
    desk, runtime = FlowDesk(book, runs, tables), services.runtime
    opened, lock = runtime.tasks.event(), BookLock(place)
    return Flow(book, desk, facts, runtime.clock, tell, opened, lock)


@asynccontextmanager
async def keeping_the_book(flow: Flow | None, services: Services) -> AsyncIterator[None]:
    """A block beside which the book of runs is kept, if it is; until it is open, callers are sent away."""
    if flow is None:
        yield
        return
    opening = services.runtime.tasks.spawn(flow.begin())
    try:
        yield
    finally:
        opening.cancel()
        await flow.close()
