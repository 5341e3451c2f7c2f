"""A handful of seeds; `make differential` runs thousands, and some hundreds on Spark."""

from collections import Counter

import pytest

from tests.differential.__main__ import main
from tests.differential.history import histories_of
from tests.differential.seed import check_seed

_HARD = ("lines that cannot be folded", "late events", "merges", "rebuilds", "fresh reads")


def test_all_ways_of_a_history_give_the_same_rows() -> None:
    tally: Counter[str] = Counter()
    for seed in range(2):
        result = check_seed(seed, everything=True)
        assert result.problems == []
        tally += result.tally
    for hard in _HARD:
        assert tally[hard] > 3, hard


def test_a_seed_is_the_same_history_each_time() -> None:
    assert histories_of(7) == histories_of(7)
    assert histories_of(7) != histories_of(8)


def test_the_command_reports_what_it_has_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "100", "--jobs", "1"]) == 0
    output = capsys.readouterr().out
    assert "in process: 2 seeds" in output
    assert "6 histories" in output


def test_the_command_names_the_seed_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.differential.mutants import MUTANTS

    with MUTANTS["fold that keeps the first"].applied():
        assert main(["--seed", "3"]) == 1
    output = capsys.readouterr().out
    assert "FAILED 1: [3]" in output
    assert "replay: python -m tests.differential --seed 3" in output


def test_the_command_does_not_pass_for_nothing() -> None:
    with pytest.raises(SystemExit):
        main(["--seeds", "0"])
