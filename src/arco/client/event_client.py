"""`EventClient`: report what happens in a pipeline, and go on; a thread delivers the events."""

import atexit
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from types import TracebackType
from typing import Literal, Self
from weakref import WeakSet

import httpx2

from arco.client.event import (
    BufferFull,
    EncodedEvent,
    Event,
    EventSource,
    Refused,
    Report,
    Undelivered,
    encode_event,
)
from arco.client.event_sender import Batching, EventBuffer, EventSender
from arco.client.transport import Token, http_client
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, system_runtime

WhenFull = Literal["raise", "drop"]


class EventClient:
    """Sends events to one server, in batches, from a thread.

    `source` names the program, `execution_id` and `task_name` its run and task. `token` is a token, or
    a function that returns one for each request. A call blocks for at most `block_s`, only while the buffer
    is full; then it raises `BufferFull`, or, with `when_full="drop"`, drops the event and counts it.
    `on_refused` is called with events that the server refuses, on the client's thread.
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

        def start() -> tuple[EventBuffer, EventSender]:
            buffer = EventBuffer(most_events=buffer_events, most_bytes=buffer_bytes)
            http = http_client(url, timeout_s=timeout_s, transport=transport)
            return buffer, EventSender(
                buffer, http, token=token, batching=batching, rng=rng, on_refused=on_refused
            )

        self._start = start
        self._buffer, self._sender = start()
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
        """Send an event; its id. What is None in the payload is left out."""
        event = Event(event_type, payload, version, occurred_at, idempotency_key, trace_id)
        return self.emit_batch([event])[0]

    def emit_batch(self, events: Iterable[Event]) -> list[str]:
        """Send several events, all of them or none; their ids."""
        lines = [self._line(event) for event in events]
        if not lines:
            return []
        self._sender.start()
        if not self._buffer.put(lines, self._block_s):
            if self._when_full == "raise":
                raise BufferFull(
                    f"the buffer had no space for {len(lines)} events within {self._block_s} s"
                )
            self._sender.count_dropped(len(lines))
        return [line.event_id for line in lines]

    def emit_idempotent(
        self, key: str, event_type: str, payload: Mapping[str, object], *, version: int = 1
    ) -> str:
        """Send an event that counts once, however often it is sent under this key."""
        return self.emit(event_type, payload, version=version, idempotency_key=key)

    def execution_started(
        self,
        execution_id: str,
        pipeline_id: str,
        pipeline_name: str | None = None,
        trigger_type: str | None = None,
        triggered_by: str | None = None,
    ) -> str:
        """A run of a pipeline began; `trigger_type` is SCHEDULED, MANUAL, EVENT or BACKFILL."""
        payload = {
            "execution_id": execution_id,
            "pipeline_id": pipeline_id,
            "pipeline_name": pipeline_name,
            "trigger_type": trigger_type,
            "triggered_by": triggered_by,
        }
        return self.emit("execution_started", payload, idempotency_key=_key("start", execution_id))

    def execution_completed(
        self,
        execution_id: str,
        status: str,
        duration_ms: int | None = None,
        error_message: str | None = None,
    ) -> str:
        """A run is over: SUCCESS, FAILED or CANCELLED."""
        payload = {
            "execution_id": execution_id,
            "status": status,
            "duration_ms": duration_ms,
            "error_message": error_message,
        }
        return self.emit("execution_completed", payload, idempotency_key=_key("end", execution_id))

    def task_started(
        self,
        execution_id: str,
        task_id: str,
        *,
        task_name: str | None = None,
        attempt: int = 1,
        worker: str | None = None,
        table_id: str | None = None,
        partition_values: Mapping[str, str] | None = None,
    ) -> str:
        """An attempt at a task of a run began."""
        payload = {
            "execution_id": execution_id,
            "task_id": task_id,
            "task_name": task_name,
            "attempt": attempt,
            "worker": worker,
            "table_id": table_id,
            "partition_values": partition_values,
        }
        key = _key("run", execution_id, task_id, attempt)
        return self.emit("task_started", payload, idempotency_key=key)

    def task_completed(
        self,
        execution_id: str,
        task_id: str,
        status: str,
        *,
        task_name: str | None = None,
        attempt: int = 1,
        duration_ms: int | None = None,
        error_message: str | None = None,
        table_id: str | None = None,
        partition_values: Mapping[str, str] | None = None,
        published_version: int | None = None,
        input_tables: Sequence[str] | None = None,
        output_tables: Sequence[str] | None = None,
        rows_read: int | None = None,
        rows_written: int | None = None,
        bytes_read: int | None = None,
        bytes_written: int | None = None,
        metrics: Mapping[str, object] | None = None,
    ) -> str:
        """An attempt at a task is over: SUCCESS, FAILED, SKIPPED, BLOCKED or CANCELLED."""
        payload = {
            "execution_id": execution_id,
            "task_id": task_id,
            "status": status,
            "task_name": task_name,
            "attempt": attempt,
            "duration_ms": duration_ms,
            "error_message": error_message,
            "table_id": table_id,
            "partition_values": partition_values,
            "published_version": published_version,
            "input_tables": input_tables,
            "output_tables": output_tables,
            "rows_read": rows_read,
            "rows_written": rows_written,
            "bytes_read": bytes_read,
            "bytes_written": bytes_written,
            "metrics": metrics,
        }
        key = _key("done", execution_id, task_id, attempt)
        return self.emit("task_completed", payload, idempotency_key=key)

    def partition_created(
        self,
        table_id: str,
        *,
        partition_values: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        partition_id: str | None = None,
        execution_id: str | None = None,
    ) -> str:
        """A table has a partition, or is about to have it; named by its values, its key or its id."""
        payload = {
            "table_id": table_id,
            "partition_values": partition_values,
            "partition_key": partition_key,
            "partition_id": partition_id,
            "execution_id": execution_id,
        }
        return self.emit("partition_created", payload)

    def partition_completed(
        self,
        table_id: str,
        *,
        partition_values: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        partition_id: str | None = None,
        row_count: int | None = None,
        size_bytes: int | None = None,
        duration_ms: int | None = None,
        version: int | None = None,
        execution_id: str | None = None,
        task_id: str | None = None,
    ) -> str:
        """The data of a partition were published; a later `version` outranks an earlier one."""
        payload = {
            "table_id": table_id,
            "partition_values": partition_values,
            "partition_key": partition_key,
            "partition_id": partition_id,
            "row_count": row_count,
            "size_bytes": size_bytes,
            "duration_ms": duration_ms,
            "version": version,
            "execution_id": execution_id,
            "task_id": task_id,
        }
        return self.emit("partition_completed", payload)

    def partition_failed(
        self,
        table_id: str,
        error: str,
        *,
        partition_values: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        partition_id: str | None = None,
        execution_id: str | None = None,
        task_id: str | None = None,
    ) -> str:
        """The data of a partition could not be made; readers keep the data of before."""
        payload = {
            "table_id": table_id,
            "error": error,
            "partition_values": partition_values,
            "partition_key": partition_key,
            "partition_id": partition_id,
            "execution_id": execution_id,
            "task_id": task_id,
        }
        return self.emit("partition_failed", payload)

    def quality_check_passed(
        self, table_id: str, check_name: str, check_type: str, **details: object
    ) -> str:
        """A check found nothing wrong; `details` are further fields of the payload."""
        return self._checked("quality_check_passed", table_id, check_name, check_type, details)

    def quality_check_failed(
        self, table_id: str, check_name: str, check_type: str, **details: object
    ) -> str:
        """A check found something wrong; `details` are further fields of the payload."""
        return self._checked("quality_check_failed", table_id, check_name, check_type, details)

    def _checked(
        self,
        event_type: str,
        table_id: str,
        check_name: str,
        check_type: str,
        details: Mapping[str, object],
    ) -> str:
        named = {"table_id": table_id, "check_name": check_name, "check_type": check_type}
        return self.emit(event_type, {**named, **details})

    def report(self) -> Report:
        """What became of all events so far."""
        return self._sender.report()

    def flush(self, timeout_s: float | None = None) -> Report:
        """Wait until all events have their outcome, for `timeout_s` at most; then the report."""
        self._buffer.wait_settled(timeout_s)
        return self.report()

    def close(self, timeout_s: float = 10.0) -> Report:
        """Deliver all events, for `timeout_s` at most, and end; what is pending then is given up."""
        atexit.unregister(self.close)
        _open.discard(self)
        self._buffer.wait_settled(timeout_s)
        self._sender.stop(0.0 if self._buffer.pending else self._timeout_s)
        return self.report()

    def restart(self) -> None:
        """Start again in a forked process, which has no thread: events of before belong to its parent."""
        self._buffer, self._sender = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; `Undelivered` if not all events are durable, unless the block itself has failed."""
        report = self.close()
        if kind is None and not report.is_complete:
            raise Undelivered(report)

    def _line(self, event: Event) -> EncodedEvent:
        runtime, (kind, execution_id, task_name) = self._runtime, self._source
        return encode_event(
            event,
            event_id=new_ulid(runtime),
            source=EventSource(kind, execution_id, task_name, next(self._sequence)),
            now=utc(runtime.clock.now_ms()),
        )


_open: WeakSet[EventClient] = WeakSet()


def _restart_all() -> None:
    for client in list(_open):
        client.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_all)


def _key(*parts: object) -> str | None:
    """The same for every attempt to send the same; none if it would be too long for a key."""
    key = ":".join(map(str, parts))
    return key if len(key) <= 255 else None
