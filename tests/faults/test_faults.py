"""Each fault, seen from a plain HTTP client: what was applied and what was answered."""

import time
from http.client import RemoteDisconnected

import pytest

from tests.faults.operation import Verb
from tests.faults.running import RunningServer, running_server
from tests.faults.script import Fault, Rule
from tests.faults.wire import BUCKET, S3, WIRES, Answer, Wire, send

every_dialect = pytest.mark.parametrize("wire", WIRES, ids=str)


def stored(server: RunningServer, key: str) -> bytes | None:
    stored_object = server.objects(BUCKET).get(key)
    return None if stored_object is None else stored_object.body


def says(answer: Answer, expected: tuple[int, bytes]) -> bool:
    status, code = expected
    return answer.status == status and code in answer.body


@every_dialect
def test_without_a_rule_a_create_succeeds_once(server: RunningServer, wire: Wire) -> None:
    assert wire.create(server, "k", b"first").status == wire.created
    assert says(wire.create(server, "k", b"second"), wire.exists)
    assert wire.read(server, "k").body == b"first"


@every_dialect
def test_unavailable_before_applies_nothing(server: RunningServer, wire: Wire) -> None:
    server.script.add(Rule(fault=Fault.UNAVAILABLE_BEFORE, times=1))
    assert says(wire.create(server, "k", b"1"), wire.unavailable)
    assert stored(server, "k") is None
    assert wire.create(server, "k", b"2").status == wire.created


@every_dialect
def test_error_after_applies_and_reports_failure(server: RunningServer, wire: Wire) -> None:
    server.script.add(Rule(fault=Fault.ERROR_AFTER, times=1))
    assert says(wire.create(server, "k", b"1"), wire.internal)
    assert stored(server, "k") == b"1"
    assert says(wire.create(server, "k", b"1"), wire.exists)


@every_dialect
def test_drop_after_applies_and_answers_nothing(server: RunningServer, wire: Wire) -> None:
    server.script.add(Rule(fault=Fault.DROP_AFTER, times=1))
    with pytest.raises(RemoteDisconnected):
        wire.create(server, "k", b"1")
    assert stored(server, "k") == b"1"


@every_dialect
def test_drop_before_applies_nothing(server: RunningServer, wire: Wire) -> None:
    server.script.add(Rule(fault=Fault.DROP_BEFORE, times=1))
    with pytest.raises(RemoteDisconnected):
        wire.create(server, "k", b"1")
    assert stored(server, "k") is None


def test_a_drop_can_be_a_reset(server: RunningServer) -> None:
    server.script.add(Rule(fault=Fault.DROP_AFTER, reset=True))
    with pytest.raises(ConnectionResetError) as raised:
        S3.create(server, "k", b"1")
    assert not isinstance(raised.value, RemoteDisconnected)
    assert stored(server, "k") == b"1"


@every_dialect
def test_conflict_stores_nothing(server: RunningServer, wire: Wire) -> None:
    server.script.add(Rule(fault=Fault.CONFLICT_NOTHING_STORED, times=1))
    assert says(wire.create(server, "k", b"1"), wire.conflict)
    assert stored(server, "k") is None


@every_dialect
def test_throttling_stores_nothing(server: RunningServer, wire: Wire) -> None:
    server.script.add(
        Rule(fault=Fault.THROTTLED, times=1),
        Rule(fault=Fault.SLOW_DOWN, times=1),
    )
    assert says(wire.create(server, "k", b"1"), wire.throttled)
    assert says(wire.create(server, "k", b"1"), wire.slow_down)
    assert stored(server, "k") is None


@every_dialect
def test_a_duplicate_delivery_of_a_create_is_answered_by_the_second(
    server: RunningServer, wire: Wire
) -> None:
    server.script.add(Rule(fault=Fault.DUPLICATE_DELIVERY))
    assert says(wire.create(server, "k", b"1"), wire.exists)
    assert stored(server, "k") == b"1"


def test_a_duplicate_delivery_of_an_overwrite_succeeds(server: RunningServer) -> None:
    server.script.add(Rule(fault=Fault.DUPLICATE_DELIVERY))
    assert send(server, "PUT", f"/{BUCKET}/k", b"1").status == 200
    assert stored(server, "k") == b"1"


