"""Problems of a project: what users write wrongly, and the message with file and line that they get."""

from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.flow.define import asset, find_problems
from tests.flow.define.projects import asset_of, load, problem_lines


def test_a_project_without_mistakes_has_no_problems(tmp_path: Path) -> None:
    text = "source('raw.a')\n@asset('b.b')\ndef b(a): return a\n"
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == []


def test_all_mistakes_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """
    @asset("orders")
    def one(): return 1

    @asset("a.two", mode="upsert", format="csv", retries=-1, timeout="long")
    def two(): return 2

    @asset("a.three", mode="replace_partition", checks=[c.row_count()])
    def three(): return 3

    @asset("a.four", format="parquet", mode=merge(on=["id"]))
    def four(x=table("a.two", window=0), y=table("a.two", window=1, offset=1)): return 4

    @asset("a.five", outputs={"b": "a.b"})
    def five(): return 5

    @task(reads="a.two")
    def six(what): return 6
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        "pipelines/a.py:1: 'orders' does not name a table: write schema.table or catalog.schema.table",
        "pipelines/a.py:4: format 'csv' is none of iceberg, parquet",
        "pipelines/a.py:4: mode 'upsert' is none of replace_partition, replace, append, merge",
        "pipelines/a.py:4: retries are a number or Retry(3, delay='30s'), not -1",
        (
            "pipelines/a.py:4: timeout is not valid: 'long' is not a duration: write a whole number and"
            " one of s, m, h, d, such as '3h'"
        ),
        "pipelines/a.py:7: mode 'replace_partition' needs partitions: give them, or use 'replace'",
        "pipelines/a.py:7: row_count needs min, max or change: c.row_count(min=1)",
        "pipelines/a.py:10: parquet files cannot be merged into: use format 'iceberg'",
        "pipelines/a.py:11: a table takes one of window, offset, partitions and mapping, not several",
        "pipelines/a.py:11: window=0 reads nothing: write a whole number from 1, as window=7",
        "pipelines/a.py:13: an asset has one name or outputs={'a': 'gold.a'}: give one of both",
        "pipelines/a.py:16: reads is a list of tables: write reads=['a.two']",
        (
            "pipelines/a.py:16: the task 'six' has a parameter 'what' that is never filled: a task may take"
            " ctx and spark, and opens the tables of reads=[...] itself"
        ),
    ]


def test_what_to_do_about_missing_partitions_is_for_inputs_of_several(tmp_path: Path) -> None:
    text = """
    DAYS = Daily("ds", start="2026-01-01")
    source("raw.a", partitions=DAYS)

    @asset("a.good", partitions=DAYS)
    def good(x=table("raw.a", window=7, missing="skip")): return 1

    @asset("a.odd", partitions=DAYS)
    def odd(x=table("raw.a", window=7, missing="ignore")): return 1

    @asset("a.one", partitions=DAYS)
    def one(x=table("raw.a", offset=-1, missing="skip")): return 1

    @task(reads=[table("raw.a", partitions="latest", missing="block")])
    def two(): return 1
    """
    one = "missing is for inputs of several partitions, and offset and 'latest' read one"
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        "pipelines/a.py:8: missing='ignore' of a table is none of block, skip",
        f"pipelines/a.py:11: {one}",
        f"pipelines/a.py:13: {one}",
    ]
    header = "/*---\nname: a.b\npartitions: {daily: ds, start: 2026-01-01}\n"
    query = (
        header + "inputs: {x: {table: raw.a, window: 7, missing: skip}}\n---*/\nselect 1 from x\n"
    )
    files = {"pipelines/a.py": text, "pipelines/b.sql": query}
    [only_input] = asset_of(load(tmp_path, files), "a.b").inputs
    assert only_input.missing == "skip"


def test_replacing_appended_rows_needs_partitions_and_mode_append(tmp_path: Path) -> None:
    text = """
    DAYS = Daily("ds", start="2026-01-01")

    @asset("a.good", partitions=DAYS, mode="append", on_change="replace")
    def good(): return 1

    @asset("a.whole", mode="append", on_change="replace")
    def whole(): return 1

    @asset("a.other", partitions=DAYS, on_change="replace")
    def other(): return 1

    @asset("a.odd", partitions=DAYS, mode="append", on_change="double")
    def odd(): return 1
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        (
            "pipelines/a.py:6: on_change='replace' needs partitions, as it replaces the rows of one: give"
            " them, use mode='replace', or add the rows once more with `arco run --append-again`"
        ),
        (
            "pipelines/a.py:9: on_change is for mode 'append', and this mode is 'replace_partition':"
            " leave it out"
        ),
        "pipelines/a.py:12: on_change 'double' is none of block, replace",
    ]


