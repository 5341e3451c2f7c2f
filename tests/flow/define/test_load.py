import sys
from pathlib import Path

import pytest

from arco.core.errors import NotFound
from arco.flow.define import Retry, find_problems, load_project
from tests.flow.define.projects import asset_of, load, problem_lines, write


def number_of(factor: int) -> dict[str, str]:
    return {
        "shared/prices.py": f"FACTOR = {factor}\ndef price(): return FACTOR\n",
        "pipelines/orders.py": """
            from shared.prices import price
            from shared import prices
            from pipelines import near
            from . import near as same
            from .near import ONE
            import shared.prices

            @asset("silver.orders")
            def orders():
                from shared.late import TWICE
                assert near is same and ONE == 1 and shared.prices is prices
                return price() * TWICE
        """,
        "pipelines/near.py": "ONE = 1\n",
        "shared/late.py": "from shared.prices import FACTOR\nTWICE = 2 * FACTOR\n",
    }


def test_two_projects_with_the_same_modules_do_not_meet(tmp_path: Path) -> None:
    one = load(tmp_path / "one", number_of(3))
    two = load(tmp_path / "two", number_of(5))
    assert find_problems(one) == find_problems(two) == []
    functions = [asset_of(each, "silver.orders").function for each in (one, two)]
    assert [each() for each in functions if each] == [18, 50]


def test_loading_leaves_sys_path_and_sys_modules_as_they_were(tmp_path: Path) -> None:
    marker = type(sys)("shared")
    sys.modules["shared"] = marker
    try:
        path = list(sys.path)
        files = number_of(3) | {"pipelines/path.py": "import sys\nsys.path.append('/nowhere')\n"}
        project = load(tmp_path, files)
        assert sys.path == path
        assert sys.modules["shared"] is marker
        function = asset_of(project, "silver.orders").function
        assert function is not None
        assert function() == 18
        assert sys.modules["shared"] is marker
        left = [name for name in sys.modules if name.startswith(("pipelines", "shared."))]
        assert left == []
    finally:
        del sys.modules["shared"]


def test_an_edit_is_seen_when_loading_again_and_not_before(tmp_path: Path) -> None:
    before = load(tmp_path, number_of(3))
    write(tmp_path, number_of(4))
    after = load_project(tmp_path)
    old, new = (asset_of(each, "silver.orders").function for each in (before, after))
    assert old is not None
    assert new is not None
    assert (old(), new()) == (18, 32)
    assert old is not new


def test_classes_that_look_themselves_up_work(tmp_path: Path) -> None:
    files = {
        "rows.py": (
            "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "from typing import ClassVar\n@dataclass\nclass Row:\n    amount: int\n"
            "    other: ClassVar[int] = 2\n"
        ),
        "pipelines/a.py": "from rows import Row\n@asset('a.a')\ndef a():\n    return Row(1)\n",
    }
    project = load(tmp_path, files)
    assert find_problems(project) == []
    function = asset_of(project, "a.a").function
    assert function is not None
    assert str(function()) == "Row(amount=1)"


def test_what_is_declared_outside_of_loading_is_in_no_project(tmp_path: Path) -> None:
    project = load(tmp_path, {"pipelines/a.py": "@asset('a.a')\ndef a(): return 1\n"})
    assert [each.name for each in project.assets] == ["default.a.a"]
    reloaded = load_project(tmp_path)
    assert [each.name for each in reloaded.assets] == ["default.a.a"]


def test_a_library_of_the_same_name_as_a_folder_of_queries_is_still_found(tmp_path: Path) -> None:
    text = "import json\n@asset('a.a')\ndef a(): return json.dumps([1])\n"
    project = load(tmp_path, {"pipelines/a.py": text, "json/note.txt": "", "json/x.py": ""})
    function = asset_of(project, "a.a").function
    assert function is not None
    assert function() == "[1]"


def test_settings_are_the_defaults_of_all_definitions(tmp_path: Path) -> None:
    toml = """
        name = "shop"
        paths = ["flows", "more/one.py"]
        [defaults]
        pool = "spark"
        format = "iceberg"
        tags = ["shop"]
        owner = "group:shop"
        retries = {times = 2, delay = "10s"}
    """
    head = "from arco.flow.define import asset\n"
    files = {
        "arco.toml": toml,
        "flows/a.py": head + "@asset('a.a')\ndef a(): return 1\n",
        "more/one.py": head
        + "@asset('a.b', pool='small', tags=['x'], owner='ana')\ndef b(): return 1\n",
        "more/other.py": "raise RuntimeError('not a definition')\n",
    }
    project = load(tmp_path, files)
    assert find_problems(project) == []
    assert project.name == "shop"
    a, b = asset_of(project, "a.a"), asset_of(project, "a.b")
    assert (a.pool, a.format, a.tags) == ("spark", "iceberg", ("shop",))
    assert a.retries == Retry(2, delay="10s")
    assert (b.pool, b.tags) == ("small", ("shop", "x"))
    assert (a.owner, b.owner) == ("group:shop", "ana")


def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_project(tmp_path / "nowhere")


FILES = {"pipelines/p.py": ""}


def test_pools_have_names_and_slots(tmp_path: Path) -> None:
    toml = "[pools]\nspark = 4\nsmall = 1\n"
    assert load(tmp_path, {**FILES, "arco.toml": toml}).pools == {"spark": 4, "small": 1}


def test_slots_that_are_none_are_reported_with_their_line(tmp_path: Path) -> None:
    toml = '[pools]\nspark = 0\nsmall = "two"\nodd = true\nfine = 2\n'
    assert problem_lines(tmp_path, {**FILES, "arco.toml": toml}) == [
        "arco.toml:2: the pool 'spark' has a number of slots from 1 on, not 0",
        "arco.toml:3: the pool 'small' has a number of slots from 1 on, not 'two'",
        "arco.toml:4: the pool 'odd' has a number of slots from 1 on, not True",
    ]
    assert problem_lines(tmp_path, {**FILES, "arco.toml": "pools = 3\n"}) == [
        "arco.toml:1: [pools] is a table of names and slots"
    ]


def test_a_pool_without_slots_is_reported_where_others_have_some(tmp_path: Path) -> None:
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
    assert problem_lines(tmp_path, {"pipelines/p.py": text, "arco.toml": toml}) == [
        "arco.toml:2: the pool 'big' is not in [pools] of arco.toml: give it slots there",
        "pipelines/p.py:1: the pool 'smal' is not in [pools] of arco.toml: is 'small' meant?",
        "pipelines/p.py:3: the pool 'gpu' is not in [pools] of arco.toml: give it slots there",
        "pipelines/p.py:7: the pool is a text, not 4",
    ]


def test_where_no_pool_has_slots_any_name_says_which_workers_take_it(tmp_path: Path) -> None:
    text = "@asset('a.one', pool='gpu')\ndef one(): return 1\n"
    assert problem_lines(tmp_path, {"pipelines/p.py": text}) == []


def test_a_pool_with_wrong_slots_is_reported_once(tmp_path: Path) -> None:
    text = "@asset('a.one', pool='spark')\ndef one(): return 1\n"
    toml = "[pools]\nspark = 0\nfine = 2\n"
    assert problem_lines(tmp_path, {"pipelines/p.py": text, "arco.toml": toml}) == [
        "arco.toml:2: the pool 'spark' has a number of slots from 1 on, not 0"
    ]
