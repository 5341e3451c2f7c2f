"""The worker: a process that answers queries from the data that the engine sends, and has nothing else.

It keeps files and finished tables for the next query. The operating system enforces its limits: a query
that uses too much ends this process and no other. The worker ends when its engine does.
"""

import os
import resource
import sys
from collections.abc import Sequence
from typing import BinaryIO

import pyarrow as pa

from arco.core import json
from arco.core.errors import Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.events.read import DecodedSegment
from arco.events.registry import total_rows
from arco.fold.fold import fold, retain
from arco.fold.table import StateTable
from arco.fold.tier1 import DOMAIN
from arco.ledger.segment import Segment
from arco.query.limits import QueryLimits
from arco.query.protocol import (
    WITH_DATA,
    Ack,
    ArrowResult,
    Configure,
    CorruptFile,
    ExpandedCounts,
    ExpandSegments,
    FindMissing,
    FoldTail,
    MissingKeys,
    PlanQuery,
    PutRows,
    PutStateFile,
    QueryRejected,
    QueryScans,
    RunQuery,
    StateFileRef,
    ViewRequest,
    WorkerReply,
    WorkerRequest,
    read_frame,
    write_message,
)
from arco.query.result import from_arrow, to_arrow
from arco.query.session import SqlSession
from arco.query.state_files import FileRows, TableCache, decode, merge
from arco.query.system_tables import (
    STATE_TABLES,
    SYSTEM_SCHEMAS,
    SYSTEM_TABLES,
    DomainTable,
    filter_columns,
)
from arco.query.views import CatalogViews, make_event_view

# Ends a query whose engine died and cannot end it.
_SPARE_CPU_SECONDS = 30


class QueryWorker:
    """Answers one request after the other."""

    def __init__(self, limits: QueryLimits) -> None:
        self._limits = limits
        self._cache = TableCache(limits.cache_bytes)
        self._session = SqlSession(limits, SYSTEM_SCHEMAS, filter_columns)

    def answer(self, request: WorkerRequest, data: bytes = b"") -> tuple[WorkerReply, bytes | None]:
        """The reply to a request, and the data that it announces."""
        match request:
            case FoldTail():
                return self._fold_tail(request)
            case RunQuery():
                return self._run(request)
            case _:
                return self._reply(request, data), None

    def _reply(
        self,
        request: Configure | PlanQuery | FindMissing | PutStateFile | PutRows | ExpandSegments,
        data: bytes,
    ) -> WorkerReply:
        match request:
            case PlanQuery():
                return self._plan(request)
            case FindMissing():
                keys = tuple(key for key in request.keys if self._cache.get(key) is None)
                return MissingKeys(keys=keys)
            case PutStateFile() | PutRows():
                return self._put(request, data)
            case ExpandSegments():
                return self._expand(request, data)
            case Configure():
                return Ack()

    def _plan(self, request: PlanQuery) -> QueryScans | QueryRejected:
        try:
            return self._session.plan(request.sql)
        except Invalid as problem:
            return QueryRejected(reason=str(problem))

    def _put(self, request: PutStateFile | PutRows, data: bytes) -> Ack | CorruptFile:
        if isinstance(request, PutRows):
            self._cache.put(request.key, from_arrow(data))
            return Ack()
        table = STATE_TABLES[request.state].table
        try:
            rows = decode(
                table, data, request.rows, request.columns, is_combined=request.is_combined
            )
            self._cache.put(request.key, rows)
        except Corrupt as problem:
            return CorruptFile(reason=str(problem))
        return Ack()

    def _expand(self, request: ExpandSegments, data: bytes) -> ExpandedCounts:
        """Make the rows of segments. A small event may make many rows, so they are counted first."""
        state, start, decoded = STATE_TABLES[request.state], 0, []
        tables = frozenset({state.table.name})
        for each in request.segments:
            raw = data[start : start + each.size_bytes]
            segment = Segment(each.stream, each.seq, False, raw)
            decoded.append(
                DecodedSegment(state.domain, segment, request.retained_from, tables=tables)
            )
            start += each.size_bytes
        counts = tuple(events.count_rows() for events in decoded)
        if total_rows(counts).fits(request.max_rows):
            empty = state.table.schema.empty_table()
            for sent, events in zip(request.segments, decoded, strict=True):
                self._cache.put(sent.key, events.read().rows.get(state.table.name, empty))
        return ExpandedCounts(counts=counts)

    def _fold_tail(self, request: FoldTail) -> tuple[ArrowResult | QueryRejected, bytes | None]:
        table = STATE_TABLES[request.state].table
        rows = fold(table, _concat(self._cache, table, request.keys))
        self._cache.trim()
        limit = self._limits.result_bytes
        if rows.nbytes > limit:
            return QueryRejected(reason=f"their rows have more than {limit} bytes"), None
        return ArrowResult(), to_arrow(rows)

    def _run(self, request: RunQuery) -> tuple[ArrowResult | QueryRejected, bytes | None]:
        try:
            result = self._session.run(request.sql, self._tables(request))
        except Invalid as problem:
            return QueryRejected(reason=str(problem)), None
        finally:
            self._cache.trim()
        return ArrowResult(), to_arrow(result)

    def _tables(self, request: RunQuery) -> dict[str, pa.Table]:
        """The tables of `system` that the query reads."""
        states = _FoldedStates(self._cache, request)
        tables = {name: _cached(self._cache, key) for name, key in request.rows.items()}
        for view in request.views:
            tables[view.view] = self._view(view, states)
        return tables

    def _view(self, request: ViewRequest, states: "_FoldedStates") -> pa.Table:
        """A table of `system`; it is kept for the next query if it was made of all its files."""
        view = SYSTEM_TABLES[request.view]
        inputs = (*view.inputs, *(view.joined_inputs if request.joined else ()))
        sent = [each.state for each in inputs if states.has(each.state)]
        key = states.key(request, sent)
        cached = None if key is None else self._cache.get(key)
        if cached is not None:
            return cached
        own = {each.state for each in view.inputs}
        if all(state.domain == DOMAIN for state in own):
            rows = CatalogViews(states).make(request.view, with_statistics=request.joined)
        else:
            sent_own = [state for state in sent if state in own]
            rows = make_event_view(request.view, sent_own, states, with_counts=request.joined)
        return rows if key is None else self._cache.put(key, rows)


