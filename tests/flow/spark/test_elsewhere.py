"""Pipelines with tables on S3, and on a Spark cluster: the same rows, in every mode."""

import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest

from arco.flow.spark.jars import S3_VARIABLE, VARIABLE, s3_jars
from tests.cli import command
from tests.cli.serving import Served, inherited, serving
from tests.iceberg_jar import iceberg_jar
from tests.interop.java import java
from tests.spark.cluster import cluster, executors
from tests.stores import store_url

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]

FORMATS = ("iceberg", "parquet")
DAYS = ("2026-01-01", "2026-01-02")
WORDS = "def loud(text):\n    return text.upper()\n"
PIPELINE = """
import time
from pathlib import Path

from arco import Daily, asset, checks as c, merge, table
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from pipelines import words
from pipelines.words import loud

DAYS = Daily("ds", start="2026-01-01", end="2026-01-03")


@F.udf(StringType())
def shout(text, nap, begun):
    from pipelines.words import loud as again

    if nap:
        Path(begun).touch()
        time.sleep(nap)
    return words.loud(text) + loud(text) + again(text)


@asset("t.raw", partitions=DAYS, checks=[c.not_null("id"), c.row_count(min=40)])
def raw(spark):
    return spark.range(0, 40, 1, 4).select("id", F.concat(F.lit("w"), "id").alias("word"))


@asset("t.loud", partitions=DAYS, checks=[c.unique("id")])
def louder(ctx, raw=table("t.raw")):
    nap, begun = float(ctx.params.get("nap", "0")), ctx.params.get("begun", "")
    word = shout("word", F.lit(nap), F.lit(begun))
    return raw.repartition(4).select("id", word.alias("word"))


@asset("t.log", mode="append")
def log(loud=table("t.loud")):
    return loud.groupBy("ds").count()


@asset("t.few", mode="replace")
def few(loud=table("t.loud")):
    return loud.where("id < 10").select("id", "word", "ds")


@asset("t.latest", mode=merge(on=["id"]), format="iceberg")
def latest(few=table("t.few")):
    return few.where("ds = '2026-01-02'").select("id", "word")


@asset("t.bad", checks=[c.row_count(min=1_000)])
def bad(few=table("t.few")):
    return few
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "arco.toml").write_text('name = "elsewhere"\n')
    (folder / "pipelines" / "all.py").write_text(PIPELINE)
    (folder / "pipelines" / "words.py").write_text(WORDS)
    return folder


def variables() -> dict[str, str]:
    """Where the jars are."""
    java()
    return {VARIABLE: str(iceberg_jar()), S3_VARIABLE: ",".join(map(str, s3_jars().paths))}


def begin(project: Path, *flags: str) -> subprocess.Popen[str]:
    """`arco run` as a process, from a folder outside of the project."""
    outside = project.parent / "outside"
    outside.mkdir(exist_ok=True)
    return subprocess.Popen(
        [command.ARCO, "run", "--project", str(project), "--memory", "1g", *flags],
        cwd=outside,
        env=inherited() | variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(project: Path, *flags: str, code: int = 0) -> str:
    process = begin(project, *flags)
    output, _ = process.communicate()
    assert process.returncode == code, output
    return output


def rows_on_s3(served: Served, endpoint: str, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table, read by a program that knows nothing of Spark."""
    table_document = served.document("table", "show", table)
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    if table_document["format"] == "ICEBERG":
        return _by_pyiceberg(served.url, endpoint, table)
    rows: list[dict[str, Any]] = []
    now = served.document("table", "files", table)
    bucket, _, home = now["location"].removeprefix("s3://").partition("/")
    for file in (each for some in now["files"].values() for each in some):
        body = client.get_object(Bucket=bucket, Key=home + file["path"])["Body"].read()
        rows += pq.read_table(io.BytesIO(body)).to_pylist()
    return sorted(tuple(str(each) for each in row.values()) for row in rows)


def _by_pyiceberg(url: str, endpoint: str, table: str) -> list[tuple[Any, ...]]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "arco",
        type="rest",
        uri=f"{url}/iceberg",
        warehouse="default",
        **{"s3.endpoint": endpoint, "s3.region": "us-east-1"},
    )
    rows = catalog.load_table(table).scan().to_arrow().to_pylist()
    return sorted(tuple(str(each) for each in row.values()) for row in rows)


