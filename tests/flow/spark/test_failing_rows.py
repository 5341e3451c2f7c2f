"""Rows that fail a check: what the log of the attempt shows of them, and what it never shows."""

from urllib.request import Request, urlopen

import pytest

from arco.core import json
from arco.flow.coordinator.messages import AttemptOutcome, TaskStatus
from arco.flow.define.check_rules import Expression, NotNull, RowCount
from arco.flow.spark.failing_rows import (
    MASK,
    MAX_COLUMNS,
    MAX_TABLE_BYTES,
    MAX_VALUE_CHARS,
    format_rows,
    pii_columns,
    shown_columns,
)
from arco.flow.spark.row_checks import columns_of_rule
from arco.flow.worker.ports import CatalogColumn, CatalogTable
from tests.flow.spark.harness import DAY, Harness, RecordingWatch


def test_rows_are_aligned_below_their_names() -> None:
    assert format_rows(["id", "region"], [("1", "eu"), ("20", None)]) == [
        "id  region",
        "1   eu",
        "20  null",
    ]


def test_a_value_is_one_short_line() -> None:
    long, hostile = "x" * 1_000, "a\nb\x1b[2J"
    _, line = format_rows(["v", "w"], [(long, hostile)])
    assert line == f"{'x' * (MAX_VALUE_CHARS - 3)}...  a\\nb\\x1b[2J"


def test_a_table_is_bounded_in_bytes() -> None:
    wide = ["é" * MAX_VALUE_CHARS] * MAX_COLUMNS
    lines = format_rows([f"c{at}" for at in range(MAX_COLUMNS)], [wide] * 20)
    assert len("\n".join(lines[:-1]).encode()) <= MAX_TABLE_BYTES
    assert lines[-1] == f"({20 - (len(lines) - 2)} more rows are left out: they are too long)"


def test_of_many_columns_those_of_the_check_are_shown() -> None:
    names = [f"c{at}" for at in range(100)]
    shown = shown_columns(names, columns_of_rule(Expression("C70 + `c90`.x > 0")))
    assert shown == [*range(MAX_COLUMNS - 2), 70, 90]
    assert shown_columns(names[:3], columns_of_rule(NotNull(("c2",)))) == [0, 1, 2]
    assert shown_columns(names[:3], columns_of_rule(RowCount(1))) == [0, 1, 2]


def test_marked_columns_are_those_of_the_catalog() -> None:
    email = CatalogColumn(name="Email", data_type="string", pii_type="EMAIL")
    columns = (CatalogColumn(name="id", data_type="bigint"), email)
    table = CatalogTable(name="a.b.c", table_id="1", format="parquet", location="", columns=columns)
    assert pii_columns(table) == {"email"}
    assert pii_columns(None) == frozenset()


PEOPLE = """
@asset("$.cities", format="FORMAT")
def cities(spark):
    return spark.sql("SELECT 'a@x' AS address, 'rome' AS city")

@asset("$.people", partitions=Daily("ds", start="2026-01-01"), format="FORMAT", checks=[
    c.not_null("age", severity="warn"),
    c.expr("age < 100", severity="warn", name="young"),
    c.accepted_values("city", ["rome", "oslo"], severity="warn"),
    c.range("age", max=100, severity="warn"),
    c.row_count(min=100, severity="warn", name="many"),
    c.unique("email"),
    c.references("city", "$.cities", severity="warn"),
    c.references("alias", "$.cities", "address", severity="warn"),
    c.sql("SELECT age, email, upper(email) AS city FROM $.people WHERE age > 100", name="old"),
])
def people(spark, ctx):
    return spark.sql(ctx.params["sql"])

@check("$.people", severity="warn")
def judged(df):
    return df.where("age > 100").count()
"""
FEW = "SELECT 'a@x' AS email, 'a@x' AS alias, 1 AS age, 'rome' AS city"
BAD = """SELECT * FROM VALUES
    ('a@x', 'a@x', 7, 'rome'), ('b@x', 'a@x', 8, 'rome'), ('b@x', 'z@x', 9, 'oslo'),
    ('d@x', 'a@x', 200, 'rome'), ('e@x', 'a@x', null, 'bonn') AS t(email, alias, age, city)"""


