"""Waiting for the compactor: planning reads every acknowledged event, and cannot do with less.

A backlog that is too large for one fresh read is a matter of seconds while a compactor runs. So a reader
waits for it, for less than a request may take, before it reports the backlog.
"""

import pyarrow as pa

from arco.core.clock import Clock
from arco.core.errors import BacklogTooLarge
from arco.flow.read.asking import Engine

PATIENCE_MS = 20_000
_PAUSE_MS = 1_000


class BacklogWait:
    """Another engine, asked again while more events wait to be compacted than a fresh read takes."""

    def __init__(self, engine: Engine, clock: Clock, *, patience_ms: float = PATIENCE_MS) -> None:
        self._engine = engine
        self._clock = clock
        self._patience_ms = patience_ms

    async def query(
        self, sql: str, *, as_of: str | None = None, freshness: str | None = None
    ) -> pa.Table:
        """The result of a read-only query."""
        ends_ms = self._clock.elapsed_ms() + self._patience_ms
        while True:
            try:
                return await self._engine.query(sql, as_of=as_of, freshness=freshness)
            except BacklogTooLarge as problem:
                if self._clock.elapsed_ms() + _PAUSE_MS > ends_ms:
                    problem.add_note(
                        "Wait for the compactor; where none runs, run `arco compactor --once`."
                    )
                    raise
                await self._clock.sleep(_PAUSE_MS)