def test_an_unknown_input_is_reported_with_what_may_be_meant(tmp_path: Path) -> None:
    text = """
    source("raw.orders")
    @asset("a.one")
    def one(x=table("raw.ordres"), y=table("no.such_thing"), nobody=None): return x
    @asset("a.two")
    def two(something): return something
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        (
            "pipelines/a.py:3: default.no.such_thing is neither an asset nor a source:"
            " declare source('default.no.such_thing')"
        ),
        (
            "pipelines/a.py:3: default.raw.ordres is neither an asset nor a source;"
            " is default.raw.orders meant?"
        ),
        (
            "pipelines/a.py:4: the parameter 'something' is the name of no table:"
            " write something=table('schema.name')"
        ),
    ]


def test_a_table_of_the_catalog_needs_no_declaration(tmp_path: Path) -> None:
    text = "@asset('a.one')\ndef one(x=table('raw.orders')): return x\n"
    project = load(tmp_path, {"pipelines/a.py": text})
    assert len(find_problems(project)) == 1
    assert find_problems(project, catalog_tables={"default.raw.orders"}) == []


def test_a_parameter_that_may_stand_for_two_tables_is_a_problem(tmp_path: Path) -> None:
    text = """
    source("raw.orders")
    source("old.orders")
    @asset("a.one")
    def one(orders): return orders
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        (
            "pipelines/a.py:3: the parameter 'orders' may stand for default.old.orders or"
            " default.raw.orders: write orders=table('default.old.orders')"
        )
    ]


def test_a_ring_is_reported_once_with_its_path(tmp_path: Path) -> None:
    text = """
    @asset("r.a")
    def a(c): return c
    @asset("r.b")
    def b(a): return a
    @asset("r.c")
    def c_(b): return b
    @asset("r.d")
    def d(d): return d
    @asset("r.after")
    def after(a): return a
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        (
            "pipelines/a.py:1: these tables wait for each other:"
            " default.r.a <- default.r.c <- default.r.b <- default.r.a"
        ),
        "pipelines/a.py:7: default.r.d reads itself: with offset=-1 it reads the partition before",
    ]


def test_tables_that_wait_for_each_other_by_a_check_are_a_ring(tmp_path: Path) -> None:
    text = """
    @asset("r.facts", checks=[c.references("id", "r.names"), c.sql("select * from r.facts")])
    def facts(): return 1
    @asset("r.names")
    def names(facts): return facts
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        (
            "pipelines/a.py:1: these tables wait for each other:"
            " default.r.facts <- default.r.names <- default.r.facts"
        )
    ]


