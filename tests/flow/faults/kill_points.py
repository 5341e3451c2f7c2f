"""The points at which a process is killed, and wrappers of a worker's ports that notice them.

The product is not changed: the calls of a worker's ports go through these wrappers. When all attempts in
question have reached the point, the whole process group is killed, with the JVM.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeasedTask,
    LeaseRequest,
    LeaseResponse,
    Progress,
)
from arco.flow.coordinator.ports import TaskCoordinator
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles
from arco.flow.worker.ports import (
    AttemptContext,
    CatalogColumn,
    CatalogTable,
    Executor,
    NewCatalogTable,
    TaskCatalog,
)


class KillPoint(StrEnum):
    """When it dies."""

    BEFORE_STAGE = "before_stage"
    DURING_WRITE = "during_write"
    AFTER_STAGE = "after_stage"  # before the checks have ended
    BEFORE_PUBLISH = "before_publish"
    AFTER_PUBLISH = "after_publish"
    BEFORE_COMPLETION = "before_completion"
    AFTER_COMPLETION = "after_completion"


_PHASES = {
    "writing": KillPoint.BEFORE_STAGE,
    "checking": KillPoint.AFTER_STAGE,
    "publishing": KillPoint.BEFORE_PUBLISH,
}


@dataclass
class KillSwitch:
    """Kills the process group once attempts at all of `tables` have reached the kill point."""

    point: KillPoint
    tables: Collection[str]  # full names
    _reached: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, point: KillPoint, table: str) -> bool:
        """An attempt at a table has reached a point; whether it has to wait there for the kill."""
        if point is not self.point or table not in self.tables:
            return False
        with self._lock:
            self._reached.add(table)
            if self._reached >= set(self.tables):
                os.killpg(os.getpgid(0), signal.SIGKILL)
        return True

    def wait_at(self, point: KillPoint, table: str) -> None:
        """The same in a thread, which goes no further."""
        if self.reach(point, table):
            threading.Event().wait()


@dataclass(frozen=True)
class KillWatch:
    """Hears of the phases of one attempt."""

    watch: AttemptContext
    kill_switch: KillSwitch
    table: str

    def log(self, line: str) -> None:
        self.watch.log(line)

    def progress(self, progress: Progress) -> None:
        self.watch.progress(progress)
        if progress.phase == "writing" and 0 < (progress.done or 0) < 1:
            self.kill_switch.reach(
                KillPoint.DURING_WRITE, self.table
            )  # reported by one thread for all attempts
        elif progress.phase in _PHASES and progress.done is None:
            self.kill_switch.wait_at(_PHASES[progress.phase], self.table)

    def is_stopped(self) -> bool:
        return self.watch.is_stopped()


@dataclass(frozen=True)
class KillTaskCatalog:
    """The first that an attempt does after it has published is to describe its table."""

    catalog: TaskCatalog
    kill_switch: KillSwitch

    def find(self, table: str) -> CatalogTable | None:
        return self.catalog.find(table)

    def make(self, wanted: NewCatalogTable) -> CatalogTable:
        return self.catalog.make(wanted)

    def make_schema(self, table: str) -> None:
        self.catalog.make_schema(table)

    def widen(self, table: CatalogTable, columns: tuple[CatalogColumn, ...]) -> CatalogTable:
        return self.catalog.widen(table, columns)

    def narrow(self, table: CatalogTable, columns: tuple[str, ...]) -> CatalogTable:
        return self.catalog.narrow(table, columns)

    def describe(self, table: CatalogTable, wanted: NewCatalogTable) -> None:
        self.kill_switch.wait_at(KillPoint.AFTER_PUBLISH, table.name)
        self.catalog.describe(table, wanted)

    def files(self, table_id: str) -> TableVersionFiles:
        return self.catalog.files(table_id)

    def publish(self, staged: FilesStaged) -> FilesPublished:
        return self.catalog.publish(staged)


@dataclass(frozen=True)
class KillExecutor:
    """Gives each attempt a watch that sees its phases."""

    executor: Executor
    kill_switch: KillSwitch

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        return self.executor.execute(task, KillWatch(watch, self.kill_switch, task.maker))

    def interrupt(self, attempt_id: str) -> None:
        self.executor.interrupt(attempt_id)

    def close(self) -> None:
        self.executor.close()


@dataclass(frozen=True)
class KillBook:
    """Hears of the ends of attempts."""

    coordinator: TaskCoordinator
    kill_switch: KillSwitch
    makers: dict[str, str] = field(default_factory=dict)  # by attempt

    async def lease(self, offer: LeaseRequest) -> LeaseResponse:
        leased = await self.coordinator.lease(offer)
        self.makers.update({task.attempt_id: task.maker for task in leased.tasks})
        return leased

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        return await self.coordinator.heartbeat(beat)

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        return await self.coordinator.watch(worker, attempt_ids, wait_ms)

    async def complete(self, completed: AttemptReport) -> None:
        maker = self.makers[completed.attempt_id]
        if self.kill_switch.reach(KillPoint.BEFORE_COMPLETION, maker):
            await asyncio.Event().wait()
        await self.coordinator.complete(completed)
        if self.kill_switch.reach(KillPoint.AFTER_COMPLETION, maker):
            await asyncio.Event().wait()


@dataclass(frozen=True)
class BarrierWatch:
    """Waits before it publishes until all others are there too."""

    watch: AttemptContext
    meeting: threading.Barrier

    def log(self, line: str) -> None:
        self.watch.log(line)

    def progress(self, progress: Progress) -> None:
        self.watch.progress(progress)
        if progress.phase == "publishing" and progress.done is None:
            self.meeting.wait(600)

    def is_stopped(self) -> bool:
        return self.watch.is_stopped()


@dataclass(frozen=True)
class BarrierExecutor:
    """Has so many attempts publish at the same time."""

    executor: Executor
    meeting: threading.Barrier

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        return self.executor.execute(task, BarrierWatch(watch, self.meeting))

    def interrupt(self, attempt_id: str) -> None:
        self.executor.interrupt(attempt_id)

    def close(self) -> None:
        self.executor.close()
