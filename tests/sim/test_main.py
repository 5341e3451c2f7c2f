"""The simulator's door: surveys, replays, and the same run on every machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .__main__ import main
from .registry import SCENARIOS
from .world import World

ROOT = Path(__file__).parents[2]


def test_a_survey_prints_a_table_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--jobs", "2", "--scenario", "chain"]) == 0
    printed = capsys.readouterr()
    assert "acknowledged" in printed.out
    assert "3 of 3 runs, 0 failed" in printed.err


def test_a_survey_that_finds_something_fails_and_names_the_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["--scenario", "chain", "--mutant", "no floor"]
    assert main(["--seeds", "2", "--jobs", "1", *chosen]) == 1
    printed = capsys.readouterr().out
    command = 'python -m tests.sim --scenario chain --seed 1 --mutant "no floor"'
    assert f"replay: {command}" in printed
    assert "FAILED 2 of 2 runs: chain 0, chain 1" in printed
    assert main(["--seed", "1", *chosen]) == 1
    assert "VIOLATION" in capsys.readouterr().out


def test_a_replay_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.sim", "--seed", "5", "--scenario", "chain"]
    traces = {
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    assert b"chaos        ends" in traces.pop()


@pytest.mark.sim
def test_seeds_that_are_run_twice_have_the_same_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--jobs", "2", "--twice"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output == [f"{name}: 3 seeds x 2 runs: 3 identical trace hashes" for name in SCENARIOS]


class Dice:
    """A scenario that goes on from run to run, where only its seed should decide; an odd one does not."""

    name = "dice"
    runs = 0

    def build(self, world: World) -> None:
        Dice.runs += 1
        world.note("dice", f"rolls {Dice.runs if world.seed % 2 else 6}")

    def audit(self, world: World) -> list[str]:
        return []


def test_a_run_that_something_besides_its_seed_decides_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCENARIOS, "dice", Dice)
    chosen = ["--scenario", "dice", "--jobs", "1", "--twice"]
    assert main(["--seeds", "4", *chosen]) == 1
    output = capsys.readouterr().out
    assert "dice: 4 seeds x 2 runs: 2 identical trace hashes" in output
    assert "differs: python -m tests.sim --scenario dice --seed 1\n" in output
    assert "--seed 2" not in output


def test_one_seed_cannot_be_both_printed_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--seed", "1", "--twice"])
    assert "--seeds" in capsys.readouterr().err


def test_a_mutant_of_another_scenario_is_refused_with_the_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--scenario", "streams", "--mutant", "no floor"])
    assert "--scenario chain" in capsys.readouterr().err
