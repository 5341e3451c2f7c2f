"""Checks: counted while rows are written, or looked at where they were staged, before anybody sees them."""

from typing import Any

import pytest

from arco.flow.define.check_rules import RowCount
from arco.flow.run.wire import CheckOutcome, Outcome, TaskStatus
from arco.flow.spark.checks import wanted_rows
from tests.flow.spark.house import DAY, House

SALES = """
@asset("$.customers", format="FORMAT")
def customers(spark):
    return spark.range(4).selectExpr("id AS customer")

@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT", checks=[CHECKS])
def sales(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""
GOOD = "SELECT id, id % 4 AS customer, id * 1.5D AS amount, 'eu' AS region FROM range(8)"


def project(house: House, checks: str, more: str = "", kind: str = "iceberg") -> House:
    return house.project(SALES.replace("CHECKS", checks).replace("FORMAT", kind) + more)


def sold(house: House, sql: str, partition: str = DAY) -> Outcome:
    return house.run("$.sales", partition, params={"sql": sql})


def told(outcome: Outcome) -> dict[str, CheckOutcome]:
    return {each.name: each for each in outcome.checks}


@pytest.mark.parametrize("kind", [pytest.param("iceberg", marks=pytest.mark.interop), "parquet"])
def test_a_failed_check_blocks_and_readers_keep_what_they_had(house: House, kind: str) -> None:
    checks = (
        "c.expr('amount < 100', name='cheap'), c.row_count(min=10, severity='warn', name='many')"
    )
    project(house, checks, kind=kind)
    good = sold(house, GOOD)
    assert good.status is TaskStatus.SUCCESS, good.error
    assert good.warnings == (f"check many of {house.name('$.sales')}: 8 rows are not >= 10",)
    before = house.rows("$.sales")
    bad = sold(house, GOOD.replace("1.5D", "100D"))
    assert bad.status is TaskStatus.BLOCKED
    assert "check cheap of" in (bad.error or "")
    assert "7 of 8 rows do not hold amount < 100" in (bad.error or "")
    assert [each.version for each in bad.outputs] == [None]
    assert house.rows("$.sales") == before
    found = told(bad)["cheap"]
    assert (found.passed, found.severity, found.expected, found.actual) == (
        False,
        "error",
        "0",
        "7",
    )


def test_each_check_by_row_finds_what_it_is_for(house: House) -> None:
    project(
        house,
        """
        c.not_null("region", severity="warn"), c.range("amount", min=0, max=10, severity="warn"),
        c.accepted_values("region", ["eu", "us"], severity="warn"), c.row_count(max=3, severity="warn"),
        c.expr("customer > 0", severity="warn"), c.freshness("1h", column="at", severity="warn"),
        c.freshness("1h"), c.not_null("id", "customer"), c.row_count(min=4, max=4),
        c.accepted_values("id", [0, 1, 2, 3]), c.range("id", max=3),
        """,
    )
    outcome = sold(
        house,
        "SELECT id, id AS customer, id * 6D AS amount, timestamp'2020-01-01' AS at, "
        "element_at(array('eu', null, 'xx', 'us'), INT(id + 1)) AS region FROM range(4)",
    )
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    failed = {name: each.actual for name, each in told(outcome).items() if not each.passed}
    age = failed.pop("freshness_at")
    assert age is not None
    assert int(age.removesuffix(" ms")) > 10**11
    assert failed == {
        "not_null_region": "1",
        "range_amount": "2",
        "accepted_values_region": "1",
        "row_count_max": "4",
        "expr_customer > 0": "1",
    }
    assert sum(each.passed for each in outcome.checks) == 5
    assert {each.type for each in outcome.checks} == {
        *("NULL_CHECK", "RANGE_CHECK", "ROW_COUNT", "CUSTOM_SQL", "FRESHNESS")
    }


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=pytest.mark.interop)])
def test_rows_are_compared_with_those_that_were_staged_alone(house: House, kind: str) -> None:
    project(
        house,
        """c.unique("id"), c.references("customer", "$.customers"),
        c.row_count(change=0.5, severity="warn", name="steady"),
        c.sql("SELECT * FROM $.sales WHERE amount < 0", name="no_debts"),
        c.sql("SELECT * FROM sales JOIN $.sales t USING (id) WHERE t.amount < 0", name="short")""",
        kind=kind,
    )
    house.made("$.customers")
    for _ in range(2):  # the same ids are there already, and are going to be replaced
        outcome = sold(house, GOOD)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert all(each.passed for each in outcome.checks)
    bad = sold(
        house,
        "SELECT id % 2 AS id, id + 2 AS customer, -1D AS amount, 'eu' AS region FROM range(3)",
    )
    assert bad.status is TaskStatus.BLOCKED
    found = {name: each.message for name, each in told(bad).items() if not each.passed}
    assert found == {
        "unique_id": "2 of 3 rows share their id with another, such as id=0",
        "references_customer": (
            f"1 of 3 rows have a customer that {house.name('$.customers')} does not know, such as 4"
        ),
        "steady": "3 rows, and 8 before",
        "no_debts": "3 rows were found by the query",
        "short": "5 rows were found by the query",
    }
    assert len(house.rows("$.sales")) == 8


def test_bounds_of_rows_are_told_alike_with_a_change_and_without() -> None:
    assert wanted_rows(RowCount(1, 9)) == "1 to 9"
    assert wanted_rows(RowCount(1, 9, 0.5)) == "1 to 9, change <= 0.5"
    assert wanted_rows(RowCount(change=0.5)) == "change <= 0.5"


JUDGES = """
@check("$.sales")
def is_true(df):
    return df.count() == 8

