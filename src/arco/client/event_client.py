"""The client itself: tell what happens, and go on; a thread beside does the rest."""

import atexit
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import count
from types import TracebackType
from typing import Literal, Self
from weakref import WeakSet

import httpx2

from arco.client.buffer import Buffer
from arco.client.calls import Calls
from arco.client.event import Event, Line, Source, line_of
from arco.client.post import Post, Token
from arco.client.report import BufferFull, Refused, Report, Undelivered
from arco.client.sender import Batching, Sender
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, system_runtime

WhenFull = Literal["raise", "drop"]


class EventClient(Calls):
    """Tells events to one server, in batches.

    `source` says what tells, `execution_id` and `task_name` on whose behalf. `token` is a bearer token, or
    a function that gives one whenever it is asked. A call blocks for at most `block_s`, and only while the
    buffer is full; then it raises `BufferFull`, or, with `when_full="drop"`, drops the event and counts it.
    `on_refused` hears of events that the server refuses, on the client's own thread.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token | None = None,
        source: str = "client",
        execution_id: str | None = None,
        task_name: str | None = None,
        block_s: float = 1.0,
        when_full: WhenFull = "raise",
        on_refused: Callable[[Refused], None] | None = None,
        buffer_events: int = 10_000,
        buffer_bytes: int = 32 * 1024 * 1024,
        batch_events: int = 500,
        batch_bytes: int = 1024 * 1024,
        linger_s: float = 0.05,
        timeout_s: float = 30.0,
        runtime: Runtime | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._runtime = system_runtime() if runtime is None else runtime
        self._source = (source, execution_id, task_name)
        self._sequence = count()
        self._block_s = block_s
        self._when_full = when_full
        self._timeout_s = timeout_s
        batching = Batching(batch_events, batch_bytes, linger_s)
        rng = self._runtime.rng

        def begin() -> tuple[Buffer, Sender]:
            buffer = Buffer(most_events=buffer_events, most_bytes=buffer_bytes)
            http = httpx2.Client(base_url=url, timeout=timeout_s, transport=transport)
            return buffer, Sender(buffer, Post(http, token), batching, rng, on_refused)

        self._begin = begin
        self._buffer, self._sender = begin()
        _open.add(self)
        atexit.register(self.close)

    def emit(
        self,
        event_type: str,
        payload: Mapping[str, object],
        *,
        version: int = 1,
        occurred_at: datetime | None = None,
        idempotency_key: str | None = None,
        trace_id: str | None = None,
    ) -> str:
        event = Event(event_type, payload, version, occurred_at, idempotency_key, trace_id)
        return self.emit_batch([event])[0]

    def emit_batch(self, events: Iterable[Event]) -> list[str]:
        """Tell several events, all of them or none; their ids."""
        lines = [self._line(event) for event in events]
        if not lines:
            return []
        self._sender.start()
        if not self._buffer.put(lines, self._block_s):
            if self._when_full == "raise":
                raise BufferFull(f"no room for {len(lines)} events within {self._block_s} s")
            self._sender.dropped(len(lines))
        return [line.event_id for line in lines]

    def emit_idempotent(
        self, key: str, event_type: str, payload: Mapping[str, object], *, version: int = 1
    ) -> str:
        """Tell an event that counts once, however often it is told under this key."""
        return self.emit(event_type, payload, version=version, idempotency_key=key)

    def report(self) -> Report:
        """What became of everything told so far."""
        return self._sender.report()

    def flush(self, timeout_s: float | None = None) -> Report:
        """Wait until all that was told has its outcome, for `timeout_s` at most; then the report."""
        self._buffer.wait_settled(timeout_s)
        return self.report()

    def close(self, timeout_s: float = 10.0) -> Report:
        """Deliver what was told, for `timeout_s` at most, and end; what is pending then is given up."""
        atexit.unregister(self.close)
        _open.discard(self)
        self._buffer.wait_settled(timeout_s)
        self._sender.stop(0.0 if self._buffer.pending else self._timeout_s)
        return self.report()

    def begin_anew(self) -> None:
        """Go on in a copy of the process, which has no thread of ours: what was told before is not its."""
        self._buffer, self._sender = self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; `Undelivered` if not everything is durable, unless the block has failed itself."""
        report = self.close()
        if kind is None and not report.is_complete:
            raise Undelivered(report)

    def _line(self, event: Event) -> Line:
        runtime, (kind, execution_id, task_name) = self._runtime, self._source
        return line_of(
            event,
            event_id=new_ulid(runtime),
            source=Source(kind, execution_id, task_name, next(self._sequence)),
            now=utc(runtime.clock.now_ms()),
        )


_open: WeakSet[EventClient] = WeakSet()


def _begin_all_anew() -> None:
    for client in list(_open):
        client.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
