"""Engines that have to show a token, with the lines that `arco connect` prints for them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import UnauthorizedError

from arco.cli.connect import SnippetEngine
from tests.cli.command import arco
from tests.cli.serving import Served, serving
from tests.interop import duckdb_client, pyiceberg_client, spark_client
from tests.interop.rest import URI
from tests.interop.spark_client import LEAKS, Spark

pytestmark = [pytest.mark.interop, *LEAKS]


def client() -> str:
    return ", ".join(each.name() for each in (duckdb_client, pyiceberg_client, spark_client))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    if URI in os.environ:
        pytest.skip(f"{URI} names a server with other tokens")
    with serving(tmp_path / "store", "--auth", "local") as up:
        yield up


@pytest.fixture
def token(served: Served) -> str:
    return arco("token", "mint", "user:ana", "--root", served.root).stdout.strip()


def _snippet(served: Served, engine: SnippetEngine, token: str) -> str:
    run = served.arco("connect", engine, ARCO_TOKEN=token)
    assert run.returncode == 0, run.stderr
    assert token not in run.stdout
    return run.stdout


def test_pyiceberg_shows_its_token(
    served: Served, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCO_TOKEN", token)
    names: dict[str, object] = {}
    exec(_snippet(served, SnippetEngine.PYICEBERG, token), names)

    with pytest.raises(UnauthorizedError):
        load_catalog("nobody", type="rest", uri=f"{served.url}/iceberg", warehouse="default")


def test_duckdb_shows_its_token(served: Served, token: str, tmp_path: Path) -> None:
    connection = duckdb.connect(config={"extension_directory": str(tmp_path)})
    duckdb_client.install(connection)
    # The shell of DuckDB has this function; its library has not.
    connection.execute(
        f"CREATE MACRO getenv(name) AS CASE name WHEN 'ARCO_TOKEN' THEN '{token}' END"
    )
    connection.execute(_snippet(served, SnippetEngine.DUCKDB, token))
    connection.execute("CREATE SCHEMA arco.sales")

    assert ("arco", "sales") in connection.execute(
        "SELECT catalog_name, schema_name FROM information_schema.schemata"
    ).fetchall()
    with pytest.raises(duckdb.Error, match="401"):
        connection.execute(
            f"ATTACH 'default' AS other (TYPE iceberg, ENDPOINT '{served.url}/iceberg', "
            "AUTHORIZATION_TYPE 'none')"
        )


def test_spark_shows_its_token(
    served: Served, token: str, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCO_TOKEN", token)
    lines = _snippet(served, SnippetEngine.SPARK, token)
    # Of a session that runs already, only the settings of a catalog that is new to it can be set.
    settings = re.findall(r'\.config\("spark\.sql\.catalog\.arco([^"]*)", (.*)\)', lines)
    for name, value in settings:
        spark.session.conf.set(f"spark.sql.catalog.guarded{name}", eval(value))
        if name != ".token":
            spark.session.conf.set(f"spark.sql.catalog.unknown{name}", eval(value))
    spark.run("CREATE NAMESPACE guarded.sales")

    assert spark.ask("SHOW NAMESPACES IN guarded") == [("sales",)]
    with pytest.raises(Exception, match="NotAuthorizedException"):
        spark.ask("SHOW NAMESPACES IN unknown")
