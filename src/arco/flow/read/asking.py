"""Asking the tables of events, with every value as a literal and every answer fresh."""

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

FRESH = "fresh"


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
