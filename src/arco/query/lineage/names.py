"""Names: what tables and columns are called now, by one snapshot of the catalog.

Edges know ids, and names only as they once were. Many ids are looked up together, so files that are not in
memory yet are read at once, and each schema is asked once whether it is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from arco.catalog.model import AnyRow, ColumnRow, ObjectKind, ObjectRow, TableRow
from arco.catalog.name import print_dotted
from arco.catalog.shelf import Shelf
from arco.catalog.snapshot import Snapshot
from arco.core.errors import NotFound
from arco.core.tasks import Tasks
from arco.fold.table import Table
from arco.fold.tier1 import COLUMNS, OBJECTS, TABLES

R = TypeVar("R", bound=AnyRow)

_AT_ONCE = 256  # rows that are decoded without letting others have their turn


@dataclass(frozen=True)
class TableName:
    """A table as the catalog has it."""

    name: str
    is_view: bool
    dropped: bool


@dataclass(frozen=True)
class _Schema:
    levels: tuple[str, ...]
    live: bool


class Names:
    """Looks tables and columns up by their ids."""

    def __init__(self, snapshot: Snapshot, tasks: Tasks) -> None:
        self._snapshot = snapshot
        self._tasks = tasks
        self._schemas: dict[str, _Schema] = {}

    async def tables(self, ids: Iterable[str]) -> dict[str, TableName]:
        """The tables and views among these, dropped or not."""
        homes = await self._homes(sorted(set(ids)))
        schemas = sorted(set(homes.values()))
        shelves = await self._shelves(TABLES, schemas, TableRow)
        found: dict[str, TableName] = {}
        for at, (table_id, schema_id) in enumerate(homes.items(), start=1):
            row = shelves[schema_id].get((schema_id, table_id))
            if row is not None:
                found[table_id] = await self._named(row.row)
            if at % _AT_ONCE == 0:
                await self._tasks.turn()
        return found

    async def columns(self, table_ids: Iterable[str]) -> dict[str, dict[str, ColumnRow]]:
        """The columns of tables by their ids, dropped or not."""
        wanted = sorted(set(table_ids))
        shelves = await self._shelves(COLUMNS, wanted, ColumnRow)
        found: dict[str, dict[str, ColumnRow]] = {}
        for each in wanted:
            rows = shelves[each].below((each,), state=None)
            found[each] = {row.row.column_id: row.row for row in rows}
            await self._tasks.turn()
        return found

    async def _homes(self, ids: list[str]) -> dict[str, str]:
        """The schemas of those ids that are of tables or views."""
        shelves = await self._shelves(OBJECTS, ids, ObjectRow)
        homes: dict[str, str] = {}
        for at, each in enumerate(ids, start=1):
            found = shelves[each].get((each,))
            if found is not None and found.row.kind in (ObjectKind.TABLE, ObjectKind.VIEW):
                homes[each] = found.row.bucket_key
            if at % _AT_ONCE == 0:
                await self._tasks.turn()
        return homes

    async def _shelves(self, table: Table, values: list[str], kind: type[R]) -> dict[str, Shelf[R]]:
        """The shelf of each value: two values of one bucket may be in different files of it."""
        found: dict[str, Shelf[R]] = {}
        for start in range(0, len(values), _AT_ONCE):
            some = values[start : start + _AT_ONCE]
            shelves = await self._tasks.gather(
                *(self._snapshot.shelf(table, each, kind) for each in some)
            )
            found |= zip(some, shelves, strict=True)
            await self._tasks.turn()
        return found

    async def _named(self, row: TableRow) -> TableName:
        schema = self._schemas.get(row.schema_id)
        if schema is None:
            schema = self._schemas[row.schema_id] = await self._schema(row.schema_id)
        return TableName(
            name=print_dotted((*schema.levels, row.name)),
            is_view=row.kind is ObjectKind.VIEW,
            dropped=row.dropped_at is not None or not schema.live,
        )

    async def _schema(self, schema_id: str) -> _Schema:
        found = await self._snapshot.schema_by_id(schema_id)
        if found is None:
            return _Schema((), live=False)
        levels = await self._snapshot.levels(found.row)
        return _Schema(levels, live=await self._snapshot.is_live(found.row))


def unknown_table(table_id: str) -> NotFound:
    """What is said of an id that nobody knows."""
    return NotFound(f"there is no table {table_id[:80]!r}, and nothing was told of one")
