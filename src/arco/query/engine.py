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
from arco.query.inputs import InputLoader, LoadedInputs, QueryInputs, QuerySources, inputs_of
from arco.query.ledger_tail import LedgerTail, backlog_too_large, send_tail
from arco.query.limits import QueryLimits, check_statement, wants_fresh
from arco.query.protocol import FoldTail
from arco.query.pruning import PrunedFiles
from arco.query.result import from_arrow
from arco.query.snapshots import SnapshotSelector
from arco.query.system_tables import DomainTable
from arco.query.worker_pool import WorkerClient, WorkerPool

PLAN_TYPE = "files"


def with_files(plan: pa.Table, files: Mapping[str, PrunedFiles]) -> pa.Table:
    """A plan and one more row: what was read of the tables of state, and what could be passed over."""
    text = "\n".join(_line(name, each) for name, each in sorted(files.items()))
    row = [PLAN_TYPE, text or "no files are read"]
    added = [pa.array([value], field.type) for value, field in zip(row, plan.schema, strict=True)]
    return pa.concat_tables([plan, pa.table(added, schema=plan.schema)])


def _line(name: str, files: PrunedFiles) -> str:
    read = len(files.files)
    total = read + files.by_bucket + files.by_range
    return (
        f"{name}: {read} of {total} files read, "
        f"{files.by_bucket} skipped by bucket, {files.by_range} by range"
    )


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
        limits: QueryLimits | None = None,
    ) -> None:
        self._limits = limits or QueryLimits()
        self._tasks = reader.store.runtime.tasks
        self._pool = WorkerPool(reader.store.runtime, self._limits)
        others = {name: SnapshotReader(reader.store, name) for name in TIER2}
        readers = {**others, **(domains or {}), reader.domain: reader}
        self._sources = QuerySources(readers, self._limits)
        self._moments = SnapshotSelector(readers)

    @property
    def pool(self) -> WorkerPool:
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

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> pa.Table:
        """The rows of a table of state that the events of a tail make, folded among themselves."""
        table = state.table.name

        async def fold(talk: WorkerClient) -> bytes:
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
        self, caller: str | None, work: Callable[[WorkerClient], Coroutine[Any, Any, T]]
    ) -> T:
        process = await self._pool.take(caller)
        talk = WorkerClient(self._tasks, self._limits, process)
        try:
            return await work(talk)
        finally:
            self._pool.give(process, caller, good=talk.is_sound)

    async def close(self) -> None:
        """End the workers."""
        self._pool.close()

    async def _answer(
        self, talk: WorkerClient, sql: str, as_of: str | None, *, fresh: bool
    ) -> pa.Table:
        needs = await talk.needs(sql)
        question = inputs_of(needs.scans)
        try:
            loaded = await self._tasks.deadline(
                self._limits.load_ms, self._load(talk, question, as_of, fresh=fresh)
            )
        except TimeoutError as problem:
            raise Unavailable("the store did not give the tables in time: try again") from problem
        result = from_arrow(await talk.run(loaded.run(sql, question)))
        return with_files(result, loaded.files) if needs.explains else result

    async def _load(
        self, talk: WorkerClient, question: QueryInputs, as_of: str | None, *, fresh: bool
    ) -> LoadedInputs:
        for _ in range(_LOOKS):
            snapshots = await self._moments.snapshots(question.domains, question.joined, as_of)
            try:
                return await InputLoader(self._sources, talk, snapshots).load(question, fresh=fresh)
            except Conflict:
                if not fresh:
                    raise
                # What is above this snapshot was compacted and collected while we looked.
        raise Unavailable("the ledger is being collected faster than it is read: try again")
