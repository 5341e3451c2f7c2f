"""The modules of a project reach whoever works for Spark."""

import sys
from pathlib import Path

from pyspark.sql.functions import col

from arco.flow.define import load_project
from arco.flow.define.load import python_files
from arco.flow.spark.parcel import send_modules
from tests.flow.spark.house import House

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


def test_what_a_function_imports_when_it_runs_is_found(house: House, tmp_path: Path) -> None:
    folder, before = write(tmp_path), list(sys.path)
    loaded = load_project(folder)
    send_modules(house.spark, python_files(folder))
    assert sys.path == before
    assert loaded.modules is not None
    shout = loaded.modules.load("pipelines.lent").shout
    rows = house.spark.createDataFrame([("a",)], ["word"]).select(shout(col("word"))).collect()
    assert [row[0] for row in rows] == ["A"]


def test_environments_and_hidden_folders_stay_here(tmp_path: Path) -> None:
    write(tmp_path, ".hidden/a.py", "env/pyvenv.cfg", "env/lib/b.py", "__pycache__/c.py", "d.txt")
    assert set(python_files(tmp_path)) == set(CODE)


def test_a_project_of_queries_alone_sends_nothing(house: House, tmp_path: Path) -> None:
    before = house.spark.sparkContext.listFiles
    send_modules(house.spark, python_files(tmp_path))
    assert house.spark.sparkContext.listFiles == before


def test_the_same_modules_make_the_same_file(house: House, tmp_path: Path) -> None:
    folder = write(tmp_path)
    send_modules(house.spark, python_files(folder))
    once = house.spark.sparkContext.listFiles
    send_modules(house.spark, python_files(folder))
    assert house.spark.sparkContext.listFiles == once


def test_modules_that_have_changed_are_imported_again(house: House, tmp_path: Path) -> None:
    folder = write(tmp_path)
    shout = load_project(folder).modules.load("pipelines.lent").shout
    words = house.spark.createDataFrame([("a",)], ["word"])
    send_modules(house.spark, python_files(folder))
    assert [row[0] for row in words.select(shout(col("word"))).collect()] == ["A"]
    (folder / "lent_words/loud.py").write_text("def loud(text):\n    return text + '!'\n")
    again = load_project(folder).modules.load("pipelines.lent").shout
    send_modules(house.spark, python_files(folder))
    assert [row[0] for row in words.select(again(col("word"))).collect()] == ["a!"]