def test_reading_ones_own_partition_before_is_no_ring(tmp_path: Path) -> None:
    text = """
    @asset("r.a", partitions=Daily("ds", start="2026-01-01"))
    def a(before=table("r.a", offset=-1)): return before
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == []


def test_a_query_that_reads_its_own_table_is_reported(tmp_path: Path) -> None:
    query = """/*---
    name: r.a
    partitions: {daily: ds, start: 2026-01-01}
    inputs: {before: {table: r.a, offset: -1}}
    ---*/
    select * from before
    """
    problems = problem_lines(tmp_path, {"pipelines/a.sql": query})
    assert len(problems) == 1
    assert problems[0].startswith("pipelines/a.sql:")
    assert "a query cannot read its own table default.r.a: write it as a function" in problems[0]


def test_a_mapping_that_cannot_work_is_reported_where_it_is_asked_for(tmp_path: Path) -> None:
    text = """
    source("raw.months", partitions=Monthly("ds", start="2026-01"))
    source("raw.plain")
    @asset("a.one", partitions=Daily("ds", start="2026-01-01"))
    def one(
        months,
        week=table("raw.plain", window=7),
    ): return months
    """
    problems = problem_lines(tmp_path, {"pipelines/a.py": text})
    assert [line.split(":")[1] for line in problems] == ["3", "6"]
    assert "does not fit into" in problems[0]
    assert "window=7 needs one dimension of time" in problems[1]


def test_a_table_with_two_makers_is_reported_with_both_places(tmp_path: Path) -> None:
    files = {
        "pipelines/a.py": "@asset('a.one')\ndef one(): return 1\n",
        "pipelines/b.py": "source('a.one')\n@task(writes=['a.one'])\ndef two(): return 1\n",
    }
    assert problem_lines(tmp_path, files) == [
        "pipelines/b.py:1: default.a.one is declared as a source here and written at pipelines/a.py:3",
        "pipelines/b.py:2: default.a.one is written here and written at pipelines/a.py:3",
    ]


def test_a_check_of_nothing_and_two_of_one_name_are_reported(tmp_path: Path) -> None:
    text = """
    @asset("a.one", checks=[c.not_null("x"), c.not_null("x"), c.references("x", "no.where")])
    def one(): return 1
    @check("a.oen")
    def judge(df): return True
    """
    problems = problem_lines(tmp_path, {"pipelines/a.py": text})
    assert problems == [
        "pipelines/a.py:1: default.a.one has two checks called 'not_null_x': give one a name=...",
        (
            "pipelines/a.py:1: the check 'references_x' is of default.no.where, which is not declared:"
            " declare source('default.no.where')"
        ),
        (
            "pipelines/a.py:3: the check 'judge' is of default.a.oen, which is not declared;"
            " is default.a.one meant?"
        ),
    ]


def test_a_module_that_cannot_be_imported_does_not_hide_the_rest(tmp_path: Path) -> None:
    files = {
        "pipelines/a.py": "@asset('a.one')\ndef one(): return 1\n\nraise RuntimeError('boo')\n",
        "pipelines/b.py": "def broken(:\n",
        "pipelines/c.py": "from shared import nothing\n@asset('c.lost')\ndef lost(): return 1\n",
        "pipelines/d.py": "@asset('d.one')\ndef d(x=table('c.lost'), y=table('no.no')): return x\n",
        "pipelines/e.py": "import sys\nsys.exit(3)\n",
        "pipelines/f.py": "import numpyy\n",
        "pipelines/g.py": "import pipelines.f\n",
        "pipelines/h-i.py": "",
        "shared.py": "something = 1\n",
    }
    problems = problem_lines(tmp_path, files)
    assert [line.split(": ", 1)[0] for line in problems] == [
        "pipelines/a.py:4",
        "pipelines/b.py:1",
        "pipelines/c.py:1",
        "pipelines/d.py:2",
        "pipelines/e.py:2",
        "pipelines/f.py:1",
        "pipelines/h-i.py:0",
    ]
    assert problems[0].endswith("cannot be loaded: RuntimeError: boo")
    assert "default.no.no" in problems[3]
    assert "numpyy" in problems[5]


def test_a_bad_dimension_is_reported_at_its_line(tmp_path: Path) -> None:
    text = "x = 1\n@asset('a.b', partitions=Daily('ds', start='soon'))\ndef b(): return 1\n"
    [problem] = problem_lines(tmp_path, {"pipelines/a.py": text})
    assert problem.startswith("pipelines/a.py:2: cannot be loaded: 'soon' ")


def test_what_a_file_without_the_name_of_a_module_declares_is_not_reported_again(
    tmp_path: Path,
) -> None:
    files = {
        "pipelines/a-b.py": "@asset('a.b')\ndef b(): return 1\n",
        "pipelines/c.py": "@asset('c.c')\ndef c(x=table('a.b')): return x\n",
    }
    [only] = problem_lines(tmp_path, files)
    assert only.startswith("pipelines/a-b.py:0: its path is not a module name")


def test_settings_that_are_wrong_are_reported(tmp_path: Path) -> None:
    toml = """
    name = 3
    path = "flows"
    [defaults]
    pool = "spark"
    retries = "often"
    retrys = 2
    """
    assert problem_lines(tmp_path, {"arco.toml": toml, "pipelines/a.py": ""}) == [
        "arco.toml:1: name is a text, not 3",
        "arco.toml:2: 'path' is not a setting: name, paths, [defaults], [pools]",
        "arco.toml:5: retries are a number or Retry(3, delay='30s'), not 'often'",
        "arco.toml:6: 'retrys' is not a setting of [defaults]: retries, pool, format, tags, owner",
    ]
    assert problem_lines(tmp_path, {"arco.toml": "name = 'a'\npaths = ['gone']\n"}) == [
        "arco.toml:2: there is no 'gone' in the project"
    ]
    [broken] = problem_lines(tmp_path, {"arco.toml": "name = 'a'\npaths = [\n"})
    assert broken.startswith("arco.toml:2: not valid TOML")


def test_a_long_chain_is_checked_without_recursion(tmp_path: Path) -> None:
    lines = ["def make(i):", "    @asset(f'n.t{i}')", "    def f(x=table(f'n.t{i - 1}')): return x"]
    lines += ["source('n.t0')", "for i in range(1, 2000): make(i)"]
    assert problem_lines(tmp_path, {"pipelines/a.py": "\n".join(lines) + "\n"}) == []


def test_a_decorator_without_parentheses_is_reported_with_its_line(tmp_path: Path) -> None:
    text = """
    @asset
    def one(): return 1

    @task
    def two(): return 2

    @check
    def three(rows): return True
    """
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        "pipelines/a.py:1: @asset above 'one' declares nothing: write @asset('gold.spend')",
        "pipelines/a.py:4: @task above 'two' declares nothing: write @task(writes=['ml.model'])",
        "pipelines/a.py:7: @check above 'three' declares nothing: write @check('silver.orders')",
    ]


def test_without_a_project_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(Invalid, match="write @asset"):
        asset(lambda: 1)  # type: ignore[arg-type]


def test_a_function_that_is_never_awaited_or_iterated_is_reported(tmp_path: Path) -> None:
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
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
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


def test_a_name_that_is_too_long_for_a_check_is_reported(tmp_path: Path) -> None:
    text = """
    @asset("a.one", checks=[c.unique("id", name="x" * 256), c.not_null("id", name="y" * 255)])
    def one(): ...

    @check("a.one", name="z" * 256)
    def two(rows): return True
    """
    wrong = "the name of a check has at most 255 characters"
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        f"pipelines/a.py:1: {wrong}: {'x' * 256!r}",
        f"pipelines/a.py:4: {wrong}: {'z' * 256!r}",
    ]


def test_what_is_no_check_is_reported_with_what_is_one(tmp_path: Path) -> None:
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
    assert problem_lines(tmp_path, files) == [
        f"pipelines/a.py:1: {a_check}, not 'x'",
        f"pipelines/a.py:1: {a_check}, not the function 'not_null'",
        f"pipelines/a.py:3: {a_list}",
        f"pipelines/a.py:5: {a_list}",
        f"pipelines/a.py:7: {a_check}, not 7",
    ]
    assert [each.name for each in load(tmp_path, files).checks] == ["unique_id"]


def test_a_merge_that_is_not_called_is_reported_how_to_write_it(tmp_path: Path) -> None:
    text = "@asset('a.one', mode=merge)\ndef one(): return 1\n"
    assert problem_lines(tmp_path, {"pipelines/a.py": text}) == [
        "pipelines/a.py:1: mode 'merge' needs columns: write mode=merge(on=['order_id'])"
    ]
