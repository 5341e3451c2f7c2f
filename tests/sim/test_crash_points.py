"""Figure 2: whatever call of whatever write operation a process dies at, nothing is lost or done twice."""

import pytest

from .crash_operations import operations, prepare
from .crash_points import PAIRED, Bomb, Point, Trial, rehearse, survey_singles
from .mutants import Mutant

NAMES = [operation.name for operation in operations(prepare())]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "create_table with a key" else pytest.mark.sim)
        for name in NAMES
    ],
)
def test_a_crash_at_any_storage_call_leaves_nothing_wrong(name: str) -> None:
    _, points, wrong = survey_singles(name)
    print(f"{name}: {points} crash points: {len(wrong)} violations")
    assert points >= 10
    assert wrong == []


def test_every_write_operation_has_its_crash_points() -> None:
    assert len(NAMES) == 17
    assert set(PAIRED) < set(NAMES)


def test_a_point_that_is_never_reached_is_noticed() -> None:
    prepared = prepare()
    operation = operations(prepared)[0]
    wrong = Trial(prepared, operation, Bomb([Point("api", 10_000, after=False)])).run()
    assert wrong == ["no process reached api before call 10000"]


def test_a_second_crash_is_counted_from_the_first() -> None:
    prepared = prepare()
    operation = next(each for each in operations(prepared) if "key" in each.name)
    [first, *_] = rehearse(prepared, operation, changes_only=True)
    after = rehearse(prepared, operation, (first,), changes_only=True)
    assert {point.process for point in after} == {"api", "compactor"}


@pytest.mark.sim
def test_a_rule_that_is_taken_out_is_missed_at_some_crash_point() -> None:
    mutant = Mutant(
        name="commit record under the bare number",
        rule="P21",
        target="arco.compactor.publisher:Publisher.publish",
        old="{number:020d}-{change.commit_ulid}.json",
        new="{number:020d}.json",
    )
    with mutant.applied():
        _, _, wrong = survey_singles("create_table")
    assert wrong
