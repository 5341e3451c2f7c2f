"""A coordinator for a server whose engine returns no runs."""

from collections.abc import Sequence

from arco.api.services import FlowContext
from arco.catalog.reader import SnapshotReader
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.ports import StoredRun
from arco.flow.plan.table_state import PlanningState, TableState
from arco.flow.publish.tables import ParquetTables
from arco.iceberg.service import Iceberg
from arco.ledger.writer import DomainWriters
from arco.server.coordinator import TableFences, TableVersions
from arco.storage.store import Store


class NoRuns:
    """Reads runs and states of a workspace in which nothing has happened."""

    async def unfinished(self) -> tuple[StoredRun, ...]:
        return ()

    async def run(self, run_id: str) -> StoredRun | None:
        return None

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> PlanningState:
        return PlanningState(number=-1, tables={name: TableState() for name in tables})


async def open_flow_context(
    reader: SnapshotReader, writers: DomainWriters, iceberg: Iceberg, store: Store
) -> tuple[FlowContext, RunCoordinator]:
    """An open coordinator; the caller closes it."""
    tables = ParquetTables(reader, store)
    nothing = NoRuns()
    coordinator = RunCoordinator(
        store,
        events=LedgerEventWriter(writers),
        fences=TableFences(reader, iceberg, tables),
        versions=TableVersions(iceberg, tables),
        states=nothing,
        runs=nothing,
    )
    await coordinator.begin()
    return FlowContext(coordinator, nothing, tables), coordinator
