"""Kills of servers and of all that Spark has below them, at moments that are drawn from a seed."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from arco.catalog.manifest import manifests_of
from arco.compactor.backlog import has_backlog
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TIER2
from arco.storage.store import Store
from tests.processes.server import Server, eventually
from tests.processes.spark_child import PATIENCE_S, of_spark

# How the command lines below a server tell the child, its JVM, and Spark's Python workers apart.
MARKS = {"child": "tier2-worker", "JVM": "SparkSubmit", "executor": "spark.daemon"}
# Of the processes of one test. Compaction passes variables of Spark on, so all that they start have it.
SIGN = "SPARK_TEST_SIGN"


@dataclass(frozen=True)
class EventDeployment:
    """Servers that take events, servers that have Spark below them, and the store of them all."""

    name: str
    place: tuple[str, ...]
    apis: tuple[Server, ...]
    compactors: tuple[Server, ...]
    store: Store  # as one who only looks
    sign: str

    @property
    def servers(self) -> dict[Server, str]:
        """All of them, with what they are."""
        api, compactor = ("up", "up") if self.apis == self.compactors else ("API", "compactor")
        return dict.fromkeys(self.apis, api) | dict.fromkeys(self.compactors, compactor)

    async def number(self) -> int:
        """The newest manifest of the busiest domain."""
        return (await manifests_of(self.store, EXECUTIONS_DOMAIN).head()).number

    async def until_published(self, last_number: int) -> None:
        """Until there is a manifest above a number."""

        async def look() -> bool:
            await asyncio.sleep(0.2)
            return await self.number() > last_number

        await eventually(look, within_s=PATIENCE_S)

    async def until_caught_up(self) -> None:
        """Until nothing in the ledger waits."""

        async def look() -> bool:
            await asyncio.sleep(0.5)
            return not any([await has_backlog(self.store, domain, {}) for domain in TIER2])

        await eventually(look, within_s=PATIENCE_S)

    def await_file(self, folder: str, within_s: float = 3.0) -> None:
        """Until a file appears in a folder on local disk, which is in the midst of a cycle."""
        flag, root = self.place[:2]
        path = Path(root) / "tenant=default/workspace=default" / folder
        if flag != "--root" or not path.exists():
            return
        before, until_s = len(os.listdir(path)), time.monotonic() + within_s  # noqa: PTH208 - to be quick
        while len(os.listdir(path)) == before and time.monotonic() < until_s:  # noqa: PTH208
            time.sleep(0.001)

    def processes(self) -> dict[int, str]:
        """All that were started here and still live, be it below a server or left behind by one."""
        commands = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                signs = (folder / "environ").read_bytes().split(b"\0")
                if f"{SIGN}={self.sign}".encode() in signs:
                    command = (folder / "cmdline").read_text().replace("\0", " ")
                    commands[int(folder.name)] = command
        return commands


@dataclass(frozen=True)
class Kill:
    """What was killed, and when: by the wall, and from the same start as other spans."""

    kind: str
    at: float
    elapsed_s: float


@dataclass
class Killer:
    """Kills processes of these kinds. Servers begin again; all else is for them to replace."""

    deployment: EventDeployment
    kinds: Sequence[str]
    seed: int
    kills: list[Kill] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    async def in_turn(self) -> None:
        """Each kind once, in their order; what takes seconds to come back is not waited for."""
        for number, kind in enumerate(self.kinds):
            await self._moment()
            while len(self.kills) == number:
                await self._kill(kind)

    async def by_chance(self, count: int) -> None:
        """So many kills; after most of them something is published before the next."""
        order: list[str] = []
        while len(self.kills) < count:
            if not order:
                order = self._rng.sample(self.kinds, len(self.kinds))
            before = await self.deployment.number()
            await self._moment()
            await self._kill(order.pop())
            if self._rng.random() < 0.7:
                await self.deployment.until_published(before)
        await self.deployment.until_published(await self.deployment.number())

    async def _moment(self) -> None:
        """A good one to kill at: any, one with files that nobody names yet, or a publication."""
        await asyncio.sleep(self._rng.uniform(0, 3))
        folder = self._rng.choice(
            [
                None,
                "state/executions/all/quality_results",
                "manifests/executions",
                "commits/executions",
            ]
        )
        if folder is not None:
            await asyncio.to_thread(self.deployment.await_file, folder)
            await asyncio.sleep(self._rng.choice([0, 0, 0.01]))

    async def _kill(self, kind: str) -> None:
        servers = [each for each, what in self.deployment.servers.items() if what == kind]
        if servers:
            victim = self._rng.choice(servers)
            self._note(kind, victim.pid)
            victim.kill()
            await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.5]))
            await victim.start()
        elif below := self._below(MARKS[kind]):
            pid = self._rng.choice(below)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._note(kind, pid)
        else:  # it is on its way
            await asyncio.sleep(0.5)

    def _below(self, mark: str) -> list[int]:
        """The processes of Spark, below any server, whose command has a mark."""
        processes = [
            each
            for compactor in self.deployment.compactors
            for each in of_spark(compactor.pid).items()
        ]
        return [pid for pid, command in processes if mark in command]

    def _note(self, kind: str, pid: int) -> None:
        """For the figures, and in words for whoever looks for the cause of a failure in the logs."""
        self.kills.append(Kill(kind, time.time(), time.monotonic()))
        print(f"{datetime.now(UTC):%H:%M:%S.%f} killed {kind} {pid}")
