"""Compaction of events beside a server: Spark in a child of its own, which may die or never come."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.cli.command import arco, is_one_sentence
from tests.processes.deployment import TOKEN
from tests.processes.server import Server, eventually, running
from tests.processes.spark_child import (
    PATIENCE_S,
    environment,
    is_running,
    jvm_of,
    niceness,
    of_spark,
    spark_environments,
    talking,
    worker_of,
)

# Empty counts as not set. What is tested is what becomes of events, not how long they gather.
SPARK = {"ARCO_NO_SPARK": "", "ARCO_COMPACT_EVERY": "0"}
CANARY = "a-secret-that-spark-does-not-need"


def up(root: Path, *flags: str, **variables: str) -> Server:
    log = root.parent / f"{root.name}.log"
    return Server(["up", "--root", str(root), "--no-fsync", *flags], log=log, **variables)


def java_that(folder: Path, *lines: str) -> str:
    """A folder for PATH with a `java` that does what these lines of shell say."""
    folder.mkdir()
    script = folder / "java"
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    script.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.timeout(900)
async def test_a_niced_child_compacts_and_never_outlives_its_parent(
    tmp_path: Path,
) -> None:
    server = up(tmp_path / "store", **SPARK, DB_PASSWORD=CANARY)
    async with running(server), talking(server) as at:
        assert CANARY in environment(server.pid)
        assert of_spark(server.pid) == {}  # nothing to compact, nothing at rest
        assert (await at.health())["compaction"]["state"] == "waiting"
        await at.send("a", "b")
        await at.until("a", "b")
        assert (await at.health())["compaction"] == {"state": "running"}
        assert await at.metric("arco_compaction_events_total") == 2
        assert niceness(jvm_of(server.pid)) == niceness(server.pid) + 5

        left = of_spark(server.pid)
        assert len(left) >= 3  # or this shows nothing: child, JVM, workers
        assert {worker_of(server.pid), jvm_of(server.pid)} < left.keys()
        for pid, command in left.items():
            assert CANARY not in environment(pid), command
        assert "MALLOC_ARENA_MAX=2" in environment(jvm_of(server.pid))
        for process, most_bytes in (("driver", 1e9), ("jvm", 350e6), ("python_workers", 10e9)):
            memory = await at.metric(f'arco_spark_memory_bytes{{process="{process}"}}')
            assert 10e6 < memory < most_bytes, process
        assert await at.metric("arco_http_connections") == 1
        assert await at.metric("arco_store_free_bytes") > 0
        server.kill()

        async def look() -> bool:
            return not any(is_running(each) for each in left)

        await eventually(look, within_s=30)


async def test_without_spark_events_wait_and_fresh_reads_show_them(tmp_path: Path) -> None:
    server = up(tmp_path / "store", "--no-spark", PATH="/nowhere", JAVA_HOME="")  # nor Java
    async with running(server), talking(server) as at:
        await at.send("a")
        assert await at.executions() == []
        assert await at.executions("fresh") == ["a"]
        assert of_spark(server.pid) == {}
        health = await at.health()
        assert health["status"] == "degraded"
        assert health["compaction"]["state"] == "off"
        assert "--no-spark" in health["compaction"]["reason"]


@pytest.mark.interop
@pytest.mark.timeout(600)
async def test_once_compacts_all_there_is_and_then_does_not_even_start_spark(
    tmp_path: Path,
) -> None:
    server = up(tmp_path / "store")
    async with running(server), talking(server) as at:
        await at.send("a", "b")
        with spark_environments() as spark:
            flags = ("--once", "--root", tmp_path / "store", "--no-fsync")
            run = arco("compactor", *flags, DB_PASSWORD=CANARY)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("Compacted 2 events in 1 commits: ")
        assert any("SparkSubmit" in command for command, _ in spark.values())
        assert any("spark.daemon" in command for command, _ in spark.values())
        assert all(CANARY not in variables for _, variables in spark.values())
        assert await at.executions() == ["a", "b"]
    second_run = arco("compactor", "--once", "--root", tmp_path / "store")
    assert (second_run.returncode, second_run.stdout) == (0, "There is nothing to compact.\n")


@pytest.mark.parametrize(
    ("command", "java"),
    [
        (("up",), ("echo 'openjdk version \"11.0.2\"' >&2",)),
        (("compactor",), ("exit 1",)),
        (("compactor", "--once"), None),
        (("compactor", "--rebuild"), None),
    ],
)
def test_a_java_that_is_missing_or_too_old_is_one_sentence_at_start(
    tmp_path: Path, command: tuple[str, ...], java: tuple[str, ...] | None
) -> None:
    path = "/nowhere" if java is None else java_that(tmp_path / "bin", *java)
    store = tmp_path / "store"
    run = arco(*command, "--root", store, PATH=path, JAVA_HOME="", ARCO_SERVICE_TOKEN=TOKEN)
    assert run.returncode == 1
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert re.search(r"Java.*--no-spark", run.stderr)
    assert not store.exists()


async def test_a_spark_that_does_not_start_is_reported_and_retried_while_all_else_goes_on(
    tmp_path: Path,
) -> None:
    # It knows its version, and nothing else.
    java = ('[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit 0', "exit 1")
    path = java_that(tmp_path / "bin", *java)
    server = up(tmp_path / "store", PATH=path, JAVA_HOME="", **SPARK)
    async with running(server), talking(server) as at:
        await at.send("a")

        async def look() -> bool:
            return await at.metric("arco_compaction_restarts_total") >= 1

        await eventually(look, within_s=PATIENCE_S)
        assert (await at.health())["compaction"]["state"] == "restarting"
        assert await at.executions("fresh") == ["a"]
        made = await at.http.post("/api/v1/catalogs/default/schemas", json={"name": "s"})
        assert made.status_code == 201
        began = time.monotonic()
        server.send(signal.SIGTERM)
        assert await server.exit_code(within_s=30) == 0
        assert time.monotonic() - began < 15
    failure_lines = [line for line in server.log.read_text().splitlines() if "Spark failed" in line]
    assert failure_lines
    assert "could not be" in failure_lines[0]
    assert "Traceback" not in server.log.read_text()


@pytest.mark.interop  # a JVM each for a service, its successor and a rebuild
@pytest.mark.timeout(900)
async def test_apart_the_api_rings_and_the_compactor_folds_keeps_and_rebuilds(
    tmp_path: Path,
) -> None:
    place = ["--root", str(tmp_path / "store"), "--no-fsync"]
    compactor = Server(
        ["compactor", *place], log=tmp_path / "c.log", ARCO_SERVICE_TOKEN=TOKEN, **SPARK
    )
    api = Server(
        ["api", *place, "--compactor", compactor.url],
        log=tmp_path / "api.log",
        ARCO_SERVICE_TOKEN=TOKEN,
    )
    async with running(compactor, api), talking(api) as at, talking(compactor) as beside:
        await at.send("a")
        await at.until("a")
        # Warm, and rung for: it does not wait until it would look by itself.
        began = time.monotonic()
        await at.send("b")
        await at.until("a", "b")
        assert time.monotonic() - began < 10
        assert await beside.metric("arco_compaction_events_total") == 2
        # A child that is killed is replaced; one without its JVM is of no use, and says so by its end.
        first = worker_of(compactor.pid)
        for restarts, victim in enumerate((first, None), start=1):
            os.kill(victim or jvm_of(compactor.pid), signal.SIGKILL)
            await at.send(f"c{restarts}")
            await at.until("a", "b", *(f"c{each}" for each in range(1, restarts + 1)))
            assert worker_of(compactor.pid) != first
            assert await beside.metric("arco_compaction_restarts_total") == restarts
        assert (await at.health())["compaction"]["state"] == "elsewhere"
        compactor.send(signal.SIGTERM)
        assert await compactor.exit_code(within_s=15) == 0
        run = arco("compactor", "--rebuild", "--domain", "executions", *place)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("Rebuilt executions from nothing as manifest ")
        assert await at.executions() == ["a", "b", "c1", "c2"]


@pytest.mark.interop  # it starts a JVM twice, and waits
@pytest.mark.timeout(900)
async def test_a_spark_that_idles_is_ended_and_comes_back_with_the_next_event(
    tmp_path: Path,
) -> None:
    server = up(tmp_path / "store", "--spark-idle", "3s", **SPARK)
    async with running(server), talking(server) as at:
        await at.send("a")
        await at.until("a")

        async def is_free() -> bool:
            return of_spark(server.pid) == {}

        await eventually(is_free, within_s=60)
        assert await at.metric("arco_compaction_restarts_total") == 0
        await at.send("b")
        await at.until("a", "b")
