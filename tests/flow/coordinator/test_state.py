"""The memory for ended runs is bounded by their weight."""

from collections.abc import Iterable

import pytest

from arco.flow.coordinator import state
from arco.flow.plan.plan import Plan, ReadPartitions
from tests.flow.coordinator.coordinator_setup import CoordinatorSetup, run_scenario
from tests.flow.coordinator.plans import chain, plan, run_request, task


async def _ran(setup: CoordinatorSetup, plans: Iterable[Plan]) -> None:
    for number, made in enumerate(plans):
        run = await setup.coordinator.submit(run_request(made, f"k{number}"))
        for leased in await setup.lease():
            await setup.complete(leased)
        await setup.over(run.run_id)


def _kept(setup: CoordinatorSetup) -> int:
    return len(setup.coordinator._state.ended_runs)


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (plan(task("a"), reads=[ReadPartitions(table="t", partitions=tuple("abcdefgh"))]), 2),
        (chain(1), 10),
        (plan(), 20),
    ],
    ids=["that read much", "of one task", "of no tasks"],
)
def test_ended_runs_are_dropped_by_weight(
    monkeypatch: pytest.MonkeyPatch, made: Plan, kept: int
) -> None:
    monkeypatch.setattr(state, "_MAX_ENDED_WEIGHT", 20)

    async def scenario(setup: CoordinatorSetup) -> None:
        await _ran(setup, [made] * 25)
        assert _kept(setup) == kept

    run_scenario(scenario)


def test_the_last_ended_run_is_always_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_MAX_ENDED_WEIGHT", 1)

    async def scenario(setup: CoordinatorSetup) -> None:
        await _ran(setup, [chain(1)] * 3)
        assert _kept(setup) == 1

    run_scenario(scenario)
