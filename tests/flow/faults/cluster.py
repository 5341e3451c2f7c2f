"""An `arco up` with real workers, each a group of processes that can be killed, stopped and restarted."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from arco.client.coordinator import HttpCoordinator
from arco.core.errors import Unavailable, Unknown
from arco.core.runtime import Runtime, system_runtime
from arco.flow.coordinator.messages import RunStatus, RunView, TaskView
from tests.cli.command import ARCO
from tests.flow.faults import spark_flags
from tests.flow.faults.audit import read_rows
from tests.flow.faults.pipeline import NAP, Rows
from tests.flow.faults.project_root import TIMEOUT_S, ProjectRoot, environment
from tests.processes.server import Server

OVER = (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.CANCELLED)


class ArcoProcess:
    """A process with a JVM in a new process group; its output goes to a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        self._open = log.open("w")
        self.process = subprocess.Popen(
            [str(ARCO), *command],
            stdout=self._open,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        return self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        """To all of it, the JVM too."""
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Leave nothing behind."""
        with suppress(ProcessLookupError):  # all of it has ended by itself
            self.send(signal.SIGKILL)
        self.process.wait(30)
        self._open.close()

    def jvm(self) -> int | None:
        """The process of its JVM, if it has one now."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                name = (entry / "comm").read_text().strip()
                group = os.getpgid(int(entry.name))
            except (OSError, ProcessLookupError):
                continue  # it has just ended
            if name == "java" and group == self.process.pid:
                return int(entry.name)
        return None


class Cluster:
    """A server, workers, and a client of the coordinator."""

    def __init__(self, place: ProjectRoot, folder: Path) -> None:
        self.place = place
        self.folder = folder
        self.runtime: Runtime = system_runtime()
        flags = ["up", "--root", str(place.root), "--no-fsync", "--no-spark"]
        self.server = Server(flags, log=folder / "up.log")
        self.processes: dict[str, ArcoProcess] = {}
        self.coordinator = HttpCoordinator(self.server.url, self.runtime)

    async def worker(self, name: str) -> ArcoProcess:
        """A worker that is warm."""
        flags = ["--project", str(self.place.project), "--url", self.server.url]
        command = ["worker", "--name", name, "--slots", "1", *flags, *spark_flags.FLAGS]
        process = self.processes[name] = ArcoProcess(command, self.folder / f"{name}.log")
        await until(lambda: "takes tasks" in process.output)
        return process

    def submit(self, *selection: str, partitions: str, nap_ms: int = 0) -> str:
        """A run that is left to the workers."""
        params = ("--param", f"{NAP}={nap_ms}") if nap_ms else ()
        flags = ("--project", str(self.place.project), "--url", self.server.url, "--detach")
        run_command = self.place.arco(
            "run", *selection, *flags, "--partitions", partitions, "--json", *params
        )
        assert run_command.code == 0, run_command.errors
        return str(run_command.document()["run_id"])

    async def at_work(self, run_id: str, phase: str = "writing") -> TaskView:
        """A task of a run that has reached a phase, by its heartbeats."""
        ends = time.monotonic() + TIMEOUT_S
        while time.monotonic() < ends:
            for each in (await self.coordinator.get_run(run_id)).changed:
                if each.progress is not None and each.progress.phase == phase:
                    return each
            await asyncio.sleep(0.2)
        raise AssertionError(f"no task of {run_id} came to {phase}")

    async def over(self, run_id: str) -> RunView:
        """A run once it is over."""
        ends = time.monotonic() + TIMEOUT_S
        while time.monotonic() < ends:
            try:
                view = await self.coordinator.get_run(run_id)
            except (Unavailable, Unknown):
                await asyncio.sleep(0.5)
                continue
            if view.status in OVER:
                return view
            await asyncio.sleep(0.3)
        raise AssertionError(f"{run_id} does not end")

    async def rows(self, *tables: str) -> Rows:
        return await asyncio.to_thread(read_rows, self.server.url, tables, self.runtime)

    async def close(self) -> None:
        for process in self.processes.values():
            process.end()
        await self.coordinator.close()
        self.server.end()


@asynccontextmanager
async def start_cluster(place: ProjectRoot, folder: Path, *names: str) -> AsyncIterator[Cluster]:
    """A server with workers of these names, until the block ends."""
    cluster = Cluster(place, folder)
    try:
        await cluster.server.start()
        await asyncio.gather(*map(cluster.worker, names))
        yield cluster
    finally:
        await cluster.close()


async def until(asked: Callable[[], bool], within_s: float = TIMEOUT_S) -> None:
    """Wait until a condition holds."""
    ends = time.monotonic() + within_s
    while not asked():
        assert time.monotonic() < ends, "it did not come"
        await asyncio.sleep(0.1)
