"""A book of runs for a server whose engine answers next to nothing: no run was ever told of."""

from collections.abc import Sequence

from arco.api.flow.desk import FlowDesk
from arco.catalog.reader import SnapshotReader
from arco.flow.publish.tables import ParquetTables
from arco.flow.run.book import RunBook
from arco.flow.run.facts import LedgerFacts
from arco.flow.run.ports import StoredRun
from arco.flow.state import State, TableState
from arco.iceberg.service import Iceberg
from arco.ledger.writers import Writers
from arco.server.table_formats import TableFences, TableVersions
from arco.storage.store import Store


class NothingTold:
    """Reads runs and states of a workspace in which nothing has happened."""

    async def unfinished(self) -> tuple[StoredRun, ...]:
        return ()

    async def run(self, run_id: str) -> StoredRun | None:
        return None

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> State:
        return State(number=-1, tables={name: TableState() for name in tables})


async def open_desk(
    reader: SnapshotReader, writers: Writers, iceberg: Iceberg, store: Store
) -> tuple[FlowDesk, RunBook]:
    """A book that is open; whoever asks for it closes it."""
    tables = ParquetTables(reader, store)
    nothing = NothingTold()
    book = RunBook(
        store,
        facts=LedgerFacts(writers),
        fences=TableFences(reader, iceberg, tables),
        versions=TableVersions(iceberg, tables),
        states=nothing,
        runs=nothing,
    )
    await book.begin()
    return FlowDesk(book, nothing, tables), book
