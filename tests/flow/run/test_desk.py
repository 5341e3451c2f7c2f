"""What the book keeps of runs that are over: bounded, by what they hold."""

from collections.abc import Iterable

import pytest

from arco.flow.plan.plan import Plan, ReadPartitions
from arco.flow.run import desk
from tests.flow.run.plans import chain, plan, task, wish
from tests.flow.run.rig import Rig, story


async def _ran(rig: Rig, plans: Iterable[Plan]) -> None:
    for number, made in enumerate(plans):
        run = await rig.book.submit(wish(made, f"k{number}"))
        for leased in await rig.lease():
            await rig.complete(leased)
        await rig.over(run.run_id)


def _kept(rig: Rig) -> int:
    return len(rig.book._desk.over)


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (plan(task("a"), reads=[ReadPartitions(table="t", partitions=tuple("abcdefgh"))]), 2),
        (chain(1), 10),
        (plan(), 20),
    ],
    ids=["that read much", "of one task", "of no tasks"],
)
def test_runs_that_are_over_are_let_go_of_by_all_that_they_hold(
    monkeypatch: pytest.MonkeyPatch, made: Plan, kept: int
) -> None:
    monkeypatch.setattr(desk, "_WEIGHT_KEPT", 20)

    async def tell(rig: Rig) -> None:
        await _ran(rig, [made] * 25)
        assert _kept(rig) == kept

    story(tell)


def test_one_run_is_kept_however_much_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_WEIGHT_KEPT", 1)

    async def tell(rig: Rig) -> None:
        await _ran(rig, [chain(1)] * 3)
        assert _kept(rig) == 1

    story(tell)
