"""Rows by name: each is looked up once for as long as the catalog stays as it is.

A snapshot never changes, so what was found in it, or not found, stays true of it.
"""

from arco.catalog.ddl import TableName
from arco.catalog.model import TableRow
from arco.catalog.snapshot import Snapshot
from arco.core.errors import NotFound

_MOST = 10_000


class Rows:
    """What was looked up in the newest snapshot that was asked about."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._found: dict[TableName, TableRow | None] = {}

    async def find(self, snapshot: Snapshot, name: TableName) -> TableRow | None:
        """The row of a name in a snapshot, if there is one."""
        if snapshot is not self._snapshot or len(self._found) >= _MOST:
            self._snapshot, self._found = snapshot, {}
        found = self._found
        if name in found:
            return found[name]
        try:
            row = (await snapshot.table(name)).row
        except NotFound:
            row = None
        found[name] = row
        return row