class _FoldedStates:
    """The folded state tables of one query."""

    def __init__(self, cache: TableCache, request: RunQuery) -> None:
        self._cache = cache
        self._request = request
        self._folded: dict[str, pa.Table] = {}

    def has(self, state: DomainTable) -> bool:
        """Whether the query reads the state table."""
        return state.name in self._request.states

    def key(self, view: ViewRequest, states: list[DomainTable]) -> str | None:
        """The cache key of a table of `system`; None if some of its files were pruned."""
        inputs = {state.name: self._request.states[state.name] for state in states}
        if not all(each.whole for each in inputs.values()):
            return None
        return sha256_hex(json.encode([view, inputs]))

    def rows(self, table: StateTable, domain: str = DOMAIN) -> pa.Table:
        state = DomainTable(domain, table)
        if state.name not in self._folded:
            inputs = self._request.states[state.name]
            files = [self._file_rows(ref) for ref in inputs.files]
            if inputs.segments:
                rows = _concat(self._cache, table, inputs.segments)
                files.append(FileRows(rows, tail=True, buckets=frozenset(table.buckets_in(rows))))
            self._folded[state.name] = retain(table, merge(table, files), inputs.retained_from)
        return self._folded[state.name]

    def _file_rows(self, ref: StateFileRef) -> FileRows:
        return FileRows(_cached(self._cache, ref.key), ref.tail, frozenset(ref.buckets))


def _cached(cache: TableCache, key: str) -> pa.Table:
    table = cache.get(key)
    if table is None:
        raise Invalid("the worker does not hold the data of the query")
    return table


def _concat(cache: TableCache, table: StateTable, keys: Sequence[str]) -> pa.Table:
    """The rows of segments, one after another."""
    tables = [_cached(cache, key) for key in keys]
    return pa.concat_tables(
        [table.schema.empty_table(), *(rows for rows in tables if rows.num_rows)]
    )


def limit_process(limits: QueryLimits) -> None:
    """Set the memory limit of this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.process_bytes, limits.process_bytes))


def limit_cpu(limits: QueryLimits) -> None:
    """Have the system end this process if it computes far longer than one query may."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cores = os.cpu_count() or 1
    allowed = used.ru_utime + used.ru_stime + cores * limits.run_ms / 1000 + _SPARE_CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), hard))


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the engine ends."""
    limits = QueryLimits()
    worker = QueryWorker(limits)
    while True:
        try:
            request: WorkerRequest = json.decode(read_frame(requests), WorkerRequest)  # type: ignore[arg-type]
            data = read_frame(requests) if isinstance(request, WITH_DATA) else b""
        except EOFError:
            return
        if isinstance(request, Configure):
            limits = request.limits
            limit_process(limits)
            worker = QueryWorker(limits)
        if isinstance(request, PlanQuery | ExpandSegments | FoldTail | RunQuery):
            limit_cpu(limits)
        reply, result = worker.answer(request, data)
        write_message(replies, reply, result)


def main() -> None:
    """Serve over the standard pipes, and redirect other output away from them."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, replies)