def _mark(harness: Harness, table: str, column: str) -> None:
    url = f"{harness.shared.url}/api/v1/catalogs/default/schemas/{harness.schema}/tables/{table}"
    body = json.encode({"pii_type": "EMAIL"})
    headers = {"Content-Type": "application/json"}
    request = Request(f"{url}/columns/{column}", body, headers, method="PATCH")
    with urlopen(request) as answer:
        assert answer.status == 200


def _run(harness: Harness, sql: str) -> tuple[AttemptOutcome, dict[str, list[str]]]:
    """How a run ended, and the lines of each check in its log, without the first of them."""
    watch = RecordingWatch()
    outcome = harness.execute(harness.lease("$.people", DAY, params={"sql": sql}), watch)
    logged = [each.splitlines() for each in watch.lines if each.startswith("check ")]
    return outcome, {each[0].split()[1]: each[1:] for each in logged}


@pytest.mark.parametrize("kind", ["parquet", pytest.param("iceberg", marks=pytest.mark.interop)])
def test_failing_rows_are_logged_with_pii_masked(harness: Harness, kind: str) -> None:
    harness.project(PEOPLE.replace("FORMAT", kind))
    harness.materialize("$.cities")
    good, logged = _run(harness, FEW)
    assert good.status is TaskStatus.SUCCESS, good.error
    assert logged == {}  # the check of the number of rows has failed, and has none to show
    _mark(harness, "people", "email")
    _mark(harness, "cities", "address")
    bad, logged = _run(harness, BAD)
    assert bad.status is TaskStatus.BLOCKED
    head = "email  alias  age   city  ds"
    old = "***    a@x    200   rome  2026-01-05"
    none = "***    a@x    null  bonn  2026-01-05"
    rows = {
        name: [names.split(), *sorted(line.split() for line in lines)]
        for name, (names, *lines) in logged.items()
    }
    assert rows == {
        "not_null_age": [head.split(), none.split()],
        "young": [head.split(), old.split(), none.split()],
        "accepted_values_city": [head.split(), none.split()],
        "range_age": [head.split(), old.split()],
        "unique_email": [
            head.split(),
            ["***", "a@x", "8", "rome", "2026-01-05"],
            ["***", "z@x", "9", "oslo", "2026-01-05"],
        ],
        "references_city": [head.split(), none.split(), ["***", "z@x", "9", "oslo", "2026-01-05"]],
        "references_alias": [head.split(), ["***", "***", "9", "oslo", "2026-01-05"]],
        "old": [["age", "email", "city"], ["200", MASK, MASK]],
    }
    messages = {each.name: each.message for each in bad.checks}
    assert messages["unique_email"] == (
        "2 of 5 rows share their email with another, such as email=***"
    )
    assert (messages["references_alias"] or "").endswith("does not have, such as ***")
    assert (messages["references_city"] or "").endswith("does not have, such as bonn")


LIMITED = """
@asset("$.people", format="parquet", checks=[c.expr("age < most", severity="warn", name="young")])
def people(spark, ctx):
    spark.sql("DECLARE VARIABLE most INT DEFAULT 5")  # which no other session knows
    return spark.sql(ctx.params["sql"])
"""


def test_rows_that_cannot_be_read_change_nothing_else(harness: Harness) -> None:
    harness.project(LIMITED)
    watch = RecordingWatch()
    outcome = harness.execute(harness.lease("$.people", params={"sql": BAD}), watch)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert [each.message for each in outcome.checks] == ["5 of 5 rows do not hold age < most"]
    table = harness.name("$.people")
    assert (
        f"check young of {table}: its failing rows could not be read (AnalysisException)"
        in watch.lines
    )


MERGED = """
@asset("$.people", mode=merge(on=["email"]), format="iceberg")
def people(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""


@pytest.mark.interop
def test_a_key_that_is_there_twice_is_masked_too(harness: Harness) -> None:
    harness.project(MERGED)
    first = harness.lease("$.people", params={"sql": FEW})
    assert harness.execute(first).status is TaskStatus.SUCCESS
    _mark(harness, "people", "email")
    outcome = harness.execute(harness.lease("$.people", params={"sql": BAD}))
    assert "2 rows of the result have the same email (email=***)" in (outcome.error or "")
