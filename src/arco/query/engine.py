"""The engine: a query from its text to its result.

The worker says which tables a query reads, and which of their rows, by planning it over empty ones. The
engine finds the snapshots that are meant, reads the files that their manifests name for these tables,
checks their hashes, and sends those that the worker does not have yet. Nothing but bytes passes through
here: the worker decodes, folds and runs, within its limits.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from arco.catalog.as_of import parse_as_of
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Conflict, Invalid, Unavailable
from arco.fold.tier2 import TIER2
from arco.query.explain import with_files
from arco.query.limits import Limits
from arco.query.load import Load, Loaded, Sources
from arco.query.moment import Moments
from arco.query.needs import State
from arco.query.pool import Pool
from arco.query.question import Question, question_of
from arco.query.rows import from_arrow
from arco.query.send_tail import send_tail
from arco.query.statement import check_statement, wants_fresh
from arco.query.tail import Tail, backlog_too_large
from arco.query.talk import Talk
from arco.query.wire import FoldTail

T = TypeVar("T")

_LOOKS = 3  # at heads that move while we read


class SqlEngine:
    """Answers SQL over `system.*`. `close` ends its workers; they also end with this process.

    `domains` are readers of the domains beside the catalog's; those that are not given are made.
    """

    def __init__(
        self,
        reader: SnapshotReader,
        *,
        domains: Mapping[str, SnapshotReader] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._tasks = reader.store.runtime.tasks
        self._pool = Pool(reader.store.runtime, self._limits)
        others = {name: SnapshotReader(reader.store, name) for name in TIER2}
        readers = {**others, **(domains or {}), reader.domain: reader}
        self._sources = Sources(readers, self._limits)
        self._moments = Moments(readers)

    @property
    def pool(self) -> Pool:
        """Its SQL processes."""
        return self._pool

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> pa.Table:
        """The result of a read-only query, as of a manifest number, a commit id or a time.

        With freshness `fresh` it also has what was acknowledged and is not compacted yet. A `caller` uses
        at most half of the processes; None stands for Arco itself.
        """
        check_statement(sql, longest=self._limits.sql_chars)
        fresh = wants_fresh(freshness, as_of)
        if as_of is not None:
            parse_as_of(as_of)
        return await self._with_process(
            caller, lambda talk: self._answer(talk, sql, as_of, fresh=fresh)
        )

    async def tail_rows(self, tail: Tail, state: State, *, caller: str | None = None) -> pa.Table:
        """The rows of a table of state that the events of a tail make, folded among themselves."""
        table = state.table.name

        async def fold(talk: Talk) -> bytes:
            keys = tail.segment_keys(table)
            await send_tail(talk, state, tail, await talk.lacks(keys), self._limits)
            return await talk.run(FoldTail(state=state.name, keys=keys))

        try:
            rows = await self._with_process(caller, fold)
        except Invalid as problem:
            reason = f"the events of {tail.domain} that wait to be compacted are too many"
            raise backlog_too_large(f"{reason} ({problem})") from problem
        return from_arrow(rows)

    async def _with_process(
        self, caller: str | None, work: Callable[[Talk], Coroutine[Any, Any, T]]
    ) -> T:
        process = await self._pool.take(caller)
        talk = Talk(self._tasks, self._limits, process)
        try:
            return await work(talk)
        finally:
            self._pool.give(process, caller, good=talk.is_sound)

    async def close(self) -> None:
        """End the workers."""
        self._pool.close()

    async def _answer(self, talk: Talk, sql: str, as_of: str | None, *, fresh: bool) -> pa.Table:
        needs = await talk.needs(sql)
        question = question_of(needs.scans)
        try:
            loaded = await self._tasks.deadline(
                self._limits.load_ms, self._load(talk, question, as_of, fresh=fresh)
            )
        except TimeoutError as problem:
            raise Unavailable("the store did not give the tables in time: try again") from problem
        result = from_arrow(await talk.run(loaded.run(sql, question)))
        return with_files(result, loaded.files) if needs.explains else result

    async def _load(
        self, talk: Talk, question: Question, as_of: str | None, *, fresh: bool
    ) -> Loaded:
        for _ in range(_LOOKS):
            snapshots = await self._moments.snapshots(question.domains, question.joined, as_of)
            try:
                return await Load(self._sources, talk, snapshots).load(question, fresh=fresh)
            except Conflict:
                if not fresh:
                    raise
                # What is above this snapshot was compacted and collected while we looked.
        raise Unavailable("the ledger is being collected faster than it is read: try again")
