"""SQL over the event tables: literals, paging, and waiting for the compactor.

Every answer is fresh, so it includes all acknowledged events. A backlog that is too large for one fresh
read is compacted within seconds while a compactor runs, so `BacklogWait` retries for less than a request
may take before it reports the backlog.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

import pyarrow as pa

from arco.core.clock import Clock
from arco.core.errors import BacklogTooLarge
from arco.core.sql_literal import quote_text, quote_texts

FRESH = "fresh"
MAX_ROWS = 90_000  # of one answer

_BACKLOG_WAIT_MS = 20_000
_BACKLOG_PAUSE_MS = 1_000


class EventEngine(Protocol):
    """Answers SQL with Arrow tables."""

    async def query(
        self, sql: str, *, as_of: str | None = None, freshness: str | None = None
    ) -> pa.Table:
        """The result of a read-only query."""


class SharedEventEngine(Protocol):
    """An `EventEngine` whose processes are shared by callers; None stands for Arco itself."""

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> pa.Table:
        """The result of a read-only query."""


class CallerEventEngine:
    """An `EventEngine` for one caller, in whose share of the processes its queries run."""

    def __init__(self, engine: SharedEventEngine, caller: str | None) -> None:
        self._engine = engine
        self._caller = caller

    async def query(
        self, sql: str, *, as_of: str | None = None, freshness: str | None = None
    ) -> pa.Table:
        """The result of a read-only query."""
        return await self._engine.query(sql, as_of=as_of, freshness=freshness, caller=self._caller)


class BacklogWait:
    """An engine that retries while more events wait for the compactor than a fresh read takes."""

    def __init__(
        self, engine: SharedEventEngine, clock: Clock, *, patience_ms: float = _BACKLOG_WAIT_MS
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._patience_ms = patience_ms

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> pa.Table:
        """The result of a read-only query."""
        deadline_ms = self._clock.elapsed_ms() + self._patience_ms
        while True:
            try:
                return await self._engine.query(
                    sql, as_of=as_of, freshness=freshness, caller=caller
                )
            except BacklogTooLarge as error:
                if self._clock.elapsed_ms() + _BACKLOG_PAUSE_MS > deadline_ms:
                    error.add_note(
                        "Wait for the compactor; where none runs, run `arco compactor --once`."
                    )
                    raise
                await self._clock.sleep(_BACKLOG_PAUSE_MS)


def among(column: str, texts: Iterable[str]) -> str:
    """The condition that a column has one of these texts, of which there must be at least one."""
    return f"{column} IN ({quote_texts(texts)})"


def milliseconds(column: str) -> str:
    """A timestamp as milliseconds since 1970."""
    return f"CAST({column} AS BIGINT) / 1000"


async def all_rows(
    engine: EventEngine, select: str, where: str, *keys: str
) -> AsyncIterator[dict[str, Any]]:
    """All rows of a query in the order of `keys`, which identify a row; read page by page."""
    after = ""
    while True:
        sql = f"{select} WHERE ({where}){after} ORDER BY {', '.join(keys)} LIMIT {MAX_ROWS}"
        rows = (await engine.query(sql, freshness=FRESH)).to_pylist()
        for row in rows:
            yield row
        if len(rows) < MAX_ROWS:
            return
        after = f" AND ({_after(keys, rows[-1])})"


def _after(keys: tuple[str, ...], row: dict[str, Any]) -> str:
    """The condition that a row comes after another one."""
    key, rest = keys[0], keys[1:]
    value = quote_text(str(row[key]))
    return f"{key} > {value}" + (f" OR ({key} = {value} AND ({_after(rest, row)}))" if rest else "")
