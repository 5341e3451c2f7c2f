"""Figures 2 and 6: whatever call of an operation on tables a process dies at, nothing is wrong after."""

import pytest

from .crash_points import Bomb, Point
from .iceberg_crash import (
    PAIRED,
    SLEEP_MS,
    Trial,
    failures,
    operations,
    own_points,
    prepare,
    survey_singles,
)
from .iceberg_mutants import MUTANTS, POINT_MUTANTS

NAMES = list(operations(prepare()))


# What a request with a key asks for is what one without asks for, and more.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "commit with a key" else pytest.mark.sim)
        for name in NAMES
        if name.endswith("with a key")
    ],
)
def test_a_crash_at_any_storage_call_leaves_nothing_wrong(name: str) -> None:
    _, points, wrong = survey_singles(name)
    print(f"{name}: {points} crash points: {len(wrong)} violations")
    assert points >= 10
    assert wrong == []


@pytest.mark.sim
def test_a_create_that_sleeps_at_any_storage_call_is_not_answered_as_undone() -> None:
    _, points, wrong = survey_singles("create", SLEEP_MS)
    assert points >= 10
    assert wrong == []


def test_every_operation_has_its_crash_points_with_a_key_and_without() -> None:
    assert len(NAMES) == 23
    assert set(PAIRED) < set(NAMES)


def test_a_point_that_is_never_reached_is_noticed() -> None:
    prepared = prepare()
    operation, keyed = operations(prepared)["commit"]
    bomb = Bomb([Point("api", 10_000, after=False)])
    wrong = Trial(prepared, operation, bomb, keyed=keyed).run()
    assert wrong == ["no process reached api before call 10000"]


@pytest.mark.sim
@pytest.mark.parametrize("name", POINT_MUTANTS)
def test_a_rule_that_is_taken_out_is_missed_at_some_point(name: str) -> None:
    operation, sleep_ms = POINT_MUTANTS[name]
    points = own_points(operation)
    assert next(failures(operation, points, sleep_ms), None) is None
    with MUTANTS[name].applied():
        assert next(failures(operation, points, sleep_ms), None) is not None
