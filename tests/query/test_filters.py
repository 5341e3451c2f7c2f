"""What a plan asks of the tables that it reads."""

import pytest

from arco.query.limits import QueryLimits
from arco.query.protocol import SystemScan
from arco.query.pruning import Span, Spans
from arco.query.session import SqlSession
from arco.query.system_tables import SYSTEM_SCHEMAS, filter_columns

SESSION = SqlSession(QueryLimits(), SYSTEM_SCHEMAS, filter_columns)


def _point(*values: str) -> Spans:
    return tuple(Span(value, value) for value in values)


def _scan(sql: str, view: str = "tasks") -> SystemScan:
    [scan] = [each for each in SESSION.plan(sql).scans if each.view == view]
    return scan


def _wanted(where: str) -> list[dict[str, Spans]]:
    return list(_scan(f"SELECT task_id FROM system.tasks WHERE {where}").wanted)


@pytest.mark.parametrize(
    ("where", "spans"),
    [
        ("execution_id = 'a'", _point("a")),
        ("'a' = execution_id", _point("a")),
        ("execution_id = 'it''s'", _point("it's")),
        ("execution_id IN ('b', 'a')", _point("a", "b")),
        ("execution_id IN ('a','b','c','d','e','f','g','h')", _point(*"abcdefgh")),
        ("execution_id = 'a' OR execution_id = 'b'", _point("a", "b")),
        ("execution_id < 'c'", (Span(None, "c"),)),
        ("'c' < execution_id", (Span("c", None),)),
        ("execution_id BETWEEN 'a' AND 'c'", (Span("a", "c"),)),
        ("NOT (execution_id < 'c')", (Span("c", None),)),
        ("execution_id >= 'a' AND status = 'X' AND execution_id <= 'c'", (Span("a", "c"),)),
        ("execution_id > 'a' AND (status = 'X' OR attempt = 1)", (Span("a", None),)),
        ("execution_id = 'é😀'", _point("é😀")),
        (
            "(execution_id = 'a' AND status = 'X') OR execution_id > 'k'",
            (Span("a", "a"), Span("k")),
        ),
    ],
)
def test_filters_on_the_first_column_of_the_key_are_understood(where: str, spans: Spans) -> None:
    assert _wanted(where) == [{"execution_id": spans}]


@pytest.mark.parametrize(
    "where",
    [
        "status = 'a'",
        "task_id = 'a'",  # of the key, and neither what rows are spread by nor sorted by first
        "execution_id <> 'a'",
        "execution_id NOT IN ('a', 'b')",
        "execution_id = 'a' OR status = 'X'",
        "execution_id = 'a' OR execution_id IS NULL",
        "execution_id LIKE 'a%'",
        "upper(execution_id) = 'A'",
        "execution_id || 'x' = 'ax'",
        "execution_id = task_id",
        "execution_id = 1",
        "execution_id > random()::text",
        "execution_id = CAST(now() AS text)",
        "execution_id = CAST(current_date AS text)",
    ],
)
def test_other_filters_ask_for_everything(where: str) -> None:
    assert _wanted(where) == [{}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM tasks WHERE execution_id = 'a' AND false",
        "SELECT 1 FROM tasks WHERE execution_id = 'a' AND execution_id = 'b'",
        "SELECT 1 FROM tasks WHERE execution_id = NULL",
    ],
)
def test_what_cannot_be_is_not_read_at_all(sql: str) -> None:
    assert SESSION.plan(sql).scans == ()


def test_a_table_that_is_read_twice_is_needed_for_both() -> None:
    union = _scan(
        "SELECT task_id FROM tasks WHERE execution_id = 'a' "
        "UNION ALL SELECT task_id FROM tasks WHERE execution_id = 'b'"
    )
    assert union.wanted == ({"execution_id": _point("a")}, {"execution_id": _point("b")})
    one = "SELECT a.task_id FROM tasks a JOIN tasks b ON a.task_id = b.task_id WHERE {}"
    assert _scan(one.format("a.execution_id = 'a'")).wanted == ({"execution_id": _point("a")}, {})


def test_the_side_of_an_outer_join_that_stays_whole_is_asked_for_whole() -> None:
    sql = (
        "SELECT t.task_id FROM tasks t LEFT JOIN executions e "
        "ON t.execution_id = e.execution_id AND t.execution_id = 'a'"
    )
    assert _scan(sql).wanted == ({},)
    assert _scan(sql, "executions").wanted == ({"execution_id": _point("a")},)


@pytest.mark.parametrize(
    "sql",
    [
        (
            "SELECT task_id FROM tasks WHERE execution_id = 'a' AND attempt = "
            "(SELECT max(attempt) FROM tasks)"
        ),
        (
            "SELECT task_id, (SELECT count(*) FROM tasks WHERE status = 'X') FROM tasks "
            "WHERE execution_id = 'a'"
        ),
        (
            "SELECT CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE status = 'X') THEN 1 END FROM tasks "
            "WHERE execution_id = 'a'"
        ),
        "SELECT task_id FROM tasks WHERE execution_id = E'a\\nTableScan: tasks '",
    ],
)
def test_a_table_that_is_also_read_out_of_sight_is_asked_for_whole(sql: str) -> None:
    assert {} in _scan(sql).wanted


def test_a_filter_above_what_it_may_not_pass_does_not_count() -> None:
    for inner in (
        "SELECT *, row_number() OVER (ORDER BY task_id) AS n FROM tasks",
        "SELECT * FROM tasks ORDER BY task_id LIMIT 5",
    ):
        assert _scan(f"SELECT * FROM ({inner}) WHERE execution_id = 'a'").wanted == ({},)


def test_only_the_columns_that_are_used_are_asked_for() -> None:
    assert set(_scan("SELECT name FROM tables WHERE kind = 'VIEW'", "tables").columns) == {
        "name",
        "kind",
    }
    counted = _scan("SELECT count(*) FROM tables", "tables")
    assert "row_count" not in counted.columns
    hidden = _scan("SELECT name, (SELECT max(row_count) FROM tables) AS most FROM tables", "tables")
    assert "row_count" in hidden.columns


def test_a_table_of_another_schema_is_not_ours() -> None:
    plan = SESSION.plan("SELECT * FROM information_schema.tables WHERE table_name = 'tasks'")
    assert plan.scans == ()


def test_an_explain_is_distinguished_from_a_query() -> None:
    for sql in ("EXPLAIN SELECT * FROM tasks", "EXPLAIN ANALYZE SELECT * FROM tasks"):
        assert SESSION.plan(sql).explains
    assert not SESSION.plan("SELECT 'EXPLAIN' FROM tasks").explains


def test_a_very_long_filter_is_still_planned_soon() -> None:
    many = " OR ".join(f"(execution_id = 'x{n}' AND attempt = {n})" for n in range(500))
    assert len(_wanted(many)) == 1
