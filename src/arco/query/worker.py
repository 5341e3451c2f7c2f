"""The worker: a process that answers queries from what its engine sends it, and has nothing else.

It keeps files and finished tables for the next query. What it may use is limited by the system: a query
that takes too much ends this process and no other. It ends when its engine is gone.
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
from arco.events.row_count import total
from arco.fold.fold import fold
from arco.fold.retain import retain
from arco.fold.table import Table
from arco.fold.tier1 import DOMAIN
from arco.ledger.segment import Segment
from arco.query.cache import Cache
from arco.query.expand import decode_tail, expand
from arco.query.limits import Limits
from arco.query.needs import STATES, VIEWS, State, filter_columns
from arco.query.operations import make_operations
from arco.query.rows import from_arrow, to_arrow
from arco.query.schemas import SYSTEM
from arco.query.session import Session
from arco.query.state import Piece, decode, merge
from arco.query.views import Views
from arco.query.wire import (
    WITH_DATA,
    Asked,
    Broken,
    Done,
    Expanded,
    FoldTail,
    Greet,
    Lacks,
    Made,
    Needs,
    Offer,
    Part,
    Plan,
    Refused,
    Result,
    Rows,
    Run,
    Said,
    Segments,
    StateFile,
    read_frame,
    write_message,
)

# An engine that dies in the middle of a query cannot end it any more; then this does.
_SPARE_CPU_SECONDS = 30


class Worker:
    """Answers one message after the other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._cache = Cache(limits.cache_bytes)
        self._session = Session(limits, SYSTEM, filter_columns)

    def answer(self, asked: Asked, data: bytes = b"") -> tuple[Said, bytes | None]:
        """The reply to a message, and the data that it announces."""
        match asked:
            case Plan():
                return self._plan(asked), None
            case Offer():
                keys = tuple(key for key in asked.keys if self._cache.get(key) is None)
                return Lacks(keys=keys), None
            case StateFile() | Rows() | Segments():
                return self._take(asked, data), None
            case FoldTail():
                return self._fold_tail(asked)
            case Run():
                return self._run(asked)
            case Greet():
                return Done(), None

    def _plan(self, asked: Plan) -> Needs | Refused:
        try:
            return self._session.plan(asked.sql)
        except Invalid as problem:
            return Refused(reason=str(problem))

    def _take(self, asked: StateFile | Rows | Segments, data: bytes) -> Done | Expanded | Broken:
        if isinstance(asked, Segments):
            return self._expand(asked, data)
        if isinstance(asked, Rows):
            self._cache.put(asked.key, from_arrow(data))
            return Done()
        try:
            self._cache.put(
                asked.key, decode(STATES[asked.state].table, data, asked.rows, asked.columns)
            )
        except Corrupt as problem:
            return Broken(reason=str(problem))
        return Done()

    def _expand(self, asked: Segments, data: bytes) -> Expanded:
        state, start, segments = STATES[asked.state], 0, []
        for each in asked.segments:
            raw = data[start : start + each.size_bytes]
            segments.append(Segment(each.stream, each.seq, False, raw))
            start += each.size_bytes
        decoded = [decode_tail(state, segment, asked.retained_from) for segment in segments]
        counts = tuple(each.count_rows() for each in decoded)
        if total(counts).fits(asked.room):
            for place, found in zip(asked.segments, decoded, strict=True):
                self._cache.put(place.key, expand(state, found))
        return Expanded(counts=counts)

    def _fold_tail(self, asked: FoldTail) -> tuple[Result | Refused, bytes | None]:
        table = STATES[asked.state].table
        rows = fold(table, _joined(self._cache, table, asked.keys))
        self._cache.trim()
        if rows.nbytes > self._limits.result_bytes:
            limit = self._limits.result_bytes
            return Refused(reason=f"their rows have more than {limit} bytes"), None
        return Result(), to_arrow(rows)

    def _run(self, asked: Run) -> tuple[Result | Refused, bytes | None]:
        try:
            result = self._session.run(asked.sql, self._tables(asked))
        except Invalid as problem:
            return Refused(reason=str(problem)), None
        finally:
            self._cache.trim()
        return Result(), to_arrow(result)

    def _tables(self, asked: Run) -> dict[str, pa.Table]:
        """The tables of `system` that the query reads."""
        states = _States(self._cache, asked)
        tables = {name: states.held(key) for name, key in asked.rows.items()}
        for made in asked.views:
            tables[made.view] = self._view(made, states)
        return tables

    def _view(self, made: Made, states: "_States") -> pa.Table:
        """A table of `system`; one that was made of all of its files is kept for the next query."""
        view = VIEWS[made.view]
        needs = (*view.needs, *(view.joins if made.joined else ()))
        needed = [need.state for need in needs if states.has(need.state)]
        key = states.key(made, needed)
        kept = None if key is None else self._cache.get(key)
        if kept is not None:
            return kept
        if all(state.domain == DOMAIN for state in (need.state for need in view.needs)):
            rows = Views(states).make(made.view, with_statistics=made.joined)
        else:
            own = [state for state in needed if state in {need.state for need in view.needs}]
            rows = make_operations(made.view, own, states, with_counts=made.joined)
        return rows if key is None else self._cache.put(key, rows)


