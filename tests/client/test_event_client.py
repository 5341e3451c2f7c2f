"""The client: durable or told, never lost in silence, and never in its caller's way for long."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from arco.client import BufferFull, Event, EventClient, Refused, Undelivered
from arco.core.errors import Invalid
from tests.api.events import ledger
from tests.api.server import Served, served
from tests.client.cuttable_connection import CuttableConnection


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("client") / "store") as running:
        yield running


def _payload(run: str) -> dict[str, object]:
    return {"execution_id": run, "pipeline_id": "orders"}


def _stored(server: Served, run: str) -> list[dict[str, Any]]:
    """The events about one execution, as the ledger has them."""
    events = [json.loads(bytes(event.payload)) | {"event": event} for event in ledger(server)]
    return [event for event in events if event.get("execution_id") == run]


def _run() -> str:
    return uuid4().hex


def test_events_are_durable_once_flushed(server: Served) -> None:
    run = _run()
    with EventClient(server.url, source="test", execution_id=run, task_name="load") as client:
        event_id = client.emit("execution_started", _payload(run))
        report = client.flush(30)
    assert (report.acknowledged, report.pending, report.is_complete) == (1, 0, True)
    [stored] = _stored(server, run)
    event = stored["event"]
    assert event.event_id == event.idempotency_key == event_id
    assert (event.source.type, event.source.execution_id) == ("test", run)
    assert (event.source.task_name, event.source.sequence) == ("load", 0)


def test_every_convenience_call_sends_what_the_server_takes(server: Served) -> None:
    run, table = _run(), _run()
    day = {"date": "2026-05-01"}
    with EventClient(server.url) as client:
        client.execution_started(run, "orders", "Orders", "MANUAL", "user:ann")
        client.task_started(run, "load", task_name="load", worker="w1", table_id=table)
        client.partition_created(table, partition_values=day, execution_id=run)
        client.partition_completed(
            table, partition_values=day, row_count=5, size_bytes=6, duration_ms=7, version=1
        )
        client.partition_failed(table, "no disk", partition_key="date=2026-05-02")
        client.quality_check_passed(table, "not_empty", "ROW_COUNT", expected_value="> 0")
        client.quality_check_failed(table, "known", "NULL_CHECK", message="17 are null")
        client.task_completed(run, "load", "SUCCESS", rows_written=5, output_tables=[table])
        client.execution_completed(run, "SUCCESS", 12)
        report = client.flush(30)
    assert (report.acknowledged, report.refusals) == (9, ())
    kinds = [each["event"].event_type for each in _stored(server, run)]
    expected = ["execution_started", "task_started", "partition_created", "task_completed"]
    assert kinds == [*expected, "execution_completed"]


def test_many_threads_send_at_once_and_all_of_it_arrives_in_batches(server: Served) -> None:
    run, line = _run(), CuttableConnection()
    with EventClient(server.url, transport=line, buffer_events=20_000) as client:

        def tell(worker: int) -> None:
            for number in range(500):
                client.emit_idempotent(
                    f"{run}:{worker}:{number}", "execution_started", _payload(run)
                )

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(tell, range(8)))
        assert client.flush(60).acknowledged == 4_000
    stored = _stored(server, run)
    assert len({each["event"].idempotency_key for each in stored}) == len(stored) == 4_000
    assert len(line.requests) < 400


def test_an_answer_that_was_lost_is_made_good_without_a_second_copy(server: Served) -> None:
    run, line = _run(), CuttableConnection()
    line.lose_answers = 3
    with EventClient(server.url, transport=line) as client:
        ids = client.emit_batch(Event("execution_started", _payload(run)) for _ in range(20))
        report = client.flush(60)
    assert (report.acknowledged, report.problem) == (20, None)
    assert [each["event"].event_id for each in _stored(server, run)] == ids
    assert len({request.read() for request in line.requests}) == 1


_FORKS = """
import os, sys
from arco.client import EventClient
url, run = sys.argv[1:]
client = EventClient(url)
def tell(where):
    client.emit("execution_started", {"execution_id": run, "pipeline_id": where})
tell("before")
client.flush(30)
tell("on the way")  # it may still be in the buffer, and is the parent's to send
child = os.fork()
if child == 0:
    tell("child")
    report = client.close(30)
    os._exit(0 if (report.is_complete, report.acknowledged) == (True, 1) else 1)
