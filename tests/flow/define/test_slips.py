"""What beginners write, and what they are told instead of a wonder at run time."""

from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.flow.define import asset
from tests.flow.define.writing import load, told


def test_a_decorator_without_parentheses_is_told_with_its_line(tmp_path: Path) -> None:
    text = """
    @asset
    def one(): return 1

    @task
    def two(): return 2

    @check
    def three(rows): return True
    """
    assert told(tmp_path, {"pipelines/a.py": text}) == [
        "pipelines/a.py:1: @asset above 'one' declares nothing: write @asset('gold.spend')",
        "pipelines/a.py:4: @task above 'two' declares nothing: write @task(writes=['ml.model'])",
        "pipelines/a.py:7: @check above 'three' declares nothing: write @check('silver.orders')",
    ]


def test_without_a_project_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(Invalid, match="write @asset"):
        asset(lambda: 1)  # type: ignore[arg-type]


def test_a_function_that_nobody_would_carry_on_is_told(tmp_path: Path) -> None:
    text = """
    @asset("a.one")
    async def one(): return 1

    @task()
    async def two(): yield 2

    @check("a.one")
    async def three(rows): return True

    @task()
    def four(): yield 4
    """
    wait = "is an `async def`, which is never awaited: write a plain `def`"
    assert told(tmp_path, {"pipelines/a.py": text}) == [
        f"pipelines/a.py:1: 'one' {wait}",
        f"pipelines/a.py:4: 'two' {wait}",
        f"pipelines/a.py:7: 'three' {wait}",
        "pipelines/a.py:10: 'four' has a `yield`, so calling it does nothing: write `return`",
    ]


def test_a_check_of_a_long_rule_has_a_name_that_events_can_carry(tmp_path: Path) -> None:
    text = """
    rule = " OR ".join(f"(state = 's{n}' AND amount >= {n})" for n in range(20))

    @asset("a.one", checks=[c.expr(rule), c.expr(rule + " OR true"), c.expr("x > 0")])
    def one(): ...
    """
    *long, short = [each.name for each in load(tmp_path, {"pipelines/a.py": text}).checks]
    assert ([len(each) for each in long], short) == ([255, 255], "expr_x > 0")
    assert len({*long}) == 2
    assert all(each.startswith("expr_(state = 's0' AND amount >= 0) OR") for each in long)


def test_a_name_that_is_too_long_for_a_check_is_told(tmp_path: Path) -> None:
    text = """
    @asset("a.one", checks=[c.unique("id", name="x" * 256), c.not_null("id", name="y" * 255)])
    def one(): ...

    @check("a.one", name="z" * 256)
    def two(rows): return True
    """
    wrong = "the name of a check has at most 255 characters"
    assert told(tmp_path, {"pipelines/a.py": text}) == [
        f"pipelines/a.py:1: {wrong}: {'x' * 256!r}",
        f"pipelines/a.py:4: {wrong}: {'z' * 256!r}",
    ]


def test_what_is_no_check_is_told_with_what_is_one(tmp_path: Path) -> None:
    text = """
    @asset("a.one", checks=["x", c.not_null, c.unique("id")])
    def one(): return 1
    @asset("a.two", checks=c.unique("id"))
    def two(): return 2
    @asset("a.three", checks="unique")
    def three(): return 3
    source("a.four", checks=[7])
    """
    files = {"pipelines/a.py": text}
    a_check = (
        "a check is a call such as c.not_null('order_id'), or a function below"
        " @check('silver.orders')"
    )
    a_list = "checks is a list: write checks=[c.not_null('order_id')]"
    assert told(tmp_path, files) == [
        f"pipelines/a.py:1: {a_check}, not 'x'",
        f"pipelines/a.py:1: {a_check}, not the function 'not_null'",
        f"pipelines/a.py:3: {a_list}",
        f"pipelines/a.py:5: {a_list}",
        f"pipelines/a.py:7: {a_check}, not 7",
    ]
    assert [each.name for each in load(tmp_path, files).checks] == ["unique_id"]


def test_a_merge_that_is_not_called_is_told_how_to_write_it(tmp_path: Path) -> None:
    text = "@asset('a.one', mode=merge)\ndef one(): return 1\n"
    assert told(tmp_path, {"pipelines/a.py": text}) == [
        "pipelines/a.py:1: mode 'merge' needs columns: write mode=merge(on=['order_id'])"
    ]
