"""Spark in other processes, a standalone cluster or a Connect server, makes the same rows on S3.

Nothing is given to them but Arco itself and the store's credentials in their environment: no jar.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.spark.cluster import HOME, await_port, cluster, executors, free_port, running
from tests.stores import store_url

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and two workers, each with one core."""
    with cluster(tmp_path) as url:
        yield url


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}"]
    command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1"]
    command += ["--conf", "spark.ui.enabled=false"]
    log = tmp_path / "connect.log"
    with running(command, log) as process:
        await_port(port, process, log)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def elsewhere(*flags: str, log: Path) -> Iterator[IO[str]]:
    """The program of the same name, and what it prints."""
    command = [sys.executable, "-m", "tests.spark.remote_comparison", *flags]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True)
        assert process.stdout is not None
        try:
            yield process.stdout
            assert process.wait() == 0, log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def figures(output: IO[str]) -> dict[str, int]:
    [last_line] = [line for line in output if line.startswith("{")]
    counts: dict[str, int] = json.loads(last_line)
    return counts


def test_a_cluster_makes_the_same_rows_on_s3(
    master: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = store_url("moto", request)
    with elsewhere("--master", master, "--url", url, log=tmp_path / "log") as output:
        counts = figures(output)
    assert counts["rows"] > 0
    assert all(any((tmp_path / f"worker-{number}").glob("app-*/*/stderr")) for number in (1, 2))


def test_a_cluster_that_loses_an_executor_makes_the_same_rows(
    master: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = store_url("moto", request)
    flags = ("--master", master, "--url", url, "--lines", "20000")
    with elsewhere(*flags, log=tmp_path / "log") as output:
        assert output.readline() == "begun\n"
        time.sleep(4)
        killed = executors(tmp_path / "worker-1")
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        counts = figures(output)
    assert len(killed) == 1
    assert counts["rows"] > 0


def test_spark_connect_makes_the_same_rows_on_s3(
    connect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = store_url("moto", request)
    with elsewhere("--remote", connect, "--url", url, log=tmp_path / "log") as output:
        counts = figures(output)
    assert counts["rows"] > 0
