"""The memory for ended runs is bounded by their weight."""

from collections.abc import Iterable

import pytest

from arco.flow.coordinator import state
from arco.flow.plan.plan import Plan, ReadPartitions
from tests.flow.coordinator.plans import chain, plan, run_request, task
from tests.flow.coordinator.rig import Rig, run_scenario


async def _ran(rig: Rig, plans: Iterable[Plan]) -> None:
    for number, made in enumerate(plans):
        run = await rig.coordinator.submit(run_request(made, f"k{number}"))
        for leased in await rig.lease():
            await rig.complete(leased)
        await rig.over(run.run_id)


def _kept(rig: Rig) -> int:
    return len(rig.coordinator._state.ended_runs)


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

    async def scenario(rig: Rig) -> None:
        await _ran(rig, [made] * 25)
        assert _kept(rig) == kept

    run_scenario(scenario)


def test_the_last_ended_run_is_always_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_MAX_ENDED_WEIGHT", 1)

    async def scenario(rig: Rig) -> None:
        await _ran(rig, [chain(1)] * 3)
        assert _kept(rig) == 1

    run_scenario(scenario)
