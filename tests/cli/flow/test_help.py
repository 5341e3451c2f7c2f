"""The examples of `--help`: pasted in the folder of the shop they name what is there."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from arco.cli.flow import explain, plan, run, worker
from arco.flow.define import load_project
from tests.cli.serving import Served, serving

SHOP = Path(__file__).parents[3] / "examples" / "shop"


def examples(text: str) -> list[list[str]]:
    """The commands of a help text, without what is said of them."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  arco ")]
    return [shlex.split(re.split(r" {2,}", line)[0])[1:] for line in lines]


def planned(words: list[str]) -> list[str]:
    """What `arco plan` is asked for the selection of a run."""
    pairs = pairwise(words)
    selection = [word for word in words[1:2] if not word.startswith("-")]
    return selection + [word for pair in pairs if pair[0] == "--partitions" for word in pair]


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("help") / "store") as served:
        yield served


@pytest.fixture(autouse=True)
def _work_in_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SHOP)


@pytest.mark.parametrize(
    "words", examples(plan._EXAMPLES) + examples(explain._EXAMPLES), ids=" ".join
)
def test_an_example_that_asks_is_answered(arco: Served, words: list[str]) -> None:
    result = arco.arco(*words)
    assert (result.stderr, result.returncode) == ("", 0)


@pytest.mark.parametrize("words", examples(run._EXAMPLES), ids=" ".join)
def test_what_an_example_runs_can_be_planned(arco: Served, words: list[str]) -> None:
    result = arco.arco("plan", *planned(words))
    assert (result.stderr, result.returncode) == ("", 0)


def test_the_pools_of_the_examples_are_there() -> None:
    pools = {each.pool for each in load_project(SHOP).makers()}
    [words] = [each for each in examples(worker._EXAMPLES) if "--pool" in each]
    assert words[words.index("--pool") + 1] in pools
