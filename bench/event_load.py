"""Events through HTTP: how many are durable a second, and how soon a steady load can be seen.

The steady load is 500 events a second beside the API. Every second one execution is looked for by SQL until
it is there; and a table is read all the time, to see what compaction costs the API.
"""

import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from arco.core.runtime import Runtime
from bench.figure import Figure, percentile
from bench.load import Connection, Plan, Write, load, request
from bench.process import Server, arco_up

_BATCH = 500
_APPEND_S = 15.0
_WRITERS = 4
_STEADY_S = float(os.environ.get("STEADY_SECONDS", "120"))
_A_SECOND = 500
_TICK_S = 0.1
_PATIENCE_S = 60.0
_WARM_S = 45.0  # the first event starts Spark

_EVENTS = "/api/v1/events"
_TABLE = "/api/v1/catalogs/default/schemas"


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on directories of their own."""
    with TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder)
        return await runtime.tasks.in_thread(
            lambda: [*_append(place / "append"), *_steady(place / "steady")]
        )


def _append(root: Path) -> list[Figure]:
    events = [execution_started(f"@writer@-@count@-{number}", number) for number in range(_BATCH)]
    write = Write(paths=(_EVENTS,), bodies=(json.dumps(events),))
    with arco_up(root, "--no-spark", "--log-level", "warning") as server:
        result = load(
            server, Plan(port=server.port, seconds=_APPEND_S, connections=_WRITERS, write=write)
        )
    if set(result.statuses) != {200}:
        raise AssertionError(result.error)
    rate = result.rate * _BATCH
    return [
        Figure(
            f"durable append through HTTP, batches of {_BATCH}, events/s",
            f"{rate:,.0f}",
            promised="20,000",
            met=rate >= 20_000,
        ),
        Figure(
            "  p50 and p99 of a batch, ms",
            f"{percentile(result.ms, 0.5):.1f}; {percentile(result.ms, 0.99):.1f}",
        ),
    ]


def _steady(root: Path) -> list[Figure]:
    with arco_up(root, "--log-level", "warning", spark=True) as server:
        quiet_ms = _reads(server, 10.0)
        _see(server, _Watch(), _send_events(server, "warm-up", 1), _WARM_S * 4)
        watch = _Watch()
        threads = [
            threading.Thread(target=_send, args=(server, watch)),
            threading.Thread(target=_look, args=(server, watch)),
        ]
        for thread in threads:
            thread.start()
        busy_ms = _reads(server, _STEADY_S)
        for thread in threads:
            thread.join()
    if watch.problems or watch.pending:
        raise AssertionError(f"{watch.problems[:3]}, never seen: {watch.pending}")
    p95, p99 = percentile(watch.seen_s, 0.95), percentile(watch.seen_s, 0.99)
    quiet, busy = percentile(quiet_ms, 0.5), percentile(busy_ms, 0.5)
    return [
        Figure(
            f"{_A_SECOND} events/s for {_STEADY_S:.0f} s: seen by SQL after, p95 s",
            f"{p95:.2f}",
            promised="5 s",
            met=p95 < 5,
        ),
        Figure("  p99 s", f"{p99:.2f}", promised="10 s", met=p99 < 10),
        Figure(
            "  a read of the API beside it, p50 ms (baseline: before)",
            f"{busy:.2f}",
            f"{quiet:.2f}",
            f"{busy / quiet:.2f} x",
            "2 x",
            busy <= 2 * quiet,
        ),
    ]


@dataclass
class _Watch:
    """Executions that were reported, and when they became visible."""

    pending: dict[str, float] = field(default_factory=dict)
    seen_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ended: bool = False


def _send(server: Server, watch: _Watch) -> None:
    connection, began, ticks = Connection(server.port), time.perf_counter(), 0
    each = int(_A_SECOND * _TICK_S)
    while time.perf_counter() - began < _STEADY_S:
        marker = f"run-{ticks}"
        sent_at_s = time.perf_counter()
        _post(
            connection,
            [execution_started(f"{marker}-{n}", ticks * each + n) for n in range(each)],
            watch,
        )
        if ticks % round(1 / _TICK_S) == 0:
            watch.pending[f"{marker}-0"] = sent_at_s
        ticks += 1
        time.sleep(max(0.0, began + ticks * _TICK_S - time.perf_counter()))
    watch.ended = True


def _look(server: Server, watch: _Watch) -> None:
    connection, until = Connection(server.port), time.perf_counter() + _STEADY_S + _PATIENCE_S
    while time.perf_counter() < until and not (watch.ended and not watch.pending):
        if watch.pending:
            _look_once(connection, watch)
        time.sleep(0.2)


def _look_once(connection: Connection, watch: _Watch) -> None:
    wanted = ", ".join(f"'{each}'" for each in list(watch.pending))
    sql = f"SELECT execution_id FROM system.executions WHERE execution_id IN ({wanted})"
    connection.send(request("POST", "/api/v1/query", {}, json.dumps({"sql": sql}).encode()))
    status, _, body = connection.answer()
    if status != 200:
        watch.problems.append(body[:200].decode())
        return
    now = time.perf_counter()
    for [seen] in json.loads(body)["rows"]:
        watch.seen_s.append(now - watch.pending.pop(seen))


def _send_events(server: Server, name: str, count: int) -> str:
    connection = Connection(server.port)
    _post(connection, [execution_started(f"{name}-{n}", n) for n in range(count)], _Watch())
    return f"{name}-0"


def _see(server: Server, watch: _Watch, marker: str, patience_s: float) -> None:
    """Wait until an execution can be seen."""
    connection, until = Connection(server.port), time.perf_counter() + patience_s
    watch.pending[marker] = time.perf_counter()
    while watch.pending:
        _look_once(connection, watch)
        if time.perf_counter() > until:
            raise AssertionError(f"{marker} cannot be seen after {patience_s} s: {watch.problems}")
        time.sleep(0.5)


def _post(connection: Connection, events: list[dict[str, object]], watch: _Watch) -> None:
    connection.send(request("POST", _EVENTS, {}, json.dumps(events).encode()))
    status, _, body = connection.answer()
    if status != 200 or json.loads(body)["accepted"] != len(events):
        watch.problems.append(f"{status}: {body[:200].decode()}")


def _reads(server: Server, seconds: float) -> list[float]:
    """How long reads of the catalog take, one every 20 ms."""
    connection, began, times_ms = Connection(server.port), time.perf_counter(), []
    while (sent := time.perf_counter()) - began < seconds:
        connection.send(request("GET", _TABLE, {}))
        status, _, body = connection.answer()
        if status != 200:
            raise AssertionError(body[:200].decode())
        times_ms.append((time.perf_counter() - sent) * 1000)
        time.sleep(0.02)
    return times_ms


def execution_started(name: str, number: int) -> dict[str, object]:
    """An event, as it is sent."""
    return {
        "event_type": "execution_started",
        "event_version": 1,
        "occurred_at": "2026-11-01T10:00:00Z",
        "idempotency_key": f"start:{name}",
        "source": {"type": "airflow", "sequence": number},
        "payload": {
            "execution_id": name,
            "pipeline_id": f"pipeline-{number % 97}",
            "pipeline_name": f"Orders of region {number % 97}, daily",
            "trigger_type": "SCHEDULED",
            "triggered_by": f"schedule:orders-{number % 97}",
            "run_key": f"orders:{number}",
        },
    }
