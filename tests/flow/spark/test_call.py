"""What people's code is given, what it may return, and what is said of its errors."""

from pathlib import Path

import pytest
from pyspark.errors import PythonException

from arco.flow.coordinator.messages import TaskStatus
from arco.flow.spark.user_error import describe
from tests.flow.spark.house import DAY, House, Watched

ONE = """
from helpers import broken

@asset("$.one")
def one(spark, ctx):
    BODY
"""
HELPERS = "def broken(x):\n    return {}[x]\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("spark.range(1)", "the function returned nothing: is its `return` missing?"),
        (
            "return (each for each in [1])",
            "the function returned a generator: return a DataFrame of Spark",
        ),
        ("return [1]", "the function returned an object of type builtins.list"),
        ("return spark.readStream.format('rate').load()", "the function returned a stream"),
    ],
)
def test_what_is_no_frame_is_told(house: House, body: str, said: str) -> None:
    house.project(ONE.replace("BODY", body), {"helpers.py": HELPERS})
    outcome = house.run("$.one")
    assert outcome.status is TaskStatus.FAILED
    assert said in (outcome.error or "")
    assert "pipelines/all.py:" in (outcome.error or "")


def test_an_error_shows_the_lines_of_the_project_and_no_others(house: House) -> None:
    house.project(ONE.replace("BODY", "return broken('x')"), {"helpers.py": HELPERS})
    outcome = house.run("$.one")
    assert outcome.may_retry
    assert (outcome.error or "").splitlines() == [
        "KeyError: 'x'",
        "in your code, the innermost line last:",
        "  pipelines/all.py:9 in one",
        "    return broken('x')",
        "  helpers.py:2 in broken",
        "    return {}[x]",
    ]


def test_an_error_of_spark_is_its_message_and_the_line_that_led_to_it(house: House) -> None:
    body = "return spark.range(3).select('nobody')"
    house.project(ONE.replace("BODY", body), {"helpers.py": HELPERS})
    lines = (house.run("$.one").error or "").splitlines()
    assert lines[0].startswith("AnalysisException: [UNRESOLVED_COLUMN")
    assert "nobody" in lines[0]
    assert lines[1:] == [
        "in your code, the innermost line last:",
        "  pipelines/all.py:9 in one",
        f"    {body}",
    ]


def test_an_error_in_a_worker_of_spark_begins_with_what_was_raised(tmp_path: Path) -> None:
    told = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 9, in main
    process()
  File "/shop/pipelines/all.py", line 3, in share
    return 1 // x
           ~~^^~~
ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)"""

    assert describe(PythonException(told), tmp_path).splitlines() == [
        "PythonException: ZeroDivisionError: integer division or modulo by zero",
        "Traceback (most recent call last):",
        '  File "/shop/pipelines/all.py", line 3, in share',
        "    return 1 // x",
    ]


@pytest.mark.interop
def test_an_error_in_a_worker_of_spark_shows_what_python_said_there(house: House) -> None:
    body = "return spark.range(2).select(F.udf(lambda x: 1 // x, 'int')('id').alias('q'))"
    house.project(ONE.replace("BODY", body), {"helpers.py": HELPERS})
    error = house.run("$.one").error or ""
    assert error.startswith("PythonException: ZeroDivisionError: ")
    assert "pipelines/all.py" in error
    assert "\tat " not in error


def test_a_frame_of_another_session_is_staged_all_the_same(house: House) -> None:
    code = """
from pyspark.sql import SparkSession

@asset("$.one", checks=[c.row_count(max=1)])
def one():
    return SparkSession.builder.getOrCreate().range(2)
"""
    house.project(code)
    assert house.run("$.one").status is TaskStatus.BLOCKED
    assert house.rows("$.one") == []


@pytest.mark.parametrize(("code", "told"), [("3", "3"), ("", ""), ("'no data'", "'no data'")])
def test_code_that_exits_fails_its_own_task_and_nothing_else(
    house: House, code: str, told: str
) -> None:
    house.project(f"import sys\n\n@task()\ndef leave():\n    sys.exit({code})\n")
    outcome = house.run("leave")
    assert (outcome.status, outcome.may_retry) == (TaskStatus.FAILED, True)
    assert (outcome.error or "").splitlines() == [
        f"the code called sys.exit({told})",
        "in your code, the innermost line last:",
        "  pipelines/all.py:8 in leave",
        f"    sys.exit({code})",
    ]


def test_a_task_that_is_interrupted_from_the_keyboard_is_not_said_to_have_failed(
    house: House,
) -> None:
    house.project("@task()\ndef leave():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        house.run("leave")


def test_an_error_in_a_query_names_the_line_of_its_file(house: House) -> None:
    header = "/*---\nname: $.one\n---*/\n\n"
    query = "select id,\n  nobody\nfrom range(3)\n"
    house.project("", {"pipelines/one.sql": header + query})
    error = house.run("$.one").error or ""
    assert "line 6 pos 2" in error.splitlines()[0]
    house.project("", {"pipelines/one.sql": header + "select id\nfrom range(3 where\n"})
    error = house.run("$.one").error or ""
    assert "(line 6, pos " in error.splitlines()[0]


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


def test_several_outputs_are_all_staged_and_checked_before_one_is_published(house: House) -> None:
    house.project(SEVERAL)
    watch = Watched()
    task = house.lease("$.big", DAY, params={"keys": "big,small"})
    outcome = house.carry_out(task, watch)
    assert outcome.status is TaskStatus.BLOCKED
    assert house.rows("$.big") == house.rows("$.small") == []
    assert outcome.metrics == {"rows": 6}
    assert watch.lines == ["WARNING attempt 1 of {'ds': '2026-01-05'}"]
    assert watch.phases == ["reading", "computing", "writing", "checking"]
    assert (0.5, "half") in [(each.done, each.message) for each in watch.told]
    house.project(SEVERAL.replace("< 3", "< 4"))
    done = house.made("$.big", DAY, params={"keys": "big,small"})
    assert [each.table for each in done.outputs] == [house.name("$.big"), house.name("$.small")]
    assert len(house.rows("$.big")) == len(house.rows("$.small")) == 3


def test_an_output_that_is_missing_is_named(house: House) -> None:
    house.project(SEVERAL)
    outcome = house.run("$.big", DAY, params={"keys": "big"})
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


def test_a_task_does_all_by_itself(house: House) -> None:
    house.project(TASKS.replace("@task\n", "@task()\n"))
    outcome = house.made("loud")
    assert [(each.table, each.version) for each in outcome.outputs] == [(house.name("$.log"), 0)]
    assert house.rows("$.log") == [(0,), (1,)]


def test_a_task_is_called_though_the_schema_of_what_it_writes_cannot_be_made(house: House) -> None:
    house.project(TASKS.replace("@task\n", "@task()\n"))
    watch = Watched()
    outcome = house.carry_out(house.lease("away"), watch)
    assert outcome.status is TaskStatus.SUCCESS
    assert any(
        f"the schema of elsewhere.{house.schema}.log is not made" in line for line in watch.lines
    )


def test_a_maker_that_this_worker_does_not_know_is_told(house: House) -> None:
    house.project(SEVERAL)
    task = house.lease("$.big", DAY, params={"keys": "big,small"})
    house.project(TASKS.replace("@task\n", "@task()\n"))
    outcome = house.carry_out(task)
    assert not outcome.may_retry
    assert "is the code of this worker older than the plan?" in (outcome.error or "")
