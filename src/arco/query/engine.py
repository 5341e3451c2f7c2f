"""The SQL engine: takes a query from its text to its result.

A worker plans the query over empty tables and so finds which tables it reads, and which of their rows. The
engine selects the snapshots, reads the files that their manifests name for these tables, checks the hashes
and sends the worker the files that it does not have yet. The engine handles only bytes: the worker decodes,
folds and runs, within its limits.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from arco.catalog.reader import SnapshotReader, parse_as_of
from arco.core.errors import Conflict, Invalid, Unavailable
from arco.fold.tier2 import TIER2
from arco.query.inputs import (
    InputLoader,
    LoadedInputs,
    QueryInputs,
    QuerySources,
    SnapshotSelector,
    inputs_of,
    parse_freshness,
)
from arco.query.ledger_tail import LedgerTail, backlog_too_large, send_tail
from arco.query.limits import QueryLimits, check_statement
from arco.query.protocol import FoldTail
from arco.query.pruning import PrunedFiles
from arco.query.result import from_arrow
from arco.query.system_tables import DomainTable
from arco.query.worker_pool import WorkerClient, WorkerPool

_LOAD_ATTEMPTS = 3  # while garbage collection removes what a fresh read is about to read
_FILES_PLAN_TYPE = "files"

T = TypeVar("T")


class SqlEngine:
    """Answers SQL over `system.*`. `close` ends its workers; they also end with this process.

    `domains` are readers of the domains of events; readers that are not passed are created.
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
        self._snapshots = SnapshotSelector(readers)

    @property
    def pool(self) -> WorkerPool:
        """The worker processes."""
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

        With freshness `fresh` it includes events that were acknowledged and are not compacted yet. A
        `caller` uses at most half of the processes; None stands for Arco itself.
        """
        check_statement(sql, max_chars=self._limits.sql_chars)
        fresh = parse_freshness(freshness, as_of)
        if as_of is not None:
            parse_as_of(as_of)
        return await self._with_worker(
            caller, lambda worker: self._answer(worker, sql, as_of, fresh=fresh)
        )

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> pa.Table:
        """The rows of a state table that the events of a tail make, folded among themselves."""
        table = state.table.name

        async def fold(worker: WorkerClient) -> bytes:
            keys = tail.segment_keys(table)
            await send_tail(worker, state, tail, await worker.find_missing(keys), self._limits)
            return await worker.run(FoldTail(state=state.name, keys=keys))

        try:
            rows = await self._with_worker(caller, fold)
        except Invalid as problem:
            reason = f"too many events of {tail.domain} wait to be compacted"
            raise backlog_too_large(f"{reason} ({problem})") from problem
        return from_arrow(rows)

    async def _with_worker(
        self, caller: str | None, work: Callable[[WorkerClient], Coroutine[Any, Any, T]]
    ) -> T:
        process = await self._pool.take(caller)
        worker = WorkerClient(self._tasks, self._limits, process)
        try:
            return await work(worker)
        finally:
            self._pool.give_back(process, caller, reusable=worker.is_idle)

    async def close(self) -> None:
        """End the workers."""
        self._pool.close()

    async def _answer(
        self, worker: WorkerClient, sql: str, as_of: str | None, *, fresh: bool
    ) -> pa.Table:
        plan = await worker.plan(sql)
        inputs = inputs_of(plan.scans)
        try:
            loaded = await self._tasks.deadline(
                self._limits.load_ms, self._load(worker, inputs, as_of, fresh=fresh)
            )
        except TimeoutError as problem:
            raise Unavailable("the store did not return the tables in time: try again") from problem
        result = from_arrow(await worker.run(loaded.run(sql, inputs)))
        return _with_file_counts(result, loaded.files) if plan.explains else result

    async def _load(
        self, worker: WorkerClient, inputs: QueryInputs, as_of: str | None, *, fresh: bool
    ) -> LoadedInputs:
        for _ in range(_LOAD_ATTEMPTS):
            snapshots = await self._snapshots.snapshots(inputs.domains, inputs.joined, as_of)
            try:
                return await InputLoader(self._sources, worker, snapshots).load(inputs, fresh=fresh)
            except Conflict:
                if not fresh:
                    raise
                # The segments above this snapshot were compacted and collected meanwhile.
        raise Unavailable("the ledger is collected faster than it can be read: try again")


def _with_file_counts(plan: pa.Table, files: Mapping[str, PrunedFiles]) -> pa.Table:
    """The plan of EXPLAIN with one more row: how many files of each state table are read and skipped."""
    lines = []
    for name, pruned in sorted(files.items()):
        read = len(pruned.files)
        total = read + pruned.by_bucket + pruned.by_range
        lines.append(
            f"{name}: {read} of {total} files read, "
            f"{pruned.by_bucket} skipped by bucket, {pruned.by_range} by range"
        )
    row = [_FILES_PLAN_TYPE, "\n".join(lines) or "no files are read"]
    added = [pa.array([value], field.type) for value, field in zip(row, plan.schema, strict=True)]
    return pa.concat_tables([plan, pa.table(added, schema=plan.schema)])