def test_a_duplicate_delivery_of_a_delete_finds_nothing_left(server: RunningServer) -> None:
    S3.create(server, "k", b"1")
    server.script.add(Rule(fault=Fault.DUPLICATE_DELIVERY))
    assert send(server, "DELETE", f"/_gcs/{BUCKET}/k").status == 404
    assert stored(server, "k") is None


@every_dialect
def test_the_body_of_a_get_dribbles(server: RunningServer, wire: Wire) -> None:
    wire.create(server, "k", b"0123456789" * 10)
    server.script.add(Rule(fault=Fault.SLOW_BODY, verb=Verb.GET, pause_ms=20, pieces=10))
    started = time.monotonic()
    answer = wire.read(server, "k")
    assert answer.body == b"0123456789" * 10
    assert time.monotonic() - started >= 0.2


def test_the_answer_of_a_put_dribbles_though_it_has_no_body(server: RunningServer) -> None:
    server.script.add(Rule(fault=Fault.SLOW_BODY, verb=Verb.PUT, pause_ms=20, pieces=5))
    started = time.monotonic()
    assert S3.create(server, "k", b"1").status == 200
    assert time.monotonic() - started >= 0.1


def test_a_dribble_slower_than_the_client_waits_is_a_timeout(server: RunningServer) -> None:
    S3.create(server, "k", b"0123456789")
    server.script.add(Rule(fault=Fault.SLOW_BODY, verb=Verb.GET, pause_ms=500))
    with pytest.raises(TimeoutError):
        S3.read(server, "k", timeout_s=0.1)


@every_dialect
def test_a_hang_gives_no_answer_whether_it_applied_or_not(
    server: RunningServer, wire: Wire
) -> None:
    server.script.add(
        Rule(fault=Fault.HANG, key="stored"),
        Rule(fault=Fault.HANG, key="lost", applied=False),
    )
    for key in ("stored", "lost"):
        with pytest.raises(TimeoutError):
            wire.create(server, key, b"1", timeout_s=0.3)
    assert list(server.objects(BUCKET)) == ["stored"]


@every_dialect
def test_a_rival_comes_right_after_the_fault_and_finds_what_was_applied(
    server: RunningServer, wire: Wire
) -> None:
    server.script.add(
        Rule(fault=Fault.UNAVAILABLE_BEFORE, key="lost", times=1, rival=b"rival"),
        Rule(fault=Fault.ERROR_AFTER, key="stored", times=1, rival=b"rival"),
    )
    assert says(wire.create(server, "lost", b"1"), wire.unavailable)
    assert says(wire.create(server, "stored", b"1"), wire.internal)
    assert (stored(server, "lost"), stored(server, "stored")) == (b"rival", b"1")
    assert says(wire.create(server, "lost", b"1"), wire.exists)


def test_a_server_with_hanging_connections_stops_at_once() -> None:
    started = time.monotonic()
    with running_server() as server:
        server.script.add(Rule(fault=Fault.HANG))
        with pytest.raises(TimeoutError):
            S3.create(server, "k", b"1", timeout_s=0.1)
    assert time.monotonic() - started < 2


def test_requests_are_counted_by_verb_and_outcome(server: RunningServer) -> None:
    server.script.add(Rule(fault=Fault.ERROR_AFTER, key="bad"))
    S3.create(server, "k", b"1")
    S3.create(server, "k", b"1")
    S3.create(server, "bad", b"1")
    S3.read(server, "k")
    S3.read(server, "absent")
    assert server.counts() == {
        ("put", "200"): 1,
        ("put", "412"): 1,
        ("put", "error_after"): 1,
        ("get", "200"): 1,
        ("get", "404"): 1,
    }


def test_what_no_dialect_knows_is_refused_and_not_guessed(server: RunningServer) -> None:
    copy = {"x-amz-copy-source": "bucket/other"}
    assert send(server, "PUT", f"/{BUCKET}/k", b"", copy).status == 501
    assert send(server, "GET", f"/{BUCKET}/k?versionId=1").status == 501
    assert send(server, "GET", f"/{BUCKET}?versions").status == 501
    assert send(server, "PUT", f"/_azure/account/{BUCKET}/k", b"1").status == 501
    assert send(server, "GET", f"/_gcs/storage/v1/b/{BUCKET}/o?endOffset=a").status == 501
    assert server.objects(BUCKET) == {}
