"""A process that slept past all that is kept, at any call of a commit, does no harm when it wakes."""

import pytest

from .catalog_mutants import SLEEP_MUTANTS
from .mutants import Mutant
from .sleep_points import survey_sleeps


@pytest.mark.parametrize("name", ["create_table", "update_table", "drop_schema"])
def test_a_sleep_at_any_storage_call_leaves_nothing_wrong(name: str) -> None:
    points, wrong = survey_sleeps(name)
    print(f"{name}: {points} sleeps: {len(wrong)} violations")
    assert points >= 25
    assert wrong == []


@pytest.mark.sim
@pytest.mark.parametrize("mutant", SLEEP_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_rule_that_is_taken_out_is_missed_by_some_sleeper(mutant: Mutant) -> None:
    with mutant.applied():
        _, wrong = survey_sleeps("create_table")
    assert wrong, f"{mutant.rule} can be taken out unnoticed"
