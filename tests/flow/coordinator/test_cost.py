"""The cost of a task: two creates, and nothing that grows with the plan."""

import pytest

from arco.flow.plan.plan import Plan
from tests.flow.coordinator.coordinator_setup import CoordinatorSetup, in_virtual_time
from tests.flow.coordinator.plans import chain, diamond, fan, run_request
from tests.ledger.simulated import Calm, simulate


@pytest.mark.parametrize("made", [chain(30), fan(30), diamond(30)], ids=["chain", "fan", "diamond"])
def test_a_task_without_tables_takes_two_creates_at_most(made: Plan) -> None:
    async def scenario(calm: Calm) -> None:
        setup = CoordinatorSetup(calm.store, calm.runtime)
        await setup.coordinator.begin()
        view = await setup.coordinator.submit(run_request(made))
        before = calm.requests()
        while True:
            leased = await setup.request(run_id=view.run_id, wait_ms=1_000)
            if leased.is_over:
                break
            await setup.runtime.tasks.gather(*(setup.complete(each) for each in leased.tasks))
        spent = calm.requests() - before
        assert spent <= 2 * len(made.tasks) + 2  # and the end of the run, and a hint
        await setup.coordinator.close()

    simulate(scenario)


@in_virtual_time
async def test_dispatching_a_task_does_not_visit_the_others(calm: Calm) -> None:
    """Counted in looks at the state of tasks, as clocks are no measure."""

    setup = CoordinatorSetup(calm.store, calm.runtime)
    await setup.coordinator.begin()
    view = await setup.coordinator.submit(run_request(fan(2_000)))
    run = setup.coordinator._state.runs[view.run_id]
    looks = _Counting(run.state.tasks)
    run.state.tasks = looks
    [root] = await setup.lease(slots=1)
    assert looks.count < 50
    await setup.complete(root)
    looks.count = 0
    await setup.lease(slots=1)
    assert looks.count < 50
    await setup.coordinator.close()


class _Counting(dict):  # type: ignore[type-arg]
    """Tasks by key, and how often one was asked for."""

    count = 0

    def __getitem__(self, key: object) -> object:
        self.count += 1
        return super().__getitem__(key)

    def values(self) -> object:  # type: ignore[override]
        self.count += len(self)
        return super().values()

    def items(self) -> object:  # type: ignore[override]
        self.count += len(self)
        return super().items()