@check("$.sales", severity="warn")
def bad_rows(df, ctx):
    ctx.log.info("looked at %s", ctx.partition["ds"])
    return df.where("id > 5").count()

@check("$.sales")
def in_words(df):
    return Result(passed=True, expected="few", actual=str(df.count()))

@check("$.sales", severity="warn")
def counted_by_numpy(df):
    import numpy
    return (numpy.array([row.id for row in df.collect()]) > 5).sum()

@check("$.sales")
def all_by_numpy(df):
    import numpy
    return (numpy.array([row.id for row in df.collect()]) < 9).all()
"""


def test_functions_judge_what_was_staged(house: House) -> None:
    project(house, "", JUDGES)
    outcome = sold(house, GOOD)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    found = {name: (each.passed, each.actual) for name, each in told(outcome).items()}
    assert found == {
        "is_true": (True, "true"),
        "bad_rows": (False, "2"),
        "in_words": (True, "8"),
        "counted_by_numpy": (False, "2"),
        "all_by_numpy": (True, "true"),
    }


@pytest.mark.parametrize(
    ("checks", "more", "said"),
    [
        ("c.not_null('nobody')", "", "the check 'not_null_nobody' of"),
        ("c.unique('nobody')", "", "names the column 'nobody'"),
        (
            "",
            "@check('$.sales')\ndef odd(df):\n    return 'fine'\n",
            "the check 'odd' returned str",
        ),
    ],
)
def test_a_check_that_cannot_be_is_named(house: House, checks: str, more: str, said: str) -> None:
    project(house, checks, more)
    outcome = sold(house, GOOD)
    assert outcome.status is TaskStatus.FAILED
    assert said in (outcome.error or "")


def test_checks_by_row_add_no_job(house: House) -> None:
    eleven = """c.not_null("id"), c.not_null("customer", "amount"), c.expr("amount >= 0"),
    c.expr("id >= 0"),
    c.range("amount", min=0), c.range("id", max=100), c.accepted_values("region", ["eu"]),
    c.row_count(min=1), c.row_count(max=100, name="few"), c.expr("region = 'eu'"), c.freshness("1h")"""
    jobs = []
    for checks in ("", eleven):
        house = type(house)(house.shared, house.folder)
        project(house, checks)
        before = _jobs(house)
        assert sold(house, GOOD).status is TaskStatus.SUCCESS
        jobs.append(_jobs(house) - before)
    assert jobs[0] == jobs[1]
    assert jobs[0] > 0


def _jobs(house: House) -> int:
    """How many jobs Spark has begun so far, in whichever session."""
    context: Any = house.spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty(10_000)
    jobs = context.statusStore().jobsList(None)
    return max((jobs.apply(at).jobId() for at in range(jobs.size())), default=-1) + 1


def test_columns_are_looked_into_while_they_are_written(house: House) -> None:
    project(house, "")
    outcome = sold(house, GOOD.replace("'eu'", "IF(id < 3, null, 'eu')"))
    found = {each.column_name: each for each in outcome.outputs[0].columns}
    assert list(found) == ["id", "customer", "amount", "region", "ds"]
    assert (found["region"].null_count, found["region"].row_count) == (3, 8)
    assert (found["amount"].min_value, found["amount"].max_value) == ("0.0", "10.5")
