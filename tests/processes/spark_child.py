"""The processes below a server, and events to give them something to do."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2

from tests.processes.server import Server, eventually

# A JVM starts in seconds, unless both cores have much else to do.
PATIENCE_S = 240

EXECUTIONS = "SELECT execution_id FROM system.executions ORDER BY execution_id"


def started(execution_id: str) -> dict[str, Any]:
    """An event as it is sent."""
    return {
        "event_type": "execution_started",
        "event_version": 1,
        "occurred_at": "2026-05-01T10:00:00Z",
        "source": {"type": "test"},
        "payload": {"execution_id": execution_id, "pipeline_id": "orders"},
    }


class EventClient:
    """One who sends events to a server and asks it for rows."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def send(self, *execution_ids: str) -> None:
        events = [started(each) for each in execution_ids]
        answer = await self.http.post("/api/v1/events", json=events)
        assert answer.status_code == 200, answer.text
        assert answer.json()["accepted"] == len(execution_ids)

    async def executions(self, freshness: str | None = None) -> list[str]:
        asked = {"sql": EXECUTIONS} | ({} if freshness is None else {"freshness": freshness})
        answer = await self.http.post("/api/v1/query", json=asked)
        assert answer.status_code == 200, answer.text
        return [row[0] for row in answer.json()["rows"]]

    async def until(self, *execution_ids: str) -> None:
        """Wait until these are published, and no others."""

        async def look() -> bool:
            await asyncio.sleep(0.5)  # asking takes of the time that is waited for
            return await self.executions() == list(execution_ids)

        await eventually(look, within_s=PATIENCE_S)

    async def health(self) -> dict[str, Any]:
        document: dict[str, Any] = (await self.http.get("/health")).json()
        return document

    async def metric(self, name: str) -> float:
        text = (await self.http.get("/metrics")).text
        return sum(
            float(value)
            for value in re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        )


@asynccontextmanager
async def talking(server: Server) -> AsyncIterator[EventClient]:
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        yield EventClient(http)


def family(pid: int) -> dict[int, str]:
    """The processes below one, with their command lines."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended meanwhile
        parents[int(folder.name)] = int(stat[1])
    descendants: dict[int, str] = {}
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown}
        descendants |= {child: commands[child] for child in grown}
    return descendants


def of_spark(pid: int) -> dict[int, str]:
    """What of them is there for Spark: our child, its JVM, and the workers of that."""
    marks = ("tier2-worker", "org.apache.spark", "spark.daemon")
    return {
        each: command
        for each, command in family(pid).items()
        if any(mark in command for mark in marks)
    }


def worker_of(pid: int) -> int:
    """The child that a server has for Spark."""
    (worker,) = [each for each, command in of_spark(pid).items() if "tier2-worker" in command]
    return worker


def jvm_of(pid: int) -> int:
    (jvm,) = [each for each, command in of_spark(pid).items() if "SparkSubmit" in command]
    return jvm


def environment(pid: int) -> str:
    """What a process was started with; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


@contextmanager
def spark_environments() -> Iterator[dict[int, tuple[str, str]]]:
    """The commands and environments of all processes of Spark that are started below us in the block."""
    before, is_over = of_spark(os.getpid()), Event()
    started_processes: dict[int, tuple[str, str]] = {}

    def watch() -> None:
        while not is_over.wait(0.1):
            for pid, command in of_spark(os.getpid()).items():
                if pid not in before and (variables := environment(pid)):
                    started_processes[pid] = (command, variables)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield started_processes
    finally:
        is_over.set()
        watcher.join()


def niceness(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
