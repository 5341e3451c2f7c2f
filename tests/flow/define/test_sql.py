"""The queries of a project are parsed, and their errors are reported with file and line."""

from pathlib import Path

import pytest

from arco.flow.define import Mode, Retry, SourceLine, find_problems, load_project
from arco.flow.define.sql_query import find_tables, normalize_sql
from arco.flow.define.validation import sql_problems
from arco.flow.partition import all_partitions, window
from tests.flow.define.projects import asset_of, load, problem_lines

HEADER = """
/*---
name: gold.spend
partitions:
  - {daily: ds, start: 2026-01-01, tz: Europe/Paris}
  - {static: region, values: [eu, us]}
mode: {merge: [id]}
format: iceberg
checks:
  - not_null: [id, region]
  - {row_count: {min: 1}, severity: warn, name: some}
  - accepted_values: {column: region, values: [eu, us]}
  - expr: amount >= 0
retries: {times: 2, delay: 5s}
timeout: 1h
pool: spark
tags: [core]
owner: user:ana
description: What was spent.
strict: true
inputs:
  orders: {table: silver.orders, window: 7}
---*/
select id from orders join raw.customers using (id)
"""
ALL = ["a.b", "c.d", "e.f"]
SOURCES = """
source("silver.orders", partitions=[Daily("ds", start="2026-01-01"), Static("region", ["eu", "us"])])
source("raw.customers")
"""


def test_a_query_with_a_header_is_an_asset(tmp_path: Path) -> None:
    files = {"pipelines/spend.sql": HEADER, "pipelines/sources.py": SOURCES}
    assert problem_lines(tmp_path, files) == []
    spend_asset = asset_of(load(tmp_path, files), "gold.spend")
    query = "select id from orders join raw.customers using (id)"
    lines = (spend_asset.sql or "").split("\n")
    assert (lines[-1], len(lines)) == (query, HEADER[1:].count("\n"))  # on its line of the file
    assert spend_asset.function is None
    assert spend_asset.partitions.names == ("ds", "region")
    assert (spend_asset.mode, spend_asset.format) == (Mode("merge", ("id",)), "iceberg")
    names = [(each.name, each.severity, each.table) for each in spend_asset.checks]
    assert names == [
        ("not_null_id_region", "error", "default.gold.spend"),
        ("some", "warn", "default.gold.spend"),
        ("accepted_values_region", "error", "default.gold.spend"),
        ("expr_amount >= 0", "error", "default.gold.spend"),
    ]
    assert (spend_asset.retries, spend_asset.timeout_ms) == (Retry(2, delay="5s"), 3_600_000)
    assert (spend_asset.pool, spend_asset.tags, spend_asset.owner) == (
        "spark",
        ("core",),
        "user:ana",
    )
    assert (spend_asset.description, spend_asset.strict) == ("What was spent.", True)
    assert [(each.parameter, each.table) for each in spend_asset.inputs] == [
        ("orders", "default.silver.orders"),
        ("raw.customers", "default.raw.customers"),
    ]
    assert spend_asset.inputs[0].mapping == window(7)
    assert spend_asset.where == SourceLine("pipelines/spend.sql", 1)


def test_a_query_may_be_declared_in_python_by_its_path_or_as_text(tmp_path: Path) -> None:
    python = """
        source("raw.a")
        sql("gold.x", path="queries/x.sql", tags=["t"])
        sql("gold.y", query="select * from gold.x", mode="append", on_change="block")
    """
    files = {"pipelines/a.py": python, "pipelines/queries/x.sql": "select * from raw.a"}
    assert problem_lines(tmp_path, files) == []
    project = load(tmp_path, files)
    x, y = asset_of(project, "gold.x"), asset_of(project, "gold.y")
    assert (x.sql, x.tags) == ("select * from raw.a", ("t",))
    assert [each.table for each in y.inputs] == ["default.gold.x"]
    assert y.mode == Mode("append")
    header = "/*---\nname: gold.z\npartitions: {daily: ds, start: 2026-01-01}\nmode: append\n"
    files = {"pipelines/z.sql": header + "on_change: replace\n---*/\nselect 1\n"}
    assert asset_of(load(tmp_path / "z", files), "gold.z").mode == Mode("append", (), "replace")
    assert len(project.assets) == 2


def test_a_query_without_header_is_warned_of_unless_a_module_names_it(tmp_path: Path) -> None:
    files = {"pipelines/x.sql": "select 1", "pipelines/y.sql": "/*\nname: gold.y\n*/\nselect 1"}
    project = load(tmp_path / "alone", files)
    assert (project.assets, problem_lines(tmp_path / "alone", files)) == ((), [])
    assert [str(each) for each in sorted(project.warnings)] == [
        f"pipelines/{name}.sql:1: declares nothing: it has no header /*--- name: gold.spend ---*/,"
        " and no sql(path=...) names it"
        for name in "xy"
    ]
    named = files | {"pipelines/a.py": "for n in 'xy': sql(f'gold.{n}', path=f'{n}.sql')\n"}
    assert load(tmp_path / "named", named).warnings == ()
    broken = files | {"pipelines/a.py": "1 / 0\nsql('gold.x', path='x.sql')\n"}
    [warned] = load(tmp_path / "broken", broken).warnings
    assert warned.file == "pipelines/y.sql"


