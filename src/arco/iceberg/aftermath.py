"""What follows a commit, beside the answer: its event and receipt, the columns, and files that may go.

None of it decides anything. What fails here is done later by the reconciler, which finds it by the missing
receipt, or by the number that the catalog's columns were read at.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from arco.catalog.change import change
from arco.catalog.committer import Committer
from arco.catalog.ddl import AttachedColumn, ProjectColumns
from arco.core.errors import ArcoError
from arco.core.tasks import Task
from arco.iceberg.event import committed_event
from arco.iceberg.files import TableFiles
from arco.iceberg.receipt import write_committed
from arco.ledger.writer import LedgerWriter
from arco.storage.entry import Entry
from arco.storage.store import Store

SYSTEM = "client:arco"

_MOST_UNFINISHED = 10_000
_PATIENCE_MS = 5_000  # of a stop


@dataclass(frozen=True)
class Shape:
    """What the catalog shows of a table: its columns, and where it lies if it has moved."""

    columns: tuple[AttachedColumn, ...]
    location: str | None = None


class Aftermath:
    """The work that nobody waits for."""

    def __init__(
        self, store: Store, writer: LedgerWriter, committer: Committer, files: TableFiles
    ) -> None:
        self._store = store
        self._writer = writer
        self._committer = committer
        self._files = files
        self._tasks = store.runtime.tasks
        self._running: set[Task[None]] = set()
        self.unfinished: dict[str, None] = {}  # tables that the reconciler should look at soon

    def follow(
        self,
        table_id: str,
        entry: Entry,
        *,
        shape: Shape | None = None,
        spent: Sequence[str] = (),
    ) -> None:
        """A number was created: tell of it; `shape` if it has changed, `spent` files may go."""
        self.beside(table_id, self.tell(table_id, entry))
        if shape is not None:
            self.beside(table_id, self.project(table_id, entry.number, shape))
        if spent:
            self.beside(table_id, self._remove(spent))

    async def tell(self, table_id: str, entry: Entry) -> None:
        """Append the event of a number, then note that it is there."""
        await self._writer.append([committed_event(self._store.runtime, table_id, entry)])
        await write_committed(self._store, table_id, entry)

    async def project(self, table_id: str, number: int, shape: Shape) -> None:
        """Show the columns in the catalog; older ones never replace newer ones (P34)."""
        request = ProjectColumns(
            table_id=table_id, pointer=number, columns=shape.columns, location=shape.location
        )
        await change(self._committer, request, SYSTEM)

    async def close(self) -> None:
        """Wait a little for what is under way; the reconciler finishes the rest."""
        try:
            await self._tasks.deadline(_PATIENCE_MS, self._wait())
        except TimeoutError:
            for task in self._running:
                task.cancel()

    async def _wait(self) -> None:
        for task in list(self._running):
            await task.wait()

    async def _remove(self, locations: Sequence[str]) -> None:
        """Remove metadata files that the table itself has given up, if this process may."""
        if self._files.can_delete:
            for location in locations:
                await self._files.delete(location)

    def beside(self, table_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Do something about a table that nobody waits for."""
        self._running = {task for task in self._running if not task.done()}
        self._running.add(self._tasks.spawn(self._finish(table_id, work)))

    async def _finish(self, table_id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ArcoError:
            if len(self.unfinished) < _MOST_UNFINISHED:
                self.unfinished[table_id] = None
