"""The coordinator of runs in a process: opened under its lock, and again if the lock was lost.

A process that only reads runs does not hold the lock, except for the moment that it needs to end runs
whose process was killed. `TableFences` and `TableVersions` give it the Iceberg and Parquet tables.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from arco.api.services import FlowContext, Services
from arco.catalog.change import DEFAULT_CATALOG
from arco.catalog.ddl import TableName
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.name import parse_dotted
from arco.catalog.publication import DispatchedAttempt, NumberedPublication
from arco.catalog.reader import SnapshotReader
from arco.core.background import background, repeat
from arco.core.errors import ArcoError, Invalid, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent
from arco.flow.coordinator.clearing import ClearingStateReader
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.ports import ErrorReporter, TableHead
from arco.flow.coordinator.run_reader import SqlRunReader
from arco.flow.plan.event_query import BacklogWait
from arco.flow.plan.state_reader import SqlStateReader
from arco.flow.plan.table_state import UnprovenFile
from arco.flow.publish.tables import ParquetTables
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.iceberg.service import Iceberg
from arco.server.coordinator_lock import (
    CoordinatorLock,
    CoordinatorLockTaken,
    open_coordinator_lock,
)
from arco.server.workspace import Workspace
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.store import Store

NO_CHAIN = -1  # the number of a table of another format


class TableFences:
    """The chain heads of tables, and fences on them (P35)."""

    def __init__(self, reader: SnapshotReader, iceberg: Iceberg, parquet: ParquetTables) -> None:
        self._reader = reader
        self._iceberg = iceberg
        self._parquet = parquet

    async def head(self, table: str) -> TableHead | None:
        """The chain head of a table by its full name; None if there is no such table."""
        try:
            row = (await (await self._reader.head()).table(_name(table))).row
        except NotFound:
            return None
        number: int | None = NO_CHAIN
        match _format(row):
            case TableFormat.ICEBERG:
                number = await self._iceberg.fences.number(row.table_id)
            case TableFormat.PARQUET:
                number = await self._parquet.number(row.table_id)
        if number is None:
            return None  # it was dropped, and the snapshot still has its name
        return TableHead(row.table_id, str(row.format or ""), number)

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        """The publication of any attempt at the task above `since`, or the number of a new fence."""
        row = (await (await self._reader.head()).find(table_id)).row
        match _format(row):
            case TableFormat.ICEBERG:
                return await self._iceberg.fences.fence(table_id, attempt, since)
            case TableFormat.PARQUET:
                return await self._parquet.fence(table_id, attempt, since)
        raise Invalid(f"{row.name} has no versions that could keep a late attempt out")

    async def publications(self, table_id: str, since: int) -> Sequence[NumberedPublication]:
        """All publications and fences on a table above a number."""
        row = (await (await self._reader.head()).find(table_id)).row
        match _format(row):
            case TableFormat.ICEBERG:
                context = self._iceberg.context
                table_head = await context.heads.of(table_id)
                chain = context.pointers.chain(table_id)
                return await context.published.publications_since(
                    chain, since, table_head.chain_head
                )
            case TableFormat.PARQUET:
                return await self._parquet.publications(table_id, since)
        return ()


class TableVersions:
    """The versions and files of tables."""

    def __init__(self, iceberg: Iceberg, parquet: ParquetTables) -> None:
        self._iceberg = iceberg
        self._parquet = parquet

    async def versions(self, table_id: str, format: str) -> tuple[str | None, Mapping[str, str]]:  # noqa: A002
        """The version of the table, and the versions of its partitions where the format has them."""
        if format == TableFormat.ICEBERG:
            return await self._iceberg.versions.versions(table_id)
        if format == TableFormat.PARQUET:
            return await self._parquet.versions(table_id)
        return None, {}

    async def unproven_files(self, table_id: str, format: str) -> tuple[UnprovenFile, ...]:  # noqa: A002
        """The files that no attempt is known to have added; only attempts add files to Parquet tables."""
        if format == TableFormat.ICEBERG:
            files = await self._iceberg.versions.files_without_attempt(table_id)
            return tuple(UnprovenFile(f.partition, f.path, str(f.snapshot_id)) for f in files)
        return ()


def _format(row: object) -> TableFormat | None:
    """The format of a table; None for other objects and tables without a format."""
    if isinstance(row, TableRow) and row.kind is ObjectKind.TABLE:
        return row.format
    return None


def _name(table: str) -> TableName:
    parts = parse_dotted(table)
    if len(parts) < 2:
        raise Invalid(f"{table!r} does not name a table: write schema.table")
    catalog, *schema, name = parts if len(parts) > 2 else (DEFAULT_CATALOG, *parts)
    return TableName(catalog, tuple(schema), name)


_RETRY_MS = 1_000
_BRIEF_RETRY_MS = 100
_END_DEAD_RUNS_MS = 5_000  # how long ending runs of killed processes may hold the lock
_DEAD_RUN_CHECK_MS = 10_000
_LOCK_LOST = "another Arco may coordinate runs by now, as this one could not renew its lock in time"


class CoordinatorService:
    """The coordinator of a process, its lock, and the context of the API's handlers."""

    def __init__(
        self,
        coordinator: RunCoordinator,
        context: FlowContext,
        facts: LedgerEventWriter,
        lock: CoordinatorLock,
        failed: ErrorReporter,
        *,
        coordinates_runs: bool = True,
    ) -> None:
        self.coordinator = coordinator
        self.context = context
        self.reports_first_problem = (
            True  # False where the caller uses `check` after the first attempt
        )
        self._facts = facts
        self._lock = lock
        self._failed = failed
        self._coordinates_runs = coordinates_runs
        self._problem: Exception | None = None

    @asynccontextmanager
    async def running(self, runtime: Runtime) -> AsyncIterator[AsyncEvent]:
        """Coordinate runs beside a block; until the coordinator is open, callers are rejected.

        The event is set after the first attempt to open it.
        """
        attempted = runtime.tasks.event()
        work = self._coordinate if self._coordinates_runs else self._read_only
        try:
            async with background(runtime.tasks, partial(work, runtime, attempted)):
                yield attempted
        finally:
            await self._close()

    async def _coordinate(self, runtime: Runtime, attempted: AsyncEvent) -> None:
        """Open the coordinator, which resumes runs of an earlier process; reopen it if the lock is lost."""
        brief_until_ms = runtime.clock.elapsed_ms() + 2 * _END_DEAD_RUNS_MS
        while True:
            try:
                await self._lock.take()
                await self.coordinator.begin()
            except Exception as problem:
                is_brief = isinstance(problem, CoordinatorLockTaken) and problem.is_brief
                if is_brief and runtime.clock.elapsed_ms() < brief_until_ms:
                    await runtime.clock.sleep(_BRIEF_RETRY_MS)
                    continue
                self._report(problem)
                attempted.set()
                await runtime.clock.sleep(_RETRY_MS)
                continue
            self._problem = None
            attempted.set()
            await self._lock.lost.wait()
            await self.coordinator.close(_LOCK_LOST)
            self._report(Unavailable(_LOCK_LOST))

    async def _read_only(self, runtime: Runtime, attempted: AsyncEvent) -> None:
        """Read the state of runs from the ledger, and end runs whose process was killed.

        Until a coordinator has ended such a run, its tasks are shown as running, its published rows as
        missing, and followers of its log wait for ever.
        """
        self.coordinator.allow_reads()

        async def check_once() -> None:
            await self._end_dead_runs()
            self._problem = None
            attempted.set()

        def failed(problem: Exception) -> None:
            self._report(problem)
            attempted.set()

        await repeat(runtime, check_once, every_ms=_DEAD_RUN_CHECK_MS, failed=failed)

    async def _end_dead_runs(self) -> None:
        if not await self.coordinator.has_orphaned_runs():
            return
        try:
            await self._lock.take()
        except CoordinatorLockTaken:
            return  # they are alive, or the holder of the lock ends them
        try:
            await self.coordinator.end_orphaned_runs(_END_DEAD_RUNS_MS)
        finally:
            await self._lock.release()

    def check(self) -> None:
        """Raise the error that keeps the coordinator from being open or read, if there is one."""
        if self._problem is not None:
            raise self._problem

    async def _close(self) -> None:
        """Close the coordinator. Attempts under way continue for the time of a lease."""
        await self.coordinator.close()
        self._facts.close()
        await self.context.tables.close()
        await self._lock.release()

    def _report(self, problem: Exception) -> None:
        if self.reports_first_problem and type(problem) is not type(self._problem):
            self._failed("coordinating runs", problem)
        self.reports_first_problem = True
        self._problem = problem
        if isinstance(problem, ArcoError):
            self.coordinator.set_closed_problem(problem)


def open_coordinator(
    address: WorkspaceAddress,
    services: Services,
    workspace: Workspace,
    iceberg: Iceberg,
    store: Store,
    *,
    failed: ErrorReporter,
    retention_ms: int = DEFAULT_RETENTION_MS,
    coordinates_runs: bool = True,
) -> CoordinatorService:
    """The coordinator of a workspace, or a reader of its runs; `store` has the role flow."""
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
    fences = TableFences(workspace.reader, iceberg, tables)
    states = ClearingStateReader(
        SqlStateReader(engine, workspace.reader, events, versions),
        engine,
        fences,
        facts,
        runtime=services.runtime,
        on_error=failed,
        retention_ms=retention_ms,
    )
    coordinator = RunCoordinator(
        store,
        events=facts,
        fences=fences,
        versions=versions,
        states=states,
        runs=runs,
        on_error=failed,
    )
    services.metrics.flow.watch(coordinator)
    return CoordinatorService(
        coordinator,
        FlowContext(coordinator, runs, tables),
        facts,
        open_coordinator_lock(address, workspace.reader.store, briefly=not coordinates_runs),
        failed,
        coordinates_runs=coordinates_runs,
    )
