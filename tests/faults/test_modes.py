"""The modes: a server that ignores conditions, and one that limits changes to a name."""

import pytest

from tests.faults.backend import Backend
from tests.faults.objects import Condition, StoredObject
from tests.faults.operation import Delete, Put
from tests.faults.result import Deleted, Refusal
from tests.faults.running import running_server
from tests.faults.script import Modes
from tests.faults.wire import BUCKET, WIRES, Wire, send

every_dialect = pytest.mark.parametrize("wire", WIRES, ids=str)


@every_dialect
def test_a_server_that_ignores_conditions_creates_twice(wire: Wire) -> None:
    with running_server(ignore_conditions=True) as server:
        assert wire.create(server, "k", b"first").status == wire.created
        assert wire.create(server, "k", b"second").status == wire.created
        assert server.objects(BUCKET)["k"].body == b"second"


@every_dialect
def test_a_second_change_to_a_name_within_the_second_is_throttled(wire: Wire) -> None:
    with running_server(writes_per_second_per_name=1.0) as server:
        assert wire.create(server, "k", b"1").status == wire.created
        assert send(server, "DELETE", f"/{BUCKET}/k").status == 429
        assert send(server, "PUT", f"/{BUCKET}/k", b"2").status == 429
        assert wire.create(server, "another", b"1").status == wire.created
        assert server.objects(BUCKET)["k"].body == b"1"


class Clock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limited(clock: Clock) -> Backend:
    """A store that takes one change a second to a name."""
    return Backend(Modes(writes_per_second_per_name=1.0), clock)


def overwrite(body: bytes = b"1") -> Put:
    return Put(bucket=BUCKET, key="k", body=body)


def test_a_name_may_change_again_after_its_second(limited: Backend, clock: Clock) -> None:
    assert isinstance(limited.apply(overwrite()), StoredObject)
    clock.now_s += 0.99
    assert limited.apply(overwrite()) is Refusal.THROTTLED
    clock.now_s += 0.01
    assert isinstance(limited.apply(overwrite()), StoredObject)


def test_a_change_that_is_throttled_does_not_postpone_the_next(
    limited: Backend, clock: Clock
) -> None:
    limited.apply(overwrite())
    for _ in range(9):
        clock.now_s += 0.1
        assert limited.apply(overwrite()) is Refusal.THROTTLED
    clock.now_s += 0.11
    assert isinstance(limited.apply(overwrite()), StoredObject)


def test_a_create_that_fails_its_condition_does_not_count_as_a_change(
    limited: Backend, clock: Clock
) -> None:
    create = Put(bucket=BUCKET, key="k", body=b"1", condition=Condition(if_absent=True))
    limited.apply(create)
    assert limited.apply(create) is Refusal.ALREADY_EXISTS
    clock.now_s += 1
    assert limited.apply(create) is Refusal.ALREADY_EXISTS
    assert isinstance(limited.apply(overwrite()), StoredObject)


def test_a_delete_is_a_change(limited: Backend, clock: Clock) -> None:
    limited.apply(overwrite())
    delete = Delete(bucket=BUCKET, keys=("k",))
    assert limited.apply(delete) is Refusal.THROTTLED
    clock.now_s += 1
    assert limited.apply(delete) == Deleted(frozenset())
    assert limited.apply(overwrite()) is Refusal.THROTTLED
