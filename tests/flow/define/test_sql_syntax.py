"""The queries of a project are parsed, and their errors are told with file and line."""

from pathlib import Path

import pytest

from arco.flow.define import find_problems, load_project
from arco.flow.define.validation import sql_problems

HEADER = "/*---\nname: gold.spend\n---*/\n"


def _told(folder: Path, text: str, name: str = "spend.sql") -> list[str]:
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / name).write_text(text)
    return [str(each) for each in sql_problems(load_project(folder))]


@pytest.mark.parametrize(
    ("query", "line", "said"),
    [
        ("select a,\n  b c d\nfrom silver.orders", 5, "at 'd'"),
        ("select (1\nfrom silver.orders", 5, "Expecting )"),
        ("\nselect 'abc from silver.orders", 5, "a quotation mark"),
        ("select 1;\nselect 2", 4, "there are 2 statements"),
        ("insert into x select 1", 4, "INSERT is no query"),
    ],
)
def test_an_error_names_the_line_of_the_file(
    tmp_path: Path, query: str, line: int, said: str
) -> None:
    [told] = _told(tmp_path, HEADER + query)
    assert told.startswith(f"pipelines/spend.sql:{line}: the query has a syntax error: ")
    assert said in told
    # Loading reports what cannot be parsed, since the inputs of the query are not known then.
    is_parsed = "statements" in said or "INSERT" in said
    loaded = [
        str(each) for each in find_problems(load_project(tmp_path), ["default.silver.orders"])
    ]
    assert loaded == ([] if is_parsed else [told])


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
    assert _told(tmp_path, HEADER + query) == []


def test_a_query_within_python_names_the_line_that_declares_it(tmp_path: Path) -> None:
    code = 'from arco import sql\n\nsql("gold.spend", query="""\nselect a\n b c\n""")\n'
    [told] = _told(tmp_path, code, "all.py")
    assert told.startswith("pipelines/all.py:3: the query has a syntax error in its line 2: ")


def test_a_file_that_a_module_names_is_told_of_by_its_own_lines(tmp_path: Path) -> None:
    code = 'from arco import sql\nsql("gold.spend", path="spend.txt")\n'
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "spend.txt").write_text("select a\nfrom t t2 t3")
    (tmp_path / "pipelines" / "all.py").write_text(code)
    [told] = sql_problems(load_project(tmp_path))
    assert (told.file, told.line) == ("pipelines/spend.txt", 2)


def test_a_header_may_stand_in_one_line(tmp_path: Path) -> None:
    assert _told(tmp_path, "/*--- name: gold.spend ---*/\nselect 1 as a") == []
    assert [each.name for each in load_project(tmp_path).assets] == ["default.gold.spend"]
