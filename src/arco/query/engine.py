"""The engine: a query from its text to its result.

The worker says which tables a query reads, by planning it over empty ones. The engine reads the files that
the snapshot's manifest names for them, checks their hashes, and sends those that the worker does not have
yet. Nothing but bytes passes through here: the worker decodes, folds and runs, within its limits.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from arco.catalog.manifest import FileRef, read_named
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Unavailable
from arco.fold.table import Table
from arco.query.history import History
from arco.query.limits import Limits
from arco.query.pool import Pool
from arco.query.rows import from_arrow, to_arrow
from arco.query.schemas import HISTORY
from arco.query.statement import check_freshness, check_statement
from arco.query.talk import Talk
from arco.query.views import NEEDS
from arco.query.wire import Part, Rows, Run, StateFile

_AT_ONCE = 16


class SqlEngine:
    """Answers SQL over `system.*`. `close` ends its workers; they also end with this process."""

    def __init__(self, reader: SnapshotReader, *, limits: Limits | None = None) -> None:
        self._reader = reader
        self._store = reader.store
        self._tasks = reader.store.runtime.tasks
        self._limits = limits or Limits()
        self._pool = Pool(reader.store.runtime, self._limits)
        self._history = History(reader, depth=self._limits.history)

    async def query(
        self, sql: str, *, as_of: str | None = None, freshness: str | None = None
    ) -> pa.Table:
        """The result of a read-only query, as of a manifest number, a commit id or a time."""
        check_statement(sql, longest=self._limits.sql_chars)
        check_freshness(freshness)
        snapshot = await self._reader.at(as_of)
        process = await self._pool.take()
        talk = Talk(self._tasks, self._limits, process)
        try:
            return from_arrow(await self._answer(talk, sql, snapshot))
        finally:
            self._pool.give(process, good=talk.is_sound)

    async def close(self) -> None:
        """End the workers."""
        self._pool.close()

    async def _answer(self, talk: Talk, sql: str, snapshot: Snapshot) -> bytes:
        views = await talk.needs(sql)
        try:
            run = await self._tasks.deadline(
                self._limits.load_ms, self._load(talk, sql, snapshot, views)
            )
        except TimeoutError as problem:
            raise Unavailable("the store did not give the tables in time: try again") from problem
        return await talk.run(run)

    async def _load(self, talk: Talk, sql: str, snapshot: Snapshot, views: Sequence[str]) -> Run:
        """Give the worker all that the query reads."""
        tables = {table.name: table for view in views for table in NEEDS.get(view, ())}
        files = {name: await snapshot.files_of(table) for name, table in tables.items()}
        finished = {
            view: f"{view}/{snapshot.sha256}/{self._limits.history}"
            for view in views
            if view in HISTORY
        }
        hashes = [ref.sha256 for refs in files.values() for ref in refs]
        lacking = set(await talk.lacks((*hashes, *finished.values())))
        for name, refs in files.items():
            await self._send_files(
                talk, tables[name], [ref for ref in refs if ref.sha256 in lacking]
            )
        for view, key in finished.items():
            if key in lacking:
                rows = await self._history.table(view, snapshot)
                await talk.send(Rows(key=key), to_arrow(rows))
        return Run(
            sql=sql,
            snapshot=snapshot.sha256,
            parts=_parts(snapshot, files),
            views=tuple(view for view in views if view in NEEDS),
            rows=finished,
        )

    async def _send_files(self, talk: Talk, table: Table, refs: Sequence[FileRef]) -> None:
        for start in range(0, len(refs), _AT_ONCE):
            batch = refs[start : start + _AT_ONCE]
            read = await self._tasks.gather(*(read_named(self._store, ref) for ref in batch))
            for ref, raw in zip(batch, read, strict=True):
                await talk.send(StateFile(key=ref.sha256, table=table.name, rows=ref.rows), raw)


def _parts(
    snapshot: Snapshot, files: Mapping[str, Sequence[FileRef]]
) -> dict[str, tuple[Part, ...]]:
    """The files of each table of state, and which of them are news."""
    tail = {} if snapshot.manifest is None else snapshot.manifest.tail
    news = {ref.path for refs in tail.values() for ref in refs}
    return {
        name: tuple(
            Part(key=ref.sha256, tail=ref.path in news, buckets=ref.buckets) for ref in refs
        )
        for name, refs in files.items()
    }
