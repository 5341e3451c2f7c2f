"""The tables that the queries of the matrix read, in a session of any Spark."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DATABASE = "spark_catalog.shop"

_ROOT = "spark.arco.test.root"

ORDERS = """
    id bigint, customer_id bigint, amount double, status string, email string, payload string,
    tags array<string>, items array<struct<sku:string,qty:int>>, address struct<city:string,zip:string>,
    ds date
"""
_ORDERS = """
    (1, 1, 10.0, 'paid', 'a@x.eu', '{"k": 1}', array('a', 'b'), array(struct('s1', 1)),
     struct('Bern', '3000'), date'2026-01-01'),
    (2, 2, 20.0, 'open', 'b@y.eu', '{"k": 2}', array('b'), array(struct('s2', 2)),
     struct('Rome', '0100'), date'2026-01-02'),
    (3, 1, 30.0, 'paid', 'c@x.eu', '{"k": 3}', array('c'), array(struct('s3', 3)),
     struct('Oslo', '0150'), date'2026-01-03')
"""


def open_sample_session(root: Path, jar: Path | None) -> "SparkSession":
    """A session with the tables, and with Iceberg's catalog `ice` if there is a jar for it."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if jar is not None:
        settings |= {
            "spark.jars": str(jar),
            "spark.sql.extensions": (
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            ),
            "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(root / "ice"),
        }
    builder = SparkSession.builder.master("local[2]").appName("lineage")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    create_tables(session, root, iceberg=jar is not None)
    return session


def create_tables(session: "SparkSession", root: Path, *, iceberg: bool) -> None:
    """Create the tables in their own database, as other tests may use the same Spark."""
    session.conf.set(_ROOT, str(root))
    session.sql(f"drop database if exists {DATABASE} cascade")
    session.sql(f"create database {DATABASE} location '{root / 'tables'}'")
    session.sql(f"use {DATABASE}")
    _table(session, "orders", "using parquet partitioned by (ds)", ORDERS, _ORDERS)
    _table(
        session,
        "customers",
        "using parquet",
        "id bigint, name string, region string, parent_id bigint",
        "(1, 'Ann', 'eu', 2), (2, 'Bob', 'us', null)",
    )
    session.sql("create table spend (customer_id bigint, total double) using parquet")
    session.range(6).selectExpr("id", "id % 3 as k", "id % 2 as p").write.partitionBy("p").parquet(
        str(root / "events")
    )
    if iceberg:
        _table(
            session,
            "ice.db.sales",
            "using iceberg partitioned by (ds)",
            "id bigint, amount double, ds date",
            "(1, 10.0, date'2026-01-01'), (2, 20.0, date'2026-01-02')",
        )
        _table(
            session,
            "ice.db.ledger",
            "using iceberg",
            "id bigint, amount double, note string",
            "(1, 1.0, 'a'), (9, 9.0, 'z')",
        )


def _table(session: "SparkSession", name: str, table_clauses: str, columns: str, rows: str) -> None:
    session.sql(f"create table {name} ({columns}) {table_clauses}")
    session.sql(f"insert into {name} values {rows}")


def new_session(spark: "SparkSession") -> "SparkSession":
    """Another session over the same tables."""
    session = spark.newSession()
    session.sql(f"use {DATABASE}")
    session.conf.set(_ROOT, str(root_of(spark)))
    return session


def root_of(session: "SparkSession") -> Path:
    """The folder of the tables."""
    root = session.conf.get(_ROOT)
    assert root is not None
    return Path(root)
