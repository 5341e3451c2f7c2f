"""Spark that is started, lost and restarted, and the modules that it gets."""

import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from arco.core.errors import Unavailable
from arco.flow.define import load_project
from arco.flow.define.load import python_files
from arco.flow.spark.engine import WorkerSpark, send_modules
from tests.flow.spark.harness import Harness


class Gateway:
    """A way to a JVM that was killed while Spark was starting in it."""

    proc = None

    def __init__(self) -> None:
        self.closed = False

    def shutdown(self) -> None:
        self.closed = True


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not started Spark yet; afterwards all is as it was."""
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)


@pytest.mark.usefixtures("no_spark")
def test_a_jvm_that_dies_while_spark_starts_is_not_asked_again() -> None:
    gateways: list[Gateway] = []
    gateways_before: list[object] = []

    def opener() -> SparkSession:
        gateways_before.append(SparkContext._gateway)  # pyspark goes on with what is there
        gateways.append(Gateway())
        SparkContext._gateway = gateways[-1]
        raise Unavailable("Spark at local[*] could not be reached or started")

    engine = WorkerSpark(opener)
    for _ in range(2):
        with pytest.raises(Unavailable):
            engine.new_session()

    assert gateways_before == [None, None]
    assert [each.closed for each in gateways] == [True, True]
    assert not engine.is_open


CODE = {
    "pipelines/lent.py": (
        "from pyspark.sql import functions as F\n"
        "@F.udf('string')\n"
        "def shout(text):\n"
        "    from lent_words.loud import loud\n"
        "    return loud(text)\n"
    ),
    "lent_words/loud.py": "def loud(text):\n    return text.upper()\n",
}


def write(folder: Path, *more: str) -> Path:
    for name in (*CODE, *more):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE.get(name, ""))
    return folder


def test_what_a_function_imports_when_it_runs_is_found(harness: Harness, tmp_path: Path) -> None:
    folder, before = write(tmp_path), list(sys.path)
    loaded = load_project(folder)
    send_modules(harness.spark, python_files(folder))
    assert sys.path == before
    assert loaded.modules is not None
    shout = loaded.modules.load("pipelines.lent").shout
    rows = harness.spark.createDataFrame([("a",)], ["word"]).select(shout(col("word"))).collect()
    assert [row[0] for row in rows] == ["A"]


def test_environments_and_hidden_folders_stay_here(tmp_path: Path) -> None:
    write(tmp_path, ".hidden/a.py", "env/pyvenv.cfg", "env/lib/b.py", "__pycache__/c.py", "d.txt")
    assert set(python_files(tmp_path)) == set(CODE)


def test_a_project_of_queries_alone_sends_nothing(harness: Harness, tmp_path: Path) -> None:
    before = harness.spark.sparkContext.listFiles
    send_modules(harness.spark, python_files(tmp_path))
    assert harness.spark.sparkContext.listFiles == before


def test_the_same_modules_make_the_same_file(harness: Harness, tmp_path: Path) -> None:
    folder = write(tmp_path)
    send_modules(harness.spark, python_files(folder))
    once = harness.spark.sparkContext.listFiles
    send_modules(harness.spark, python_files(folder))
    assert harness.spark.sparkContext.listFiles == once


def test_modules_that_have_changed_are_imported_again(harness: Harness, tmp_path: Path) -> None:
    folder = write(tmp_path)
    shout = load_project(folder).modules.load("pipelines.lent").shout
    words = harness.spark.createDataFrame([("a",)], ["word"])
    send_modules(harness.spark, python_files(folder))
    assert [row[0] for row in words.select(shout(col("word"))).collect()] == ["A"]
    (folder / "lent_words/loud.py").write_text("def loud(text):\n    return text + '!'\n")
    changed = load_project(folder).modules.load("pipelines.lent").shout
    send_modules(harness.spark, python_files(folder))
    assert [row[0] for row in words.select(changed(col("word"))).collect()] == ["a!"]
