"""Checks: counted while rows are written or run on staged rows, before they are published."""

from typing import Any

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from arco.core import json
from arco.core.errors import Invalid
from arco.flow.coordinator.messages import AttemptOutcome, CheckOutcome, TaskStatus
from arco.flow.define.check_rules import CheckDef, FunctionRule, Result, RowCount
from arco.flow.spark.row_checks import CheckFinding, expected_rows
from arco.flow.spark.staged_checks import finding_of
from tests.flow.spark.harness import DAY, Harness

SALES = """
@asset("$.customers", format="FORMAT")
def customers(spark):
    return spark.range(4).selectExpr("id AS customer")

@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT", checks=[CHECKS])
def sales(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""
GOOD = "SELECT id, id % 4 AS customer, id * 1.5D AS amount, 'eu' AS region FROM range(8)"


def project(harness: Harness, checks: str, more: str = "", kind: str = "iceberg") -> Harness:
    return harness.project(SALES.replace("CHECKS", checks).replace("FORMAT", kind) + more)


def sold(harness: Harness, sql: str, partition: str = DAY) -> AttemptOutcome:
    return harness.run("$.sales", partition, params={"sql": sql})


def outcomes_by_name(outcome: AttemptOutcome) -> dict[str, CheckOutcome]:
    return {each.name: each for each in outcome.checks}


@pytest.mark.parametrize("kind", [pytest.param("iceberg", marks=pytest.mark.interop), "parquet"])
def test_a_failed_check_blocks_and_readers_keep_what_they_had(harness: Harness, kind: str) -> None:
    checks = (
        "c.expr('amount < 100', name='cheap'), c.row_count(min=10, severity='warn', name='many')"
    )
    project(harness, checks, kind=kind)
    good = sold(harness, GOOD)
    assert good.status is TaskStatus.SUCCESS, good.error
    assert good.warnings == (f"check many of {harness.name('$.sales')}: 8 rows are not >= 10",)
    before = harness.rows("$.sales")
    bad = sold(harness, GOOD.replace("1.5D", "100D"))
    assert bad.status is TaskStatus.BLOCKED
    assert "check cheap of" in (bad.error or "")
    assert "7 of 8 rows do not hold amount < 100" in (bad.error or "")
    assert [each.version for each in bad.outputs] == [None]
    assert harness.rows("$.sales") == before
    cheap_outcome = outcomes_by_name(bad)["cheap"]
    assert (
        cheap_outcome.passed,
        cheap_outcome.severity,
        cheap_outcome.expected,
        cheap_outcome.actual,
    ) == (
        False,
        "error",
        "0",
        "7",
    )


def test_each_check_by_row_finds_what_it_is_for(harness: Harness) -> None:
    project(
        harness,
        """
        c.not_null("region", severity="warn"), c.range("amount", min=0, max=10, severity="warn"),
        c.accepted_values("region", ["eu", "us"], severity="warn"), c.row_count(max=3, severity="warn"),
        c.expr("customer > 0", severity="warn"), c.freshness("1h", column="at", severity="warn"),
        c.freshness("1h"), c.not_null("id", "customer"), c.row_count(min=4, max=4),
        c.accepted_values("id", [0, 1, 2, 3]), c.range("id", max=3),
        """,
    )
    outcome = sold(
        harness,
        "SELECT id, id AS customer, id * 6D AS amount, timestamp'2020-01-01' AS at, "
        "element_at(array('eu', null, 'xx', 'us'), INT(id + 1)) AS region FROM range(4)",
    )
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    failed = {
        name: each.actual for name, each in outcomes_by_name(outcome).items() if not each.passed
    }
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
def test_rows_are_compared_with_those_that_were_staged_alone(harness: Harness, kind: str) -> None:
    project(
        harness,
        """c.unique("id"), c.references("customer", "$.customers"),
        c.row_count(change=0.5, severity="warn", name="steady"),
        c.sql("SELECT * FROM $.sales WHERE amount < 0", name="no_debts"),
        c.sql("SELECT * FROM sales JOIN $.sales t USING (id) WHERE t.amount < 0", name="short")""",
        kind=kind,
    )
    harness.materialize("$.customers")
    for _ in range(2):  # the same ids are there already, and are going to be replaced
        outcome = sold(harness, GOOD)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert all(each.passed for each in outcome.checks)
    bad = sold(
        harness,
        "SELECT id % 2 AS id, id + 2 AS customer, -1D AS amount, 'eu' AS region FROM range(3)",
    )
    assert bad.status is TaskStatus.BLOCKED
    messages = {
        name: each.message for name, each in outcomes_by_name(bad).items() if not each.passed
    }
    assert messages == {
        "unique_id": "2 of 3 rows share their id with another, such as id=0",
        "references_customer": (
            f"1 of 3 rows have a customer that {harness.name('$.customers')} does not have, such as 4"
        ),
        "steady": "3 rows, and 8 before",
        "no_debts": "3 rows were found by the query",
        "short": "5 rows were found by the query",
    }
    assert len(harness.rows("$.sales")) == 8


def test_bounds_of_rows_are_formatted_with_and_without_a_change() -> None:
    assert expected_rows(RowCount(1, 9)) == "1 to 9"
    assert expected_rows(RowCount(1, 9, 0.5)) == "1 to 9, change <= 0.5"
    assert expected_rows(RowCount(change=0.5)) == "change <= 0.5"


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


def test_functions_judge_what_was_staged(harness: Harness) -> None:
    project(harness, "", JUDGES)
    outcome = sold(harness, GOOD)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    results_by_name = {
        name: (each.passed, each.actual) for name, each in outcomes_by_name(outcome).items()
    }
    assert results_by_name == {
        "is_true": (True, "true"),
        "bad_rows": (False, "2"),
        "in_words": (True, "8"),
        "counted_by_numpy": (False, "2"),
        "all_by_numpy": (True, "true"),
    }


@pytest.mark.parametrize(
    ("checks", "more", "message"),
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
def test_a_check_that_cannot_be_is_named(
    harness: Harness, checks: str, more: str, message: str
) -> None:
    project(harness, checks, more)
    outcome = sold(harness, GOOD)
    assert outcome.status is TaskStatus.FAILED
    assert message in (outcome.error or "")


def test_checks_by_row_add_no_job(harness: Harness) -> None:
    eleven = """c.not_null("id"), c.not_null("customer", "amount"), c.expr("amount >= 0"),
    c.expr("id >= 0"),
    c.range("amount", min=0), c.range("id", max=100), c.accepted_values("region", ["eu"]),
    c.row_count(min=1), c.row_count(max=100, name="few"), c.expr("region = 'eu'"), c.freshness("1h")"""
    jobs = []
    for checks in ("", eleven):
        harness = type(harness)(harness.shared, harness.folder)
        project(harness, checks)
        before = _jobs(harness)
        assert sold(harness, GOOD).status is TaskStatus.SUCCESS
        jobs.append(_jobs(harness) - before)
    assert jobs[0] == jobs[1]
    assert jobs[0] > 0


def _jobs(harness: Harness) -> int:
    """How many jobs Spark has begun so far, in whichever session."""
    context: Any = harness.spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty(10_000)
    jobs = context.statusStore().jobsList(None)
    return max((jobs.apply(at).jobId() for at in range(jobs.size())), default=-1) + 1


def test_column_statistics_are_counted_during_the_write(harness: Harness) -> None:
    project(harness, "")
    outcome = sold(harness, GOOD.replace("'eu'", "IF(id < 3, null, 'eu')"))
    statistics_by_column = {each.column_name: each for each in outcome.outputs[0].columns}
    assert list(statistics_by_column) == ["id", "customer", "amount", "region", "ds"]
    assert (
        statistics_by_column["region"].null_count,
        statistics_by_column["region"].row_count,
    ) == (3, 8)
    assert (statistics_by_column["amount"].min_value, statistics_by_column["amount"].max_value) == (
        "0.0",
        "10.5",
    )


def _finding(result: object) -> CheckFinding:
    check = CheckDef("few", FunctionRule(lambda: None), "error", "default.s.t")
    return finding_of(check, result, 9)


_GOOD: list[Any] = [True, np.bool_(True), np.array([1, 2]).any(), pd.Series([True]).all()]
_BAD: list[Any] = [False, np.bool_(False), np.array([1, 0]).all(), pd.Series([False]).any()]
_THREE: list[Any] = [3, np.int64(3), np.uint8(3), np.array([1, 2]).sum(), pd.Series([1, 2]).sum()]


_FINDINGS = [
    *((each, CheckFinding(True, "true", "true")) for each in _GOOD),
    *((each, CheckFinding(False, "true", "false", "it does not hold")) for each in _BAD),
    *((each, CheckFinding(False, "0", "3", "3 of 9 rows are bad")) for each in _THREE),
    (np.int64(0), CheckFinding(True, "0", "0")),
]


@pytest.mark.parametrize(("result", "finding"), _FINDINGS)
def test_a_check_may_return_a_truth_value_or_a_number_of_bad_rows(
    result: object, finding: CheckFinding
) -> None:
    assert _finding(result) == finding


def test_a_result_may_hold_such_values_and_can_be_encoded() -> None:
    result: Any = Result(passed=np.bool_(False), bad_rows=np.int64(2), expected=np.int64(0))  # type: ignore[arg-type]
    finding = _finding(result)
    assert finding == CheckFinding(False, "0", "2")
    assert json.decode(json.encode(msgspec.to_builtins(finding)), CheckFinding) == finding


class _Column:
    """As a column of Spark is: it has every attribute, and is neither true nor false."""

    def __getattr__(self, name: str) -> "_Column":
        return _Column()

    def __eq__(self, other: object) -> Any:
        return _Column()

    def __bool__(self) -> bool:
        raise ValueError("cannot convert a column to a truth value")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "result",
    [None, 0.5, "3", [True], np.float64(1), np.array([True]), pd.Series([True, False]), _Column()],
    ids=lambda each: type(each).__name__,
)
def test_any_other_result_is_an_error_that_says_what_to_return(result: object) -> None:
    with pytest.raises(Invalid, match=r"'few' returned .*: return true or false, the number"):
        _finding(result)
