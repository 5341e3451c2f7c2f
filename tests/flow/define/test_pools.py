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


def test_a_pool_without_slots_is_told_where_others_have_some(tmp_path: Path) -> None:
    text = """
    @asset("a.one", pool="smal")
    def one(): return 1
    @task(pool="gpu")
    def two(): return 2
    @asset("a.three", pool="default")
    def three(): return 3
    @asset("a.four", pool=4)
    def four(): return 4
    """
    toml = '[defaults]\npool = "big"\n[pools]\nsmall = 2\n'
    assert told(tmp_path, {"pipelines/p.py": text, "arco.toml": toml}) == [
        "arco.toml:2: the pool 'big' is not in [pools] of arco.toml: give it slots there",
        "pipelines/p.py:1: the pool 'smal' is not in [pools] of arco.toml: is 'small' meant?",
        "pipelines/p.py:3: the pool 'gpu' is not in [pools] of arco.toml: give it slots there",
        "pipelines/p.py:7: the pool is a text, not 4",
    ]


def test_where_no_pool_has_slots_any_name_says_which_workers_take_it(tmp_path: Path) -> None:
    text = "@asset('a.one', pool='gpu')\ndef one(): return 1\n"
    assert told(tmp_path, {"pipelines/p.py": text}) == []


def test_a_pool_with_wrong_slots_is_told_once(tmp_path: Path) -> None:
    text = "@asset('a.one', pool='spark')\ndef one(): return 1\n"
    toml = "[pools]\nspark = 0\nfine = 2\n"
    assert told(tmp_path, {"pipelines/p.py": text, "arco.toml": toml}) == [
        "arco.toml:2: the pool 'spark' has a number of slots from 1 on, not 0"
    ]