def test_a_query_whose_header_is_broken_is_not_reported_again_by_its_readers(
    tmp_path: Path,
) -> None:
    files = {
        "pipelines/a.sql": "/*---\nname: gold.a\npartitions: [oops\n---*/\nselect 1\n",
        "pipelines/b.sql": "/*---\nname: gold.b\n---*/\nselect * from gold.a\n",
    }
    [only] = problem_lines(tmp_path, files)
    assert only.startswith("pipelines/a.sql:3: the header is not valid YAML")


def test_mistakes_in_queries_are_reported_with_their_lines(tmp_path: Path) -> None:
    files = {
        "pipelines/a.sql": "/*---\nname: gold.a\n---*/\nselect *\nfrom raw.nothing\n",
        "pipelines/b.sql": "/*---\nname: gold.b\npartitions: [oops\n---*/\nselect 1\n",
        "pipelines/c.sql": "/*---\nmode: append\n---*/\nselect 1\n",
        "pipelines/d.sql": "/*---\nname: gold.d\nmood: x\npartitions: {daily: ds}\n---*/\nselect 1\n",
        "pipelines/e.sql": "/*---\nname: gold.e\nchecks: [{nice: 1}, {range: {a: 1}}]\n---*/\n \n",
        "pipelines/f.py": "sql('gold.f', path='nowhere.sql')\nsql('gold.g')\n",
    }
    problems = problem_lines(tmp_path, files)
    assert [line.split(": ", 1)[0] for line in problems] == [
        "pipelines/a.sql:5",
        "pipelines/b.sql:3",
        "pipelines/c.sql:1",
        "pipelines/d.sql:1",
        "pipelines/d.sql:1",
        "pipelines/e.sql:1",
        "pipelines/e.sql:1",
        "pipelines/e.sql:1",
        "pipelines/f.py:1",
        "pipelines/f.py:2",
    ]
    assert "raw.nothing is neither" in problems[0]
    assert "not valid YAML" in problems[1]
    assert "does not name its table" in problems[2]
    assert "'mood' is not an option" in problems[3]
    assert "start" in problems[4]
    assert "the query is empty" in "".join(problems[5:8])


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("select * from a.b", ["a.b"]),
        ("SELECT * FROM a.b x, c.d AS y, e.f", ALL),
        (
            "select * from a.b join c.d on true left join `my cat`.`s.x`.t",
            ["a.b", "c.d", 'my cat."s.x".t'],
        ),
        ("with t as (select * from a.b) select * from t", ["a.b"]),
        ("select extract(year from a.b), trim(both from c.d) from e.f", ["e.f"]),
        ("select a.x is distinct from b.y from e.f", ["e.f"]),
        ("select 'from a.b', \"from c.d\" -- from e.f\n/* from g.h */ from i.j", ["i.j"]),
        ("select 'it''s \\' from a.b' from c.d", ["c.d"]),
        ("select * from (select * from a.b) x join (c.d)", ["a.b", "c.d"]),
        ("select * from (select 1 as k) x, a.b, (select 2) y, c . d", ["a.b", "c.d"]),
        ("select * from (a.b x join c.d y on x.i = y.i), ((e.f))", ALL),
        ("select * from a.b x(k, v), c.d as y (k, v), e.f", ALL),
        ("select * from a.b tablesample (10 percent) x, c.d", ["a.b", "c.d"]),
        ("select * from a.b version as of 3, c.d", ["a.b", "c.d"]),
        ("select * from explode(array(1)) x, a.range(3), c.d", ["c.d"]),
        ("select * from values (1, 'a'), (2, 'b') x(k, v), a.b", ["a.b"]),
        ("select * from a.b x join c.d y on x.i = y.i, e.f", ALL),
        ("select * from a.b x, lateral (select * from c.d where i = x.i), e.f", ALL),
        ("select * from a.b lateral view explode(m) x as k, v where k in (b.k, b.v)", ["a.b"]),
        ("select b.x, b.y from a.b group by b.x, b.y order by b.x, b.y", ["a.b"]),
        ("from a.b |> aggregate sum(b.x), b.y |> join c.d |> extend c.x, d.x", ["a.b", "c.d"]),
        ("select b.from, c.d, first(b.x, b.y) from a.b", ["a.b"]),
        ("select * from a.range(3)", []),
        ("select * from a.b union all select * from a.b", ["a.b"]),
    ],
)
def test_the_tables_that_a_query_reads_are_seen(query: str, tables: list[str]) -> None:
    assert [each.name for each in find_tables(query)] == tables


def test_only_what_means_nothing_is_dropped_from_a_query() -> None:
    assert normalize_sql("select  a -- x\n /* y */ , 'b  -- c' ;\n") == "select a , 'b  -- c'"
    assert normalize_sql("select /*+ broadcast(a) */ a") == "select /*+ broadcast(a) */ a"
    assert normalize_sql("select r'\\', a -- x") == "select r'\\' , a"


