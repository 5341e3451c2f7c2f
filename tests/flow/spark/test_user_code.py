"""What user code gets, what it may return, and how its errors are reported."""

from pathlib import Path

import pytest
from pyspark.errors import PythonException

from arco.flow.coordinator.messages import TaskStatus
from arco.flow.spark.task_errors import describe_error
from arco.flow.spark.user_code import replace_parameters, replace_tables
from tests.flow.spark.harness import DAY, Harness, RecordingWatch

ONE = """
from helpers import broken

@asset("$.one")
def one(spark, ctx):
    BODY
"""
HELPERS = "def broken(x):\n    return {}[x]\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("spark.range(1)", "the function returned nothing: is its `return` missing?"),
        (
            "return (each for each in [1])",
            "the function returned a generator: return a Spark DataFrame",
        ),
        ("return [1]", "the function returned an object of type builtins.list"),
        ("return spark.readStream.format('rate').load()", "the function returned a stream"),
    ],
)
def test_a_result_that_is_no_frame_is_an_error(harness: Harness, body: str, message: str) -> None:
    harness.project(ONE.replace("BODY", body), {"helpers.py": HELPERS})
    outcome = harness.run("$.one")
    assert outcome.status is TaskStatus.FAILED
    assert message in (outcome.error or "")
    assert "pipelines/all.py:" in (outcome.error or "")


def test_an_error_shows_the_lines_of_the_project_and_no_others(harness: Harness) -> None:
    harness.project(ONE.replace("BODY", "return broken('x')"), {"helpers.py": HELPERS})
    outcome = harness.run("$.one")
    assert outcome.may_retry
    assert (outcome.error or "").splitlines() == [
        "KeyError: 'x'",
        "in your code, the innermost line last:",
        "  pipelines/all.py:9 in one",
        "    return broken('x')",
        "  helpers.py:2 in broken",
        "    return {}[x]",
    ]


def test_an_error_of_spark_is_its_message_and_the_line_that_led_to_it(harness: Harness) -> None:
    body = "return spark.range(3).select('nobody')"
    harness.project(ONE.replace("BODY", body), {"helpers.py": HELPERS})
    lines = (harness.run("$.one").error or "").splitlines()
    assert lines[0].startswith("AnalysisException: [UNRESOLVED_COLUMN")
    assert "nobody" in lines[0]
    assert lines[1:] == [
        "in your code, the innermost line last:",
        "  pipelines/all.py:9 in one",
        f"    {body}",
    ]


def test_an_error_in_a_worker_of_spark_begins_with_what_was_raised(tmp_path: Path) -> None:
    text = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 9, in main
    process()
  File "/shop/pipelines/all.py", line 3, in share
    return 1 // x
           ~~^^~~
ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)"""

    assert describe_error(PythonException(text), tmp_path).splitlines() == [
        "PythonException: ZeroDivisionError: integer division or modulo by zero",
        "Traceback (most recent call last):",
        '  File "/shop/pipelines/all.py", line 3, in share',
        "    return 1 // x",
    ]


@pytest.mark.interop
def test_an_error_in_a_spark_worker_shows_its_python_trace(harness: Harness) -> None:
    body = "return spark.range(2).select(F.udf(lambda x: 1 // x, 'int')('id').alias('q'))"
    harness.project(ONE.replace("BODY", body), {"helpers.py": HELPERS})
    error = harness.run("$.one").error or ""
    assert error.startswith("PythonException: ZeroDivisionError: ")
    assert "pipelines/all.py" in error
    assert "\tat " not in error


def test_a_frame_of_another_session_is_staged_all_the_same(harness: Harness) -> None:
    code = """
from pyspark.sql import SparkSession

@asset("$.one", checks=[c.row_count(max=1)])
def one():
    return SparkSession.builder.getOrCreate().range(2)
"""
    harness.project(code)
    assert harness.run("$.one").status is TaskStatus.BLOCKED
    assert harness.rows("$.one") == []


@pytest.mark.parametrize(("code", "text"), [("3", "3"), ("", ""), ("'no data'", "'no data'")])
def test_code_that_exits_fails_its_own_task_and_nothing_else(
    harness: Harness, code: str, text: str
) -> None:
    harness.project(f"import sys\n\n@task()\ndef leave():\n    sys.exit({code})\n")
    outcome = harness.run("leave")
    assert (outcome.status, outcome.may_retry) == (TaskStatus.FAILED, True)
    assert (outcome.error or "").splitlines() == [
        f"the code called sys.exit({text})",
        "in your code, the innermost line last:",
        "  pipelines/all.py:8 in leave",
        f"    sys.exit({code})",
    ]


def test_a_task_interrupted_from_the_keyboard_has_not_failed(harness: Harness) -> None:
    harness.project("@task()\ndef leave():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        harness.run("leave")


def test_an_error_in_a_query_names_the_line_of_its_file(harness: Harness) -> None:
    header = "/*---\nname: $.one\n---*/\n\n"
    query = "select id,\n  nobody\nfrom range(3)\n"
    harness.project("", {"pipelines/one.sql": header + query})
    error = harness.run("$.one").error or ""
    assert "line 6 pos 2" in error.splitlines()[0]


SEVERAL = """
@asset(outputs={"big": "$.big", "small": "$.small"}, partitions=Daily("ds", start="2026-01-01"))
def split(spark, ctx):
    rows = spark.range(6)
    ctx.metric("rows", 6)
    ctx.progress(0.5, "half")
    ctx.log.warning("attempt %s of %s", ctx.attempt, ctx.partition)
    found = {"big": rows.where("id > 2"), "small": rows.where("id <= 2")}
    return {key: found[key] for key in ctx.params["keys"].split(",")}

