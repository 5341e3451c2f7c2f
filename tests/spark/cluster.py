"""A standalone cluster of Spark on this machine: a master and two workers, each in a separate process."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

HOME = Path(pyspark.__file__).parent
CLUSTER_ENV = {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"}
START_S = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(START_S * 10):
        assert process.poll() is None, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(log.read_text()[-3000:])


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, env={**os.environ, **CLUSTER_ENV}, cwd=log.parent, stdout=sink, stderr=sink
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core, which work below `folder`."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    program = [str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy"]
    with ExitStack() as stack:
        command = [program[0], f"{program[1]}.master.Master", "--host", "127.0.0.1"]
        command += ["--port", str(port), "--webui-port", "0"]
        log = folder / "master.log"
        await_port(port, stack.enter_context(running(command, log)), log)
        for number in (1, 2):
            command = [program[0], f"{program[1]}.worker.Worker", "--host", "127.0.0.1"]
            command += ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
            command += ["--work-dir", str(folder / f"worker-{number}"), url]
            stack.enter_context(running(command, folder / f"worker-{number}.log"))
        yield url


def executors(work: Path) -> list[int]:
    """The executors that a worker has started: each lives in a folder below the worker's own."""
    pids = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            is_java = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
            if is_java and work in (process / "cwd").readlink().parents:
                pids.append(int(process.name))
    return pids