tell("parent")
assert os.waitpid(child, 0)[1] == 0
report = client.close(30)
assert (report.is_complete, report.acknowledged) == (True, 3), report
"""


def test_a_process_that_forks_sends_from_both_sides(server: Served) -> None:
    run = _run()
    subprocess.run([sys.executable, "-c", _FORKS, server.url, run], check=True, timeout=120)
    pipeline_ids = sorted(each["pipeline_id"] for each in _stored(server, run))
    assert pipeline_ids == ["before", "child", "on the way", "parent"]


def test_a_server_that_is_down_is_waited_for(server: Served) -> None:
    run, line = _run(), CuttableConnection()
    line.is_open.clear()
    with EventClient(server.url, transport=line) as client:
        client.emit("execution_started", _payload(run))
        waiting = client.flush(0.5)
        assert (waiting.acknowledged, waiting.pending) == (0, 1)
        assert "the line is cut" in str(waiting.problem)
        line.is_open.set()
        assert client.flush(60).is_complete
    assert len(_stored(server, run)) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 502, 503, 504])
def test_an_answer_that_settles_nothing_is_asked_again(server: Served, status: int) -> None:
    run, line = _run(), CuttableConnection()
    line.answers = [httpx2.Response(status, json={"code": "x", "detail": "not now"})]
    with EventClient(server.url, transport=line) as client:
        client.emit("execution_started", _payload(run))
        assert client.flush(60).is_complete
    assert len(line.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"{}",
        b'{"accepted":1,"duplicates":[],"refused":[{"line":9,"reason":"x"}]}',
        b'{"accepted":0,"duplicates":[],"refused":[]}',
    ],
)
def test_a_success_that_is_not_one_of_arco_s_is_not_believed(server: Served, answer: bytes) -> None:
    run, line = _run(), CuttableConnection()
    line.answers = [httpx2.Response(200, content=answer)]
    with EventClient(server.url, transport=line) as client:
        client.emit("execution_started", _payload(run))
        assert client.flush(60).is_complete
    assert len(_stored(server, run)) == 1


def test_a_refusal_that_is_not_one_of_arco_s_costs_no_event(server: Served) -> None:
    """A proxy that does not like our headers says nothing of what we tell."""
    run, line = _run(), CuttableConnection()
    line.answers = [httpx2.Response(400, content=b"<html>header too large</html>")]
    line.answers += [httpx2.Response(422, json={"code": "events_refused", "refused": []})]
    with EventClient(server.url, transport=line) as client:
        client.emit("execution_started", _payload(run))
        assert client.flush(60).is_complete
    assert len(_stored(server, run)) == 1


def test_refused_events_are_reported_with_their_reason_and_the_others_stored(
    server: Served,
) -> None:
    run = _run()
    heard: list[Refused] = []
    client = EventClient(server.url, on_refused=heard.append)
    good = Event("execution_started", _payload(run))
    ids = client.emit_batch([good, Event("never_heard_of"), good, Event("execution_started")])
    report = client.flush(30)
    assert (report.acknowledged, report.refused, report.is_complete) == (2, 2, False)
    assert [each.event_id for each in report.refusals] == [ids[1], ids[3]]
    assert "unknown event type" in report.refusals[0].reason
    client.emit("never_heard_of", {})  # a batch of nothing else is a problem document
    assert client.close().refused == 3
    assert [each.event_id for each in heard[:2]] == [ids[1], ids[3]]
    assert len(heard) == 3


def test_a_block_that_ends_with_something_undelivered_says_so(server: Served) -> None:
    with pytest.raises(Undelivered, match="1 refused") as caught, EventClient(server.url) as client:
        client.emit("never_heard_of", {})
    assert caught.value.report.refused == 1


def test_a_block_that_fails_itself_keeps_its_own_error(server: Served) -> None:
    def fail() -> None:
        with EventClient(server.url) as client:
            client.emit("never_heard_of", {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_full_buffer_blocks_no_longer_than_it_says_and_then_raises(server: Served) -> None:
    run, line = _run(), CuttableConnection()
    line.is_open.clear()
    client = EventClient(server.url, transport=line, buffer_events=10, block_s=0.2)
    client.emit_batch(Event("execution_started", _payload(run)) for _ in range(10))
    began = time.monotonic()
    with pytest.raises(BufferFull):
        client.emit("execution_started", _payload(run))
    assert 0.15 < time.monotonic() - began < 5
    line.is_open.set()
    report = client.close(60)
    assert (report.acknowledged, report.dropped, report.pending) == (10, 0, 0)
    assert len(_stored(server, run)) == 10


def test_a_full_buffer_may_drop_and_then_counts_what_it_dropped(server: Served) -> None:
    run, line = _run(), CuttableConnection()
    line.is_open.clear()
    client = EventClient(
        server.url, transport=line, buffer_events=10, block_s=0.0, when_full="drop"
    )
    for _ in range(25):
        client.emit("execution_started", _payload(run))
    line.is_open.set()
    report = client.close(60)
    assert (report.acknowledged, report.dropped, report.is_complete) == (10, 15, False)


def test_the_buffer_is_bounded_by_bytes_too(server: Served) -> None:
    line = CuttableConnection()
    line.is_open.clear()
    client = EventClient(server.url, transport=line, buffer_bytes=10_000, block_s=0.0)

    def tell_too_much() -> None:
        for _ in range(1_000):
            client.emit("execution_started", _payload("x" * 100))

    with pytest.raises(BufferFull):
        tell_too_much()
    assert 10 < client.report().pending < 60
    with pytest.raises(Invalid, match="fewer"):
        client.emit("execution_started", _payload("x" * 20_000))
    client.close(0.0)


def test_room_is_made_as_soon_as_events_are_acknowledged(server: Served) -> None:
    run = _run()
    with EventClient(server.url, buffer_events=50, block_s=30, batch_events=20) as client:
        for _ in range(500):
            client.emit("execution_started", _payload(run))
        assert client.flush(60).acknowledged == 500


def test_closing_gives_up_in_time_and_says_what_was_not_acknowledged(server: Served) -> None:
    line = CuttableConnection()
    line.is_open.clear()
    client = EventClient(server.url, transport=line)
    client.emit("execution_started", _payload(_run()))
    began = time.monotonic()
    report = client.close(0.3)
    assert time.monotonic() - began < 5
    assert (report.acknowledged, report.pending) == (0, 1)
    assert "the line is cut" in str(report)
    with pytest.raises(Invalid, match="closed"):
        client.emit("execution_started", _payload(_run()))
    assert client.close(0.0).pending == 1


def test_a_batch_that_the_server_finds_too_large_is_sent_in_halves(server: Served) -> None:
    run, line = _run(), CuttableConnection()
    line.answers = [httpx2.Response(413, json={"code": "body_too_large", "detail": "too large"})]
    with EventClient(server.url, transport=line) as client:
        client.emit_batch(Event("execution_started", _payload(run)) for _ in range(9))
        assert client.flush(60).acknowledged == 9
    assert [request.read().count(b"\n") + 1 for request in line.requests] == [9, 4, 5]


def test_one_event_that_cannot_be_read_is_refused_and_not_sent_for_ever(server: Served) -> None:
    line = CuttableConnection()
    line.answers = [httpx2.Response(413, json={"detail": "too large"})]
    client = EventClient(server.url, transport=line)
    client.emit("execution_started", _payload(_run()))
    report = client.close(30)
    assert (report.refused, report.refusals[0].reason) == (1, "413 too large")


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Event("a", {"x": object()}), "JSON"),
        (Event("a", {"x": "y" * 2_000_000}), "at most"),
        (Event("a", occurred_at=datetime(2026, 5, 1)), "time zone"),  # noqa: DTZ001
    ],
)
def test_what_no_server_could_take_is_refused_at_once(event: Event, reason: str) -> None:
    client = EventClient("http://127.0.0.1:1")
    with pytest.raises(Invalid, match=reason):
        client.emit_batch([event])
    assert client.close().is_complete


def test_the_time_that_something_happened_can_be_given(server: Served) -> None:
    run, moment = _run(), datetime(2026, 5, 1, 10, tzinfo=UTC)
    with EventClient(server.url) as client:
        client.emit("execution_started", _payload(run), occurred_at=moment, trace_id="abc")
    [stored] = _stored(server, run)
    assert (stored["event"].occurred_at, stored["event"].trace_id) == (moment, "abc")


def test_a_token_is_sent_and_fetched_again_at_every_request(server: Served) -> None:
    line = CuttableConnection()
    line.answers = [httpx2.Response(401, json={"detail": "expired"})]
    tokens = ["new", "old"]

    with EventClient(server.url, transport=line, token=tokens.pop) as client:
        client.emit("execution_started", _payload(_run()))
        assert client.flush(60).is_complete
    sent = [request.headers["authorization"] for request in line.requests]
    assert sent == ["Bearer old", "Bearer new"]


def test_a_token_that_cannot_be_had_is_waited_for(server: Served) -> None:
    failures = [RuntimeError("the vault is closed")]

    def token() -> str:
        if failures:
            raise failures.pop()
        return "open"

    with EventClient(server.url, token=token) as client:
        client.emit("execution_started", _payload(_run()))
        assert client.flush(60).is_complete


def test_a_callback_that_fails_does_not_end_the_sending(server: Served) -> None:
    def clumsy(_: Refused) -> None:
        raise RuntimeError("oops")

    client = EventClient(server.url, on_refused=clumsy)
    client.emit("never_heard_of", {})
    client.flush(30)
    client.emit("execution_started", _payload(_run()))
    report = client.close(30)
    assert (report.refused, report.acknowledged, report.pending) == (1, 1, 0)


def test_an_unused_client_starts_no_thread() -> None:
    before = threading.active_count()
    client = EventClient("http://127.0.0.1:1")
    assert threading.active_count() == before
    assert client.close().is_complete


def test_nothing_waits_for_a_linger_during_a_flush(server: Served) -> None:
    with EventClient(server.url, linger_s=60) as client:
        client.emit("execution_started", _payload(_run()))
        assert client.flush(20).is_complete
        client.emit("execution_started", _payload(_run()))
        assert client.flush(20).is_complete


def test_a_process_that_forgets_to_close_delivers_all_the_same(
    server: Served, tmp_path: Path
) -> None:
    import subprocess
    import sys

    run = _run()
    script = tmp_path / "forgetful.py"
    script.write_text(
        "from arco.client import EventClient\n"
        f"client = EventClient({server.url!r}, linger_s=5)\n"
        f"client.execution_started({run!r}, 'orders')\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)
    assert len(_stored(server, run)) == 1
