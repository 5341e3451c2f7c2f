"""The worker: a process that answers queries from what its engine sends it, and has nothing else.

It keeps files and finished tables for the next query. What it may use is limited by the system: a query
that takes too much ends this process and no other. It ends when its engine is gone.
"""

import os
import resource
import sys
from typing import BinaryIO

import pyarrow as pa

from arco.core import json
from arco.core.errors import Corrupt, Invalid
from arco.fold.table import Table
from arco.fold.tier1 import TIER1
from arco.query.cache import Cache
from arco.query.limits import Limits
from arco.query.rows import from_arrow, to_arrow
from arco.query.schemas import SYSTEM
from arco.query.session import Session
from arco.query.state import Piece, decode, merge
from arco.query.views import Views
from arco.query.wire import (
    Asked,
    Broken,
    Done,
    Greet,
    Lacks,
    Needs,
    Offer,
    Part,
    Plan,
    Refused,
    Result,
    Rows,
    Run,
    Said,
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
        self._session = Session(limits, SYSTEM)

    def answer(self, asked: Asked, data: bytes = b"") -> tuple[Said, bytes | None]:
        """The reply to a message, and the data that it announces."""
        match asked:
            case Plan():
                return self._plan(asked), None
            case Offer():
                keys = tuple(key for key in asked.keys if self._cache.get(key) is None)
                return Lacks(keys=keys), None
            case StateFile():
                return self._take(asked, data), None
            case Rows():
                self._cache.put(asked.key, from_arrow(data))
                return Done(), None
            case Run():
                return self._run(asked)
            case Greet():
                return Done(), None

    def _plan(self, asked: Plan) -> Needs | Refused:
        try:
            return Needs(views=tuple(self._session.plan(asked.sql)))
        except Invalid as problem:
            return Refused(reason=str(problem))

    def _take(self, asked: StateFile, data: bytes) -> Done | Broken:
        try:
            self._cache.put(asked.key, decode(TIER1[asked.table], data, asked.rows))
        except Corrupt as problem:
            return Broken(reason=str(problem))
        return Done()

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
        views = Views(states)
        tables = {name: states.held(key) for name, key in asked.rows.items()}
        for name in asked.views:
            key = f"{asked.snapshot}/{name}"
            tables[name] = self._cache.get(key) or self._cache.put(key, views.make(name))
        return tables


class _States:
    """The folded tables of state of one snapshot."""

    def __init__(self, cache: Cache, asked: Run) -> None:
        self._cache = cache
        self._asked = asked
        self._folded: dict[str, pa.Table] = {}

    def rows(self, table: Table) -> pa.Table:
        if table.name not in self._folded:
            pieces = [self._piece(part) for part in self._asked.parts[table.name]]
            self._folded[table.name] = merge(table, pieces)
        return self._folded[table.name]

    def held(self, key: str) -> pa.Table:
        """What was sent or made before."""
        table = self._cache.get(key)
        if table is None:
            raise Invalid("the worker was not given what the query needs")
        return table

    def _piece(self, part: Part) -> Piece:
        return Piece(self.held(part.key), part.tail, frozenset(part.buckets))


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
            data = read_frame(asked) if isinstance(message, StateFile | Rows) else b""
        except EOFError:
            return
        if isinstance(message, Greet):
            limits = message.limits
            limit_process(limits)
            worker = Worker(limits)
        if isinstance(message, Plan | Run):
            limit_cpu(limits)
        reply, result = worker.answer(message, data)
        write_message(said, reply, result)


def main() -> None:
    """Speak over the standard pipes, and let nothing else write into them."""
    said = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, said)


if __name__ == "__main__":
    main()
