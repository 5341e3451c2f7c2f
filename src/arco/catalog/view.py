"""The view that a group of requests is decided in: a snapshot, with what was decided so far on top."""

from typing import TypeVar

from arco.catalog.lookup import Lookup
from arco.catalog.model import TABLE_OF, AnyRow
from arco.catalog.part import DecidedPart
from arco.catalog.shelf import Shelf
from arco.fold.table import StateTable

R = TypeVar("R", bound=AnyRow)


class View(Lookup):
    """A state and the rows of neighbours that will be published together with ours, if at all."""

    def __init__(self, below: Lookup, commit: int) -> None:
        self._below = below
        self._commit = commit  # the number that the decided rows are going to have
        self._decided: dict[tuple[str, int], DecidedPart] = {}

    async def shelf(self, table: StateTable, value: str, kind: type[R]) -> Shelf[R]:
        shelf = await self._below.shelf(table, value, kind)
        decided = self._decided.get((table.name, table.bucket_of(value)))
        return shelf if decided is None else shelf.over(decided)

    def add(self, rows: tuple[AnyRow, ...]) -> None:
        """Let those who are decided next see these rows."""
        for row in rows:
            place = _place(row)
            if place not in self._decided:
                table = TABLE_OF[type(row)]
                self._decided[place] = DecidedPart(table, self._commit)
            self._decided[place].add(row)

    def holds(self, rows: tuple[AnyRow, ...]) -> bool:
        """Whether a neighbour has written one of these rows, too."""
        parts = ((self._decided.get(_place(row)), row) for row in rows)
        return any(part is not None and part.holds(row) for part, row in parts)

    def begin(self) -> None:
        """A new request is being decided: what it rests on is yet to be seen."""
        for part in self._decided.values():
            part.met = False

    @property
    def met_neighbours(self) -> bool:
        """Whether what was decided last rests on rows that are not published yet (P25)."""
        return any(part.met for part in self._decided.values())


def _place(row: AnyRow) -> tuple[str, int]:
    """The bucket that a row belongs to."""
    table = TABLE_OF[type(row)]
    value = "" if table.bucket is None else getattr(row, table.bucket.column)
    return table.name, table.bucket_of(value)
