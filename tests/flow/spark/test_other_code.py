"""A worker publishes only from the code that a task was planned with, also after a reload."""

from collections.abc import Mapping

import msgspec
import pytest
from pyspark.sql import SparkSession

from arco.cli.flow.connection import ConnectedArco
from arco.cli.flow.flags import SparkFlags
from arco.cli.flow.project import LoadedFiles, load, load_files
from arco.cli.flow.spark_executor import make_executor
from arco.client.coordinator import HttpCoordinator
from arco.flow.coordinator.messages import AttemptOutcome, CodeVersion, LeasedTask, TaskStatus
from arco.flow.define import load_project
from arco.flow.define.load import python_files
from arco.flow.spark.engine import SparkOpener, send_modules
from arco.flow.worker.ports import project_code
from tests.flow.spark.harness import DAY, Harness, RecordingWatch

ASSET = """
def say(text):
    from spoken import loud  # a worker of Spark imports it when it runs this
    return loud.say(text)

@asset("$.words", partitions=Daily("ds", start="2026-01-01"), format="FORMAT", checks=[c.row_count(min=1)])
def words(spark, ctx):
    shout = F.udf(say)
    return spark.range(1).select(shout(F.lit("a")).alias("word"))
"""
MODULE = {"spoken/loud.py": "def say(text):\n    return 'first ' + text\n"}
EDITED = {"spoken/loud.py": "def say(text):\n    return 'second ' + text\n"}


def open_project(harness: Harness, code: str) -> None:
    """Load the project, and start Spark with its modules."""
    harness.project(code, MODULE)
    harness.executor.warm_up()
    harness.executor.switch(harness.loaded, python_files(harness.folder), reopen=False)


def planned(
    harness: Harness, asset: str = "$.words", *, code: CodeVersion | None = None
) -> LeasedTask:
    """A task that was planned with this code, or else with the code that is loaded."""
    task = harness.lease(asset, DAY)
    loaded = project_code(harness.loaded)[task.maker]
    return msgspec.structs.replace(task, code=code or loaded)


def assert_requeued(outcome: AttemptOutcome) -> None:
    assert outcome.status is TaskStatus.CANCELLED
    assert outcome.may_retry
    assert outcome.outputs == ()
    assert "planned with" in (outcome.error or "")


@pytest.mark.parametrize("format_", ["iceberg", "parquet"])
def test_a_task_that_was_planned_with_other_code_is_requeued_and_publishes_nothing(
    harness: Harness, format_: str
) -> None:
    open_project(harness, ASSET.replace("FORMAT", format_))
    loaded = planned(harness).code
    assert loaded is not None
    others = (
        CodeVersion(code="0" * 64, checks=loaded.checks),
        CodeVersion(code=loaded.code, checks="0" * 64),
    )
    for other in others:
        watch = RecordingWatch()
        assert_requeued(harness.execute(planned(harness, code=other), watch))
        assert watch.reported == []
    assert harness.shared.catalog.find(harness.name("$.words")) is None
    assert harness.execute(planned(harness)).status is TaskStatus.SUCCESS
    assert_requeued(harness.execute(planned(harness, code=others[0])))
    assert [row[0] for row in harness.rows("$.words")] == ["first a"]


def test_a_reloaded_project_runs_with_its_new_code_alone(harness: Harness) -> None:
    open_project(harness, ASSET.replace("FORMAT", "parquet"))
    old = planned(harness)
    assert harness.execute(old).status is TaskStatus.SUCCESS
    (harness.folder / "spoken" / "loud.py").write_text(EDITED["spoken/loud.py"])
    project = load_project(harness.folder)
    harness.executor.switch(project, python_files(harness.folder), reopen=False)
    assert_requeued(harness.execute(planned(harness, code=old.code)))
    assert [row[0] for row in harness.rows("$.words")] == ["first a"]
    harness.loaded = project
    assert harness.execute(planned(harness)).status is TaskStatus.SUCCESS
    assert [row[0] for row in harness.rows("$.words")] == ["second a"]


def test_spark_is_started_again_for_a_reloaded_project_that_needs_other_catalogs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = harness.shared
    needs: list[frozenset[str]] = []

    def open_shared(opener: SparkOpener) -> SparkSession:
        needs.append(opener.needs().catalogs)
        session = shared.open()
        assert opener.modules is not None
        send_modules(session, opener.modules())
        return session

    def loaded_files(code: str, module: Mapping[str, str]) -> LoadedFiles:
        harness.project(code, module)
        return load_files(harness.folder, lambda: load(str(harness.folder)))

    def run(task: LeasedTask) -> AttemptOutcome:
        return executor.execute(task, RecordingWatch())

    monkeypatch.setattr(SparkOpener, "__call__", open_shared)
    code = ASSET.replace("FORMAT", "parquet")
    files = loaded_files(code, MODULE)
    arco = ConnectedArco(shared.url, HttpCoordinator(shared.url, shared.runtime), None)
    executor = make_executor(files.loaded, files.modules, arco, SparkFlags(), shared.runtime)
    old = planned(harness)
    assert run(old).status is TaskStatus.SUCCESS
    opened = shared.opened

    files = loaded_files(code + ASSET.replace("FORMAT", "iceberg").replace("words", "more"), EDITED)
    executor.switch(files.loaded.project, files.modules)
    assert_requeued(run(planned(harness, code=old.code)))
    assert run(planned(harness, "$.more")).status is TaskStatus.SUCCESS
    assert [row[0] for row in harness.rows("$.more")] == ["second a"]
    assert shared.opened == opened + 1
    assert needs == [frozenset(), frozenset({"default"})]
