"""Commits whose answer is lost: whatever a client makes of it, its rows are there once and can be read."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table
from requests.exceptions import ConnectionError as NoAnswer

from tests.interop import duckdb_client, pyiceberg_client, spark_client
from tests.interop.lossy_connection import LossyWay, lossy_way
from tests.interop.pyiceberg_client import connect, ids, numbered
from tests.interop.rest import Rest
from tests.interop.spark_client import LEAKS, Spark

pytestmark = [pytest.mark.interop, *LEAKS]


def client() -> str:
    return ", ".join(each.name() for each in (duckdb_client, pyiceberg_client, spark_client))


@pytest.fixture
def way(rest: Rest) -> Iterator[LossyWay]:
    with lossy_way(rest.uri) as opened:
        yield opened


def test_pyiceberg_says_that_it_does_not_know(
    rest: Rest, way: LossyWay, table: Table, namespace: str
) -> None:
    theirs = connect(Rest(way.url, rest.warehouse, rest.outside)).load_table((namespace, "t"))
    theirs.append(numbered(1))
    way.to_lose = 1
    with pytest.raises((CommitStateUnknownException, NoAnswer)):
        theirs.append(numbered(2))

    assert ids(table.refresh()) == [1, 2]


def test_duckdb_may_send_its_commit_again(
    rest: Rest, way: LossyWay, table: Table, namespace: str, tmp_path: Path
) -> None:
    db = duckdb_client.connect(Rest(way.url, rest.warehouse, rest.outside), tmp_path)
    db.execute(f"INSERT INTO arco.{namespace}.t VALUES (1, 'a')")
    way.to_lose = 1
    with suppress(duckdb.Error):
        db.execute(f"INSERT INTO arco.{namespace}.t VALUES (2, 'b')")

    assert ids(table.refresh()) == [1, 2]
    assert len(way.commits) >= 2


def test_duckdb_may_send_its_transaction_again(
    rest: Rest, way: LossyWay, table: Table, namespace: str, tmp_path: Path
) -> None:
    db = duckdb_client.connect(Rest(way.url, rest.warehouse, rest.outside), tmp_path)
    db.execute(f"CREATE TABLE arco.{namespace}.u (id BIGINT)")
    db.execute("BEGIN")
    db.execute(f"INSERT INTO arco.{namespace}.t VALUES (1, 'a')")
    db.execute(f"INSERT INTO arco.{namespace}.u VALUES (1)")
    way.to_lose = 1
    with suppress(duckdb.Error):
        db.execute("COMMIT")

    assert ids(table.refresh()) == [1]
    assert ids(connect(rest).load_table((namespace, "u"))) == [1]


def test_spark_leaves_its_files_alone(
    rest: Rest, way: LossyWay, spark: Spark, table: Table, namespace: str
) -> None:
    settings = spark.session.conf
    settings.set("spark.sql.catalog.lossy", "org.apache.iceberg.spark.SparkCatalog")
    settings.set("spark.sql.catalog.lossy.type", "rest")
    settings.set("spark.sql.catalog.lossy.uri", way.url)
    settings.set("spark.sql.catalog.lossy.warehouse", rest.warehouse)
    spark.run(f"INSERT INTO lossy.{namespace}.t VALUES (1, 'a')")
    way.to_lose = 1
    with pytest.raises(Exception, match="Error occurred while processing POST request"):
        spark.run(f"INSERT INTO lossy.{namespace}.t VALUES (2, 'b')")

    assert ids(table.refresh()) == [1, 2]
