"""The way into the ledger: known to be stored, or known not to be."""

import pytest

from arco.core.errors import Denied, Invalid, Unavailable
from arco.core.scope import Scope
from arco.events.registry import DOMAINS
from arco.events.task import TaskLost, TaskStarted
from arco.flow.run.events import fact
from arco.flow.run.facts import LedgerFacts
from arco.flow.run.ports import Fact
from arco.ledger.writers import Writers
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.run.reading import LedgerReader
from tests.ledger.simulated import Calm, simulate
from tests.sim.faults import Faults
from tests.sim.store import SimBackend


def _started(task_id: str, **also: str) -> Fact:
    payload = TaskStarted(execution_id="run", task_id=task_id, **also)  # type: ignore[arg-type]
    return fact("task_started", f"run:{task_id}", "run", payload)


def test_an_append_of_unknown_outcome_is_repeated_until_it_is_known() -> None:
    async def tell(calm: Calm) -> None:
        facts = LedgerFacts(Writers(calm.store(), DOMAINS))
        await facts.append([_started("a")])
        calm.objects.faults = Faults(unanswered=1.0)
        appending = calm.runtime.tasks.spawn(facts.append([_started("b")]))
        await calm.clock.sleep(300_000)
        assert not appending.done()
        calm.objects.faults = Faults()
        await appending.wait()
        rows = await LedgerReader(calm.store(), {}).rows("tasks")
        assert [row["task_id"] for row in rows] == ["a", "b"]

    simulate(tell)


class _Closed(SimBackend):
    """A store that refuses to create, at once and clearly."""

    async def create(self, key: str, body: bytes) -> None:

        raise Denied("not today")


def test_a_definite_no_is_passed_on() -> None:
    async def tell(calm: Calm) -> None:

        backend = _Closed(calm.objects, calm.life)
        store = Store(backend, calm.runtime, scope=Scope(), role=Role.API)
        with pytest.raises(Denied):
            await LedgerFacts(Writers(store, DOMAINS)).append([_started("a")])
        writers = Writers(calm.store(), DOMAINS)
        await writers.close()
        with pytest.raises(Unavailable):
            await LedgerFacts(writers).append([_started("a")])

    simulate(tell)


def test_what_no_reader_could_fold_is_not_told() -> None:
    async def tell(calm: Calm) -> None:
        facts = LedgerFacts(Writers(calm.store(), DOMAINS))
        with pytest.raises(Invalid):
            await facts.append([_started("x" * 300)])
        assert calm.requests() == 0

    simulate(tell)


def test_later_is_later_though_the_clock_goes_back() -> None:
    async def tell(calm: Calm) -> None:
        facts = LedgerFacts(Writers(calm.store(), DOMAINS))
        place = {"table_id": "t", "partition_key": "ds=1"}
        await facts.append([_started("a", **place)])
        calm.wall.jump(-3_000_000)
        lost = TaskLost(execution_id="run", task_id="a", table_id="t", partition_key="ds=1")
        await facts.append([fact("task_lost", "lost:a", "run", lost)])
        [row] = await LedgerReader(calm.store(), {}).rows("partitions")
        assert row["status"] == "FAILED"

    simulate(tell)


def test_a_large_batch_is_told_in_parts() -> None:
    async def tell(calm: Calm) -> None:
        facts = LedgerFacts(Writers(calm.store(), DOMAINS))
        long = "y" * 60_000
        told = [
            fact(
                "task_lost",
                f"lost:{number}",
                "run",
                TaskLost(execution_id="run", task_id=f"t{number:03d}", reason=long),
            )
            for number in range(400)
        ]
        await facts.append(told)
        rows = await LedgerReader(calm.store(), {}).rows("tasks")
        assert len(rows) == 400

    simulate(tell)
