from pathlib import Path

from tests.flow.define.writing import load, told

FILES = {"pipelines/p.py": ""}


def test_pools_have_names_and_slots(tmp_path: Path) -> None:
    toml = "[pools]\nspark = 4\nsmall = 1\n"
    assert load(tmp_path, {**FILES, "arco.toml": toml}).pools == {"spark": 4, "small": 1}


def test_slots_that_are_none_are_told_with_their_line(tmp_path: Path) -> None:
    toml = '[pools]\nspark = 0\nsmall = "two"\nodd = true\nfine = 2\n'
    assert told(tmp_path, {**FILES, "arco.toml": toml}) == [
        "arco.toml:2: the pool 'spark' has a number of slots from 1 on, not 0",
        "arco.toml:3: the pool 'small' has a number of slots from 1 on, not 'two'",
        "arco.toml:4: the pool 'odd' has a number of slots from 1 on, not True",
    ]
    assert told(tmp_path, {**FILES, "arco.toml": "pools = 3\n"}) == [
        "arco.toml:1: [pools] is a table of names and slots"
    ]
