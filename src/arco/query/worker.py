"""The worker: a process that answers queries from what its engine sends it, and has nothing else.

It keeps files and finished tables for the next query. What it may use is limited by the system: a query
that takes too much ends this process and no other. It ends when its engine is gone.
"""

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
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


def decode_tail(
    state: DomainTable, segment: Segment, retained_from: Mapping[str, datetime]
) -> DecodedSegment:
    """The events of a segment, for the rows of one table of state."""
    tables = frozenset({state.table.name})
    return DecodedSegment(state.domain, segment, retained_from, tables=tables)


def expand(state: DomainTable, decoded: DecodedSegment) -> pa.Table:
    """The rows of that table, not folded."""
    found = decoded.read().rows
    return found.get(state.table.name, state.table.schema.empty_table())


# An engine that dies in the middle of a query cannot end it any more; then this does.
_SPARE_CPU_SECONDS = 30


class QueryWorker:
    """Answers one message after the other."""

    def __init__(self, limits: QueryLimits) -> None:
        self._limits = limits
        self._cache = TableCache(limits.cache_bytes)
        self._session = SqlSession(limits, SYSTEM_SCHEMAS, filter_columns)

    def answer(self, asked: WorkerRequest, data: bytes = b"") -> tuple[WorkerReply, bytes | None]:
        """The reply to a message, and the data that it announces."""
        match asked:
            case PlanQuery():
                return self._plan(asked), None
            case FindMissing():
                keys = tuple(key for key in asked.keys if self._cache.get(key) is None)
                return MissingKeys(keys=keys), None
            case PutStateFile() | PutRows() | ExpandSegments():
                return self._take(asked, data), None
            case FoldTail():
                return self._fold_tail(asked)
            case RunQuery():
                return self._run(asked)
            case Configure():
                return Ack(), None

    def _plan(self, asked: PlanQuery) -> QueryScans | QueryRejected:
        try:
            return self._session.plan(asked.sql)
        except Invalid as problem:
            return QueryRejected(reason=str(problem))

    def _take(
        self, asked: PutStateFile | PutRows | ExpandSegments, data: bytes
    ) -> Ack | ExpandedCounts | CorruptFile:
        if isinstance(asked, ExpandSegments):
            return self._expand(asked, data)
        if isinstance(asked, PutRows):
            self._cache.put(asked.key, from_arrow(data))
            return Ack()
        try:
            self._cache.put(
                asked.key, decode(STATE_TABLES[asked.state].table, data, asked.rows, asked.columns)
            )
        except Corrupt as problem:
            return CorruptFile(reason=str(problem))
        return Ack()

    def _expand(self, asked: ExpandSegments, data: bytes) -> ExpandedCounts:
        state, start, segments = STATE_TABLES[asked.state], 0, []
        for each in asked.segments:
            raw = data[start : start + each.size_bytes]
            segments.append(Segment(each.stream, each.seq, False, raw))
            start += each.size_bytes
        decoded = [decode_tail(state, segment, asked.retained_from) for segment in segments]
        counts = tuple(each.count_rows() for each in decoded)
        if total_rows(counts).fits(asked.room):
            for place, found in zip(asked.segments, decoded, strict=True):
                self._cache.put(place.key, expand(state, found))
        return ExpandedCounts(counts=counts)

    def _fold_tail(self, asked: FoldTail) -> tuple[ArrowResult | QueryRejected, bytes | None]:
        table = STATE_TABLES[asked.state].table
        rows = fold(table, _joined(self._cache, table, asked.keys))
        self._cache.trim()
        if rows.nbytes > self._limits.result_bytes:
            limit = self._limits.result_bytes
            return QueryRejected(reason=f"their rows have more than {limit} bytes"), None
        return ArrowResult(), to_arrow(rows)

    def _run(self, asked: RunQuery) -> tuple[ArrowResult | QueryRejected, bytes | None]:
        try:
            result = self._session.run(asked.sql, self._tables(asked))
        except Invalid as problem:
            return QueryRejected(reason=str(problem)), None
        finally:
            self._cache.trim()
        return ArrowResult(), to_arrow(result)

    def _tables(self, asked: RunQuery) -> dict[str, pa.Table]:
        """The tables of `system` that the query reads."""
        states = _States(self._cache, asked)
        tables = {name: states.held(key) for name, key in asked.rows.items()}
        for made in asked.views:
            tables[made.view] = self._view(made, states)
        return tables

    def _view(self, made: ViewRequest, states: "_States") -> pa.Table:
        """A table of `system`; one that was made of all of its files is kept for the next query."""
        view = SYSTEM_TABLES[made.view]
        needs = (*view.needs, *(view.joins if made.joined else ()))
        needed = [need.state for need in needs if states.has(need.state)]
        key = states.key(made, needed)
        kept = None if key is None else self._cache.get(key)
        if kept is not None:
            return kept
        if all(state.domain == DOMAIN for state in (need.state for need in view.needs)):
            rows = CatalogViews(states).make(made.view, with_statistics=made.joined)
        else:
            own = [state for state in needed if state in {need.state for need in view.needs}]
            rows = make_event_view(made.view, own, states, with_counts=made.joined)
        return rows if key is None else self._cache.put(key, rows)