def test_an_input_of_a_query_may_be_all_of_a_table(tmp_path: Path) -> None:
    header = "/*---\nname: gold.a\ninputs: {c: {table: raw.customers, partitions: all}}\n---*/\n"
    files = {
        "pipelines/a.sql": header + "select * from c",
        "pipelines/s.py": "source('raw.customers')",
    }
    assert problem_lines(tmp_path, files) == []
    [only_input] = asset_of(load(tmp_path, files), "gold.a").inputs
    assert only_input.mapping == all_partitions


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        ("name: gold.a\ntags: a: b", 4, "mapping values are not allowed here"),
        (
            "name: gold.a\ntags: [a\nowner: ana",
            5,
            "while parsing a flow sequence, expected ',' or ']', but got ':'",
        ),
        (
            "name: 'gold.a\ntags: [a]",
            3,
            "while scanning a quoted scalar, found unexpected end of stream",
        ),
    ],
)
def test_a_header_that_is_no_yaml_is_reported_in_one_line_with_that_of_the_file(
    tmp_path: Path, header: str, line: int, message: str
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.sql").write_text(f"\n/*---\n{header}\n---*/\nselect 1\n")
    assert problem_lines(tmp_path, {}) == [
        f"pipelines/a.sql:{line}: the header is not valid YAML: {message}"
    ]


def test_a_query_of_a_file_keeps_its_lines_and_one_in_python_does_not(tmp_path: Path) -> None:
    files = {
        "pipelines/a.py": "sql('a.a', path='a.txt')\nsql('a.b', query='\\n\\nselect 2')\n",
    }
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.txt").write_text("\n\n-- why\nselect 1;\n\n")
    project = load(tmp_path, files)
    assert asset_of(project, "a.a").sql == "\n\n-- why\nselect 1;"
    assert asset_of(project, "a.b").sql == "select 2"


NAME_HEADER = "/*---\nname: gold.spend\n---*/\n"


def _syntax_errors(folder: Path, text: str, name: str = "spend.sql") -> list[str]:
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / name).write_text(text)
    return [str(each) for each in sql_problems(load_project(folder))]


@pytest.mark.parametrize(
    ("query", "line", "message"),
    [
        ("select a,\n  b c d\nfrom silver.orders", 5, "at 'd'"),
        ("select (1\nfrom silver.orders", 5, "Expecting )"),
        ("\nselect 'abc from silver.orders", 5, "a quotation mark"),
        ("select 1;\nselect 2", 4, "there are 2 statements"),
        ("insert into x select 1", 4, "INSERT is no query"),
    ],
)
def test_an_error_names_the_line_of_the_file(
    tmp_path: Path, query: str, line: int, message: str
) -> None:
    [reported] = _syntax_errors(tmp_path, NAME_HEADER + query)
    assert reported.startswith(f"pipelines/spend.sql:{line}: the query has a syntax error: ")
    assert message in reported
    # Loading reports what cannot be parsed, since the inputs of the query are not known then.
    is_parsed = "statements" in message or "INSERT" in message
    loaded = [
        str(each) for each in find_problems(load_project(tmp_path), ["default.silver.orders"])
    ]
    assert loaded == ([] if is_parsed else [reported])


@pytest.mark.parametrize(
    "query",
    [
        "select :ds as ds, payload:name, amount::int from silver.orders where ds = :ds;",
        "with t as (select 1 as a) select transform(array(a), x -> x + 1) from t",
        "select * from silver.orders version as of 3 lateral view explode(items) t as item",
        "from silver.orders select id",
        "-- a remark\nvalues (1), (2)",
    ],
)
def test_spark_sql_with_parameters_is_sound(tmp_path: Path, query: str) -> None:
    assert _syntax_errors(tmp_path, NAME_HEADER + query) == []


def test_a_query_within_python_names_the_line_that_declares_it(tmp_path: Path) -> None:
    code = 'from arco import sql\n\nsql("gold.spend", query="""\nselect a\n b c\n""")\n'
    [reported] = _syntax_errors(tmp_path, code, "all.py")
    assert reported.startswith("pipelines/all.py:3: the query has a syntax error in its line 2: ")


def test_a_file_that_a_module_names_is_reported_of_by_its_own_lines(tmp_path: Path) -> None:
    code = 'from arco import sql\nsql("gold.spend", path="spend.txt")\n'
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "spend.txt").write_text("select a\nfrom t t2 t3")
    (tmp_path / "pipelines" / "all.py").write_text(code)
    [reported] = sql_problems(load_project(tmp_path))
    assert (reported.file, reported.line) == ("pipelines/spend.txt", 2)


def test_a_header_may_stand_in_one_line(tmp_path: Path) -> None:
    assert _syntax_errors(tmp_path, "/*--- name: gold.spend ---*/\nselect 1 as a") == []
    assert [each.name for each in load_project(tmp_path).assets] == ["default.gold.spend"]
