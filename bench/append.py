"""Durable appends on local disk: 64 appenders of 10 events, against one create per call."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from arco.core import json
from arco.core.clock import utc
from arco.core.ids import Ulid, new_ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import Envelope, Source
from arco.ledger.segment import encode_segment
from arco.ledger.writer import LedgerWriter
from arco.storage.local import LocalBackend
from arco.storage.open import open_store
from arco.storage.roles import Role
from bench.figure import Figure, percentile

_APPENDERS = 64
_EVENTS = 10
_SECONDS = 5.0


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure both in turn, on the same store."""
    with TemporaryDirectory(dir=scratch) as folder:
        store = await open_store(LocalBackend(Path(folder), runtime), runtime, role=Role.API)
        events = [_event(runtime, n) for n in range(_EVENTS)]
        writer = LedgerWriter(store, "executions")
        creates_ms: list[float] = []

        async def append() -> None:
            await writer.append(events)

        async def create() -> None:
            stream = Ulid(new_ulid(runtime))
            body = encode_segment(runtime, stream, 0, [json.encode(event) for event in events])
            started = time.perf_counter()
            await store.create(f"ledger/executions/one/{stream}.jsonl", body)
            creates_ms.append((time.perf_counter() - started) * 1000)

        baseline = await _rate(runtime, create)
        grouped = await _rate(runtime, append)
        await writer.close()
        alone_ms = [await _timed(create) for _ in range(100)]
    ratio = grouped / baseline
    return [
        Figure(
            "durable append, 64 appenders x 10 events, events/s",
            f"{grouped:,.0f}",
            f"{baseline:,.0f}",
            f"{ratio:.1f} x",
            "20,000 and 4 x",
            grouped >= 20_000 and ratio >= 4,
        ),
        Figure(
            "durable create, p50 ms: alone; among 64",
            f"{percentile(alone_ms, 0.5):.2f}",
            f"{percentile(creates_ms, 0.5):.2f}",
        ),
    ]


async def _rate(runtime: Runtime, call: Callable[[], Awaitable[None]]) -> float:
    """Acknowledged events a second over all appenders."""
    started = time.perf_counter()
    calls = 0

    async def appender() -> None:
        nonlocal calls
        while time.perf_counter() - started < _SECONDS:
            await call()
            calls += 1

    await runtime.tasks.gather(*(appender() for _ in range(_APPENDERS)))
    return calls * _EVENTS / (time.perf_counter() - started)


async def _timed(call: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1000


def _event(runtime: Runtime, number: int) -> Envelope:
    now = utc(runtime.clock.now_ms())
    payload = {"execution_id": "e", "task_id": f"t{number}", "status": "RUNNING", "note": "x" * 200}
    return Envelope(
        event_id=new_ulid(runtime),
        event_type="task_started",
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=f"bench-{number}",
        source=Source("bench"),
        payload=msgspec.Raw(json.encode(payload)),
    )