def _objects(endpoint: str, prefix: str) -> list[str]:
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="arco", Prefix=prefix)
    return [each["Key"] for page in pages for each in page.get("Contents", ())]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_mode_writes_the_same_rows_on_s3(
    kind: str, project: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = store_url("minio", request)
    prefix, _, endpoint = store.removeprefix("s3://arco/").partition("?endpoint=")
    with serving(tmp_path / "store", "--log-level", "warning", store=store) as served:
        flags = ("--url", served.url, "--format", kind, "--master", "local[2]")
        assets = ("t.raw", "t.loud", "t.log", "t.few", "t.latest")
        run(project, *assets, *flags)
        run(project, *assets, *flags, "--force", "--append-again")
        blocked = run(project, "t.bad", *flags, code=1)

        def rows(table: str) -> list[tuple[Any, ...]]:
            return rows_on_s3(served, endpoint, table)

        assert rows("t.loud") == sorted(
            (str(each), f"W{each}" * 3, day) for each in range(40) for day in DAYS
        )
        assert rows("t.log") == sorted((day, "40") for day in (*DAYS, *DAYS))
        assert rows("t.few") == sorted(
            (str(each), f"W{each}" * 3, day) for each in range(10) for day in DAYS
        )
        assert rows("t.latest") == sorted((str(each), f"W{each}" * 3) for each in range(10))
        assert "nothing was published" in blocked
        assert rows("t.bad") == []
        # No object stands for a folder, and nothing that is on its way was left.
        assert not [key for key in _objects(endpoint, prefix) if key.endswith("/")]
        assert not [key for key in _objects(endpoint, prefix) if "__magic" in key]


def test_a_cloud_without_jars_is_refused_before_anything_runs(
    project: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = store_url("fault-gcs", request)
    with serving(tmp_path / "store", store=store) as served:
        output = run(project, "t.raw", "--url", served.url, "--master", "local[2]", code=1)
        assert "the tables are on gs://" in output
        assert "spark.jars.packages" in output
        assert served.items("runs") == []


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with cluster(tmp_path) as url:
        yield url


def _await(path: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(6_000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    pytest.fail("the function was never called")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_cluster_that_loses_an_executor_makes_all_rows_once(
    kind: str, master: str, project: Path, tmp_path: Path
) -> None:
    begun, root = tmp_path / "begun", tmp_path / "store"
    process = begin(
        project,
        *("t.raw", "t.loud", "t.log", "--root", str(root), "--format", kind),
        *("--master", master, "--conf", "spark.executor.memory=512m"),
        *("--conf", "spark.sql.shuffle.partitions=2"),
        *("--param", "nap=0.3", "--param", f"begun={begun}"),
    )
    _await(begun, process)
    killed = executors(tmp_path / "worker-1")
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert len(killed) == 1
    assert all(any((tmp_path / f"worker-{number}").glob("app-*/*/stderr")) for number in (1, 2))
    state = _state(root)
    assert state["rows"] == {"raw": 80, "loud": 80, "log": 2}
    assert state["columns"] == {"id", "word"}


def _state(root: Path) -> Mapping[str, Any]:
    """What the catalog says of the tables, and of where columns come from."""
    rows = _sql(
        root,
        "SELECT t.name, sum(p.row_count) FROM system.partitions p "
        "JOIN system.tables t ON t.table_id = p.table_id GROUP BY 1",
    )
    columns = _sql(
        root,
        "SELECT DISTINCT c.name FROM system.lineage_edges e "
        "JOIN system.columns c ON c.column_id = e.target_column_id "
        "JOIN system.tables t ON t.table_id = e.target_table_id WHERE t.name = 'loud'",
    )
    return {"rows": dict(rows), "columns": {each for [each] in columns}}


def _sql(root: Path, query: str) -> list[list[Any]]:
    done = subprocess.run(
        [command.ARCO, "sql", query, "--fresh", "--json", "--root", str(root)],
        env=inherited(),
        capture_output=True,
        text=True,
        check=True,
    )
    rows: list[list[Any]] = json.loads(done.stdout)["rows"]
    return rows
