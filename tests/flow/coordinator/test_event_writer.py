"""Appending events: the outcome is known, success or failure."""

import pytest

from arco.core.errors import Denied, Invalid, Unavailable
from arco.core.scope import Scope
from arco.events.registry import DOMAINS
from arco.events.task import TaskLost, TaskStarted
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.events import run_event
from arco.flow.coordinator.ports import RunEvent
from arco.ledger.writer import DomainWriters
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.coordinator.coordinator_setup import in_virtual_time
from tests.flow.coordinator.ledger_reader import LedgerReader
from tests.ledger.simulated import Calm
from tests.sim.faults import Faults
from tests.sim.store import SimBackend


def _started(task_id: str, **also: str) -> RunEvent:
    payload = TaskStarted(execution_id="run", task_id=task_id, **also)  # type: ignore[arg-type]
    return run_event("task_started", f"run:{task_id}", "run", payload)


@in_virtual_time
async def test_an_append_of_unknown_outcome_is_repeated_until_it_is_known(calm: Calm) -> None:
    facts = LedgerEventWriter(DomainWriters(calm.store(), DOMAINS))
    await facts.append([_started("a")])
    calm.objects.faults = Faults(unanswered=1.0)
    appending = calm.runtime.tasks.spawn(facts.append([_started("b")]))
    await calm.clock.sleep(300_000)
    assert not appending.done()
    calm.objects.faults = Faults()
    await appending.wait()
    rows = await LedgerReader(calm.store(), {}).rows("tasks")
    assert [row["task_id"] for row in rows] == ["a", "b"]


class _Closed(SimBackend):
    """A store that refuses to create, at once and clearly."""

    async def create(self, key: str, body: bytes) -> None:

        raise Denied("not today")


@in_virtual_time
async def test_a_definite_failure_is_raised(calm: Calm) -> None:

    backend = _Closed(calm.objects, calm.incarnation)
    store = Store(backend, calm.runtime, scope=Scope(), role=Role.API)
    with pytest.raises(Denied):
        await LedgerEventWriter(DomainWriters(store, DOMAINS)).append([_started("a")])
    writers = DomainWriters(calm.store(), DOMAINS)
    await writers.close()
    with pytest.raises(Unavailable):
        await LedgerEventWriter(writers).append([_started("a")])


@in_virtual_time
async def test_an_invalid_event_is_not_appended(calm: Calm) -> None:
    facts = LedgerEventWriter(DomainWriters(calm.store(), DOMAINS))
    with pytest.raises(Invalid):
        await facts.append([_started("x" * 300)])
    assert calm.requests() == 0


@in_virtual_time
async def test_times_do_not_decrease_when_the_clock_goes_back(calm: Calm) -> None:
    facts = LedgerEventWriter(DomainWriters(calm.store(), DOMAINS))
    place = {"table_id": "t", "partition_key": "ds=1"}
    await facts.append([_started("a", **place)])
    calm.wall.jump(-3_000_000)
    lost = TaskLost(execution_id="run", task_id="a", table_id="t", partition_key="ds=1")
    await facts.append([run_event("task_lost", "lost:a", "run", lost)])
    [row] = await LedgerReader(calm.store(), {}).rows("partitions")
    assert row["status"] == "FAILED"


@in_virtual_time
async def test_a_large_batch_is_appended_in_parts(calm: Calm) -> None:
    facts = LedgerEventWriter(DomainWriters(calm.store(), DOMAINS))
    long = "y" * 60_000
    events = [
        run_event(
            "task_lost",
            f"lost:{number}",
            "run",
            TaskLost(execution_id="run", task_id=f"t{number:03d}", reason=long),
        )
        for number in range(400)
    ]
    await facts.append(events)
    rows = await LedgerReader(calm.store(), {}).rows("tasks")
    assert len(rows) == 400
