"""A handful of seeds; `make differential` runs thousands, and some hundreds on Spark."""

import pytest

from tests.differential.__main__ import main
from tests.differential.history import histories_of
from tests.differential.seed import check_seed


@pytest.mark.parametrize("seed", range(3))
def test_all_ways_of_a_history_give_the_same_rows(seed: int) -> None:
    result = check_seed(seed, everything=True)
    assert result.problems == []
    assert result.tally["rebuilds"] == 6
    assert result.tally["cycles"] > 6


def test_a_seed_is_the_same_history_each_time() -> None:
    assert histories_of(7) == histories_of(7)
    assert histories_of(7) != histories_of(8)


def test_histories_have_all_that_makes_them_hard() -> None:
    tally = sum((check_seed(seed).tally for seed in range(24, 48)), start=check_seed(24).tally)
    for hard in ("lines that nobody can fold", "late events", "merges", "rebuilds", "fresh reads"):
        assert tally[hard] > 0, hard


def test_the_command_tells_what_it_has_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--first", "100", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "in process: 4 seeds" in told
    assert "12 histories" in told


def test_the_command_names_the_seed_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.differential.mutants import MUTANTS

    with MUTANTS["fold that keeps the first"].applied():
        assert main(["--seed", "3"]) == 1
    told = capsys.readouterr().out
    assert "FAILED 1: [3]" in told
    assert "replay: python -m tests.differential --seed 3" in told
