"""The examples of docs/how-to/connect-engines.md, run unchanged in a schema of the test."""

import re
from pathlib import Path

import pytest

from tests.interop import duckdb_client, pyiceberg_client, spark_client
from tests.interop.pyiceberg_client import connect
from tests.interop.rest import Rest
from tests.interop.spark_client import LEAKS, Spark

pytestmark = [pytest.mark.interop, *LEAKS]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-engines.md"


def client() -> str:
    return ", ".join(each.name() for each in (duckdb_client, pyiceberg_client, spark_client))


def _example(engine: str, namespace: str) -> str:
    """The block after the one that connects, under the heading of an engine."""
    section = (
        PAGE.read_text(encoding="utf-8").partition(f"\n## {engine}\n")[2].partition("\n## ")[0]
    )
    blocks = re.findall(r"```(?:python|sql)\n(.*?)```", section, re.DOTALL)
    assert "sales" in blocks[1]
    return str(blocks[1]).replace("sales", namespace)


def test_the_example_of_spark_works(spark: Spark, namespace: str) -> None:
    for statement in _example("Spark", namespace).split(";\n"):
        if statement.strip():
            spark.run(statement)

    assert spark.ask(f"SELECT id, customer FROM arco.{namespace}.orders") == [(1, "bob")]


def test_the_example_of_pyiceberg_works(
    rest: Rest, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(_example("PyIceberg", namespace), {"catalog": connect(rest)})

    assert '[["bob"]]' in capsys.readouterr().out


def test_the_example_of_duckdb_works(rest: Rest, namespace: str, tmp_path: Path) -> None:
    if rest.served is None:
        pytest.skip("on a local disk this needs a server that makes the folders of a table")
    db = duckdb_client.connect(rest, tmp_path)
    db.execute(_example("DuckDB", namespace))

    order_rows: list[tuple[int, str]] = duckdb_client.ask(
        db, f"FROM arco.{namespace}.orders ORDER BY id"
    )
    assert order_rows == [(1, "eve"), (2, "bob")]