@check("$.small")
def is_small(df):
    return df.count() < 3
"""


def test_several_outputs_are_all_staged_and_checked_before_one_is_published(
    harness: Harness,
) -> None:
    harness.project(SEVERAL)
    watch = RecordingWatch()
    task = harness.lease("$.big", DAY, params={"keys": "big,small"})
    outcome = harness.execute(task, watch)
    assert outcome.status is TaskStatus.BLOCKED
    assert harness.rows("$.big") == harness.rows("$.small") == []
    assert outcome.metrics == {"rows": 6}
    assert watch.lines == ["WARNING attempt 1 of {'ds': '2026-01-05'}"]
    assert watch.phases == ["reading", "computing", "writing", "checking"]
    assert (0.5, "half") in [(each.done, each.message) for each in watch.reported]
    harness.project(SEVERAL.replace("< 3", "< 4"))
    done = harness.materialize("$.big", DAY, params={"keys": "big,small"})
    assert [each.table for each in done.outputs] == [harness.name("$.big"), harness.name("$.small")]
    assert len(harness.rows("$.big")) == len(harness.rows("$.small")) == 3


def test_an_output_that_is_missing_is_named(harness: Harness) -> None:
    harness.project(SEVERAL)
    outcome = harness.run("$.big", DAY, params={"keys": "big"})
    assert "the function returned the keys 'big', and its outputs are 'big', 'small'" in (
        outcome.error or ""
    )


TASKS = """
@task
def quiet(ctx):
    ctx.metric("seen", 1)

@task("loud", writes=["$.log"])
def loud(spark, ctx):
    spark.range(2).writeTo("$.log").createOrReplace()

@task("away", writes=["elsewhere.$.log"])
def away():
    pass
"""


def test_a_task_does_all_by_itself(harness: Harness) -> None:
    harness.project(TASKS.replace("@task\n", "@task()\n"))
    outcome = harness.materialize("loud")
    assert [(each.table, each.version) for each in outcome.outputs] == [(harness.name("$.log"), 0)]
    assert harness.rows("$.log") == [(0,), (1,)]


def test_a_task_is_called_even_if_the_schema_of_its_output_cannot_be_created(
    harness: Harness,
) -> None:
    harness.project(TASKS.replace("@task\n", "@task()\n"))
    watch = RecordingWatch()
    outcome = harness.execute(harness.lease("away"), watch)
    assert outcome.status is TaskStatus.SUCCESS
    assert any(
        f"the schema of elsewhere.{harness.schema}.log could not be created" in line
        for line in watch.lines
    )


def test_a_task_that_the_code_of_the_worker_lacks_fails_with_the_reason(harness: Harness) -> None:
    harness.project(SEVERAL)
    task = harness.lease("$.big", DAY, params={"keys": "big,small"})
    harness.project(TASKS.replace("@task\n", "@task()\n"))
    outcome = harness.execute(task)
    assert not outcome.may_retry
    assert "is its code older than the plan?" in (outcome.error or "")


VIEWS = {"default.silver.orders": "v0", "lake.raw.b": "v1"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM silver.orders", "SELECT * FROM `v0` AS `orders`"),
        ("SELECT * FROM silver.orders o", "SELECT * FROM `v0` o"),
        ("SELECT * FROM default.silver.orders AS o;\n", "SELECT * FROM `v0` AS o"),
        (
            "select 1 from silver.orders -- of silver.orders\nwhere a = 'from silver.orders'",
            "select 1 from `v0` AS `orders` -- of silver.orders\nwhere a = 'from silver.orders'",
        ),
        (
            "SELECT * FROM silver.orders JOIN `lake`.raw.b USING (id)",
            "SELECT * FROM `v0` AS `orders` JOIN `v1` AS `b` USING (id)",
        ),
        ("SELECT * FROM silver.orders, lake.raw.b x", "SELECT * FROM `v0` AS `orders`, `v1` x"),
        (
            "SELECT * FROM silver.orders VERSION AS OF 3",
            "SELECT * FROM silver.orders VERSION AS OF 3",
        ),
        (
            "SELECT * FROM silver.orders TABLESAMPLE (1 ROWS)",
            "SELECT * FROM `v0` TABLESAMPLE (1 ROWS)",
        ),
        ("SELECT * FROM gold.other", "SELECT * FROM gold.other"),
        (
            "SELECT * FROM (SELECT 1) a, silver.orders, (lake.raw.b x)",
            "SELECT * FROM (SELECT 1) a, `v0` AS `orders`, (`v1` x)",
        ),
        (
            "SELECT * FROM (silver.orders JOIN lake.raw.b USING (id))",
            "SELECT * FROM (`v0` AS `orders` JOIN `v1` AS `b` USING (id))",
        ),
    ],
)
def test_tables_become_views(sql: str, expected: str) -> None:
    assert replace_tables(sql, VIEWS) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT :ds AS ds", "SELECT '2026-01-05' AS ds"),
        ("WHERE d>=:ds AND x = ':ds' -- :ds", "WHERE d>='2026-01-05' AND x = ':ds' -- :ds"),
        ("SELECT payload:ds, amount::int, f(x):ds", "SELECT payload:ds, amount::int, f(x):ds"),
        ("SELECT :other, :odd", r"SELECT :other, 'it\'s \\ odd'"),
    ],
)
def test_values_stand_where_they_are_asked_for(sql: str, expected: str) -> None:
    assert replace_parameters(sql, {"ds": "2026-01-05", "odd": "it's \\ odd"}) == expected
