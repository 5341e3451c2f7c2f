"""Asking the tables of events, with every value as a literal and every answer fresh."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

import pyarrow as pa

FRESH = "fresh"
MOST_ROWS = 90_000  # of one answer


class Engine(Protocol):
    """Whoever answers SQL with tables of Arrow."""

    async def query(
        self, sql: str, *, as_of: str | None = None, freshness: str | None = None
    ) -> pa.Table:
        """The result of a read-only query."""


def literal(text: str) -> str:
    """A text as a literal of SQL: a quote is written twice, and nothing else means anything in one."""
    return "'" + text.replace("'", "''") + "'"


def among(column: str, texts: Iterable[str]) -> str:
    """That a column has one of these texts, of which there is at least one."""
    return f"{column} IN ({', '.join(literal(each) for each in texts)})"


def milliseconds(column: str) -> str:
    """A time as a number of milliseconds since 1970."""
    return f"CAST({column} AS BIGINT) / 1000"


async def all_rows(
    engine: Engine, select: str, where: str, *keys: str
) -> AsyncIterator[dict[str, Any]]:
    """All rows of a query in the order of `keys`, which tell them apart; so many at a time."""
    behind = ""
    while True:
        asked = f"{select} WHERE ({where}){behind} ORDER BY {', '.join(keys)} LIMIT {MOST_ROWS}"
        rows = (await engine.query(asked, freshness=FRESH)).to_pylist()
        for row in rows:
            yield row
        if len(rows) < MOST_ROWS:
            return
        behind = f" AND ({_behind(keys, rows[-1])})"


def _behind(keys: tuple[str, ...], row: dict[str, Any]) -> str:
    """That a row comes after another one."""
    key, rest = keys[0], keys[1:]
    at = literal(str(row[key]))
    return f"{key} > {at}" + (f" OR ({key} = {at} AND ({_behind(rest, row)}))" if rest else "")