class _States:
    """The folded tables of state of one snapshot."""

    def __init__(self, cache: Cache, asked: Run) -> None:
        self._cache = cache
        self._asked = asked
        self._folded: dict[str, pa.Table] = {}

    def has(self, state: State) -> bool:
        """Whether the query needs anything of it."""
        return state.name in self._asked.states

    def key(self, made: Made, needed: list[State]) -> str | None:
        """What a table of `system` is kept under; None if some of its files were passed over."""
        parts = {state.name: self._asked.states[state.name] for state in needed}
        if not all(each.whole for each in parts.values()):
            return None
        return sha256_hex(json.encode([made, parts]))

    def rows(self, table: Table, domain: str = DOMAIN) -> pa.Table:
        state = State(domain, table)
        if state.name not in self._folded:
            asked = self._asked.states[state.name]
            pieces = [self._piece(part) for part in asked.parts]
            if asked.segments:
                rows = _joined(self._cache, table, asked.segments)
                pieces.append(Piece(rows, tail=True, buckets=frozenset(table.buckets_in(rows))))
            self._folded[state.name] = retain(table, merge(table, pieces), asked.retained_from)
        return self._folded[state.name]

    def held(self, key: str) -> pa.Table:
        """What was sent or made before."""
        return _held(self._cache, key)

    def _piece(self, part: Part) -> Piece:
        return Piece(self.held(part.key), part.tail, frozenset(part.buckets))


def _held(cache: Cache, key: str) -> pa.Table:
    table = cache.get(key)
    if table is None:
        raise Invalid("the worker was not given what the query needs")
    return table


def _joined(cache: Cache, table: Table, keys: Sequence[str]) -> pa.Table:
    """The rows that segments have made, one after another."""
    found = [_held(cache, key) for key in keys]
    return pa.concat_tables(
        [table.schema.empty_table(), *(rows for rows in found if rows.num_rows)]
    )


def limit_process(limits: Limits) -> None:
    """Have the system refuse what is beyond the limits."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.process_bytes, limits.process_bytes))


def limit_cpu(limits: Limits) -> None:
    """Have the system end this process if it computes far beyond the time of one query."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cores = os.cpu_count() or 1
    allowed = used.ru_utime + used.ru_stime + cores * limits.run_ms / 1000 + _SPARE_CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), hard))


def serve(asked: BinaryIO, said: BinaryIO) -> None:
    """Answer until the engine is gone."""
    limits = Limits()
    worker = Worker(limits)
    while True:
        try:
            message: Asked = json.decode(read_frame(asked), Asked)  # type: ignore[arg-type]
            data = read_frame(asked) if isinstance(message, WITH_DATA) else b""
        except EOFError:
            return
        if isinstance(message, Greet):
            limits = message.limits
            limit_process(limits)
            worker = Worker(limits)
        if isinstance(message, Plan | Segments | FoldTail | Run):
            limit_cpu(limits)
        reply, result = worker.answer(message, data)
        write_message(said, reply, result)


def main() -> None:
    """Speak over the standard pipes, and let nothing else write into them."""
    said = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, said)
