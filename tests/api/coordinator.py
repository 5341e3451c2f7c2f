"""A coordinator for a server, over its SQL engine or over none."""

from collections.abc import Sequence

from arco.api.services import FlowContext
from arco.catalog.reader import SnapshotReader
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.ports import RunReader, StoredRun
from arco.flow.coordinator.run_reader import SqlRunReader
from arco.flow.plan.event_query import BacklogWait
from arco.flow.plan.state_reader import SqlStateReader
from arco.flow.plan.table_state import PlanningState, StateReader, TableState
from arco.flow.publish.tables import ParquetTables
from arco.iceberg.service import Iceberg
from arco.ledger.writer import DomainWriters
from arco.query.engine import SqlEngine
from arco.server.coordinator import TableFences, TableVersions
from arco.storage.store import Store


class NoRuns:
    """Reads runs and states of a workspace in which nothing has happened."""

    async def unfinished(self) -> tuple[StoredRun, ...]:
        return ()

    async def run(self, run_id: str, *, caller: str | None = None) -> StoredRun | None:
        return None

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState:
        return PlanningState(number=-1, tables={name: TableState() for name in tables})


async def open_flow_context(
    reader: SnapshotReader,
    writers: DomainWriters,
    iceberg: Iceberg,
    store: Store,
    engine: SqlEngine | None,
) -> tuple[FlowContext, RunCoordinator]:
    """An open coordinator; the caller closes it. Without an engine its workspace has no runs."""
    tables = ParquetTables(reader, store)
    versions = TableVersions(iceberg, tables)
    runs: RunReader = NoRuns()
    states: StateReader = NoRuns()
    if engine is not None:
        waiting = BacklogWait(engine, reader.store.runtime.clock)
        executions = SnapshotReader(reader.store, "executions")
        runs = SqlRunReader(waiting)
        states = SqlStateReader(waiting, reader, executions, versions)
    coordinator = RunCoordinator(
        store,
        events=LedgerEventWriter(writers),
        fences=TableFences(reader, iceberg, tables),
        versions=versions,
        states=states,
        runs=runs,
    )
    await coordinator.begin()
    return FlowContext(coordinator, runs, tables), coordinator