class _States:
    """The folded tables of state of one snapshot."""

    def __init__(self, cache: TableCache, asked: RunQuery) -> None:
        self._cache = cache
        self._asked = asked
        self._folded: dict[str, pa.Table] = {}

    def has(self, state: DomainTable) -> bool:
        """Whether the query needs anything of it."""
        return state.name in self._asked.states

    def key(self, made: ViewRequest, needed: list[DomainTable]) -> str | None:
        """What a table of `system` is kept under; None if some of its files were passed over."""
        parts = {state.name: self._asked.states[state.name] for state in needed}
        if not all(each.whole for each in parts.values()):
            return None
        return sha256_hex(json.encode([made, parts]))

    def rows(self, table: StateTable, domain: str = DOMAIN) -> pa.Table:
        state = DomainTable(domain, table)
        if state.name not in self._folded:
            asked = self._asked.states[state.name]
            pieces = [self._piece(part) for part in asked.parts]
            if asked.segments:
                rows = _joined(self._cache, table, asked.segments)
                pieces.append(FileRows(rows, tail=True, buckets=frozenset(table.buckets_in(rows))))
            self._folded[state.name] = retain(table, merge(table, pieces), asked.retained_from)
        return self._folded[state.name]

    def held(self, key: str) -> pa.Table:
        """What was sent or made before."""
        return _held(self._cache, key)

    def _piece(self, part: StateFileRef) -> FileRows:
        return FileRows(self.held(part.key), part.tail, frozenset(part.buckets))


def _held(cache: TableCache, key: str) -> pa.Table:
    table = cache.get(key)
    if table is None:
        raise Invalid("the worker was not given what the query needs")
    return table


def _joined(cache: TableCache, table: StateTable, keys: Sequence[str]) -> pa.Table:
    """The rows that segments have made, one after another."""
    found = [_held(cache, key) for key in keys]
    return pa.concat_tables(
        [table.schema.empty_table(), *(rows for rows in found if rows.num_rows)]
    )


def limit_process(limits: QueryLimits) -> None:
    """Have the system refuse what is beyond the limits."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.process_bytes, limits.process_bytes))


def limit_cpu(limits: QueryLimits) -> None:
    """Have the system end this process if it computes far beyond the time of one query."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cores = os.cpu_count() or 1
    allowed = used.ru_utime + used.ru_stime + cores * limits.run_ms / 1000 + _SPARE_CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), hard))


def serve(asked: BinaryIO, said: BinaryIO) -> None:
    """Answer until the engine is gone."""
    limits = QueryLimits()
    worker = QueryWorker(limits)
    while True:
        try:
            message: WorkerRequest = json.decode(read_frame(asked), WorkerRequest)  # type: ignore[arg-type]
            data = read_frame(asked) if isinstance(message, WITH_DATA) else b""
        except EOFError:
            return
        if isinstance(message, Configure):
            limits = message.limits
            limit_process(limits)
            worker = QueryWorker(limits)
        if isinstance(message, PlanQuery | ExpandSegments | FoldTail | RunQuery):
            limit_cpu(limits)
        reply, result = worker.answer(message, data)
        write_message(said, reply, result)


def main() -> None:
    """Speak over the standard pipes, and let nothing else write into them."""
    said = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, said)
