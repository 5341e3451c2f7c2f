"""The moments at which a process dies, and the ports of a worker that notice them.

Nothing of the product is changed: what is said to a worker's ports goes through these, and when all
attempts that are meant have come to the moment, the whole group of processes is killed, the JVM with it.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles
from arco.flow.run.port import TaskBook
from arco.flow.run.wire import Beat, Completed, Leased, LeasedTask, Offer, Outcome, Progress, Pulse
from arco.flow.work.port import (
    Executor,
    Lake,
    LakeColumn,
    LakeTable,
    NewLakeTable,
    Watch,
)


class Moment(StrEnum):
    """When it dies."""

    BEFORE_STAGE = "before_stage"
    DURING_WRITE = "during_write"
    AFTER_STAGE = "after_stage"  # before the checks have ended
    BEFORE_PUBLISH = "before_publish"
    AFTER_PUBLISH = "after_publish"
    BEFORE_COMPLETION = "before_completion"
    AFTER_COMPLETION = "after_completion"


_PHASES = {
    "writing": Moment.BEFORE_STAGE,
    "checking": Moment.AFTER_STAGE,
    "publishing": Moment.BEFORE_PUBLISH,
}


@dataclass
class Doom:
    """Who has come to the moment. Once all of `tables` have, nothing of this process is left."""

    moment: Moment
    tables: Collection[str]  # full names
    _there: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def comes(self, moment: Moment, table: str) -> bool:
        """An attempt at a table has come to a moment; whether it is to wait there for the end."""
        if moment is not self.moment or table not in self.tables:
            return False
        with self._lock:
            self._there.add(table)
            if self._there >= set(self.tables):
                os.killpg(os.getpgid(0), signal.SIGKILL)
        return True

    def stay(self, moment: Moment, table: str) -> None:
        """The same in a thread, which goes no further."""
        if self.comes(moment, table):
            threading.Event().wait()


@dataclass(frozen=True)
class DoomedWatch:
    """Hears of the phases of one attempt."""

    watch: Watch
    doom: Doom
    table: str

    def log(self, line: str) -> None:
        self.watch.log(line)

    def progress(self, progress: Progress) -> None:
        self.watch.progress(progress)
        if progress.phase == "writing" and 0 < (progress.done or 0) < 1:
            self.doom.comes(Moment.DURING_WRITE, self.table)  # told by one thread for all attempts
        elif progress.phase in _PHASES and progress.done is None:
            self.doom.stay(_PHASES[progress.phase], self.table)

    def is_stopped(self) -> bool:
        return self.watch.is_stopped()


@dataclass(frozen=True)
class DoomedLake:
    """The first that an attempt does after it has published is to describe its table."""

    lake: Lake
    doom: Doom

    def find(self, table: str) -> LakeTable | None:
        return self.lake.find(table)

    def make(self, wanted: NewLakeTable) -> LakeTable:
        return self.lake.make(wanted)

    def make_schema(self, table: str) -> None:
        self.lake.make_schema(table)

    def widen(self, table: LakeTable, columns: tuple[LakeColumn, ...]) -> LakeTable:
        return self.lake.widen(table, columns)

    def narrow(self, table: LakeTable, columns: tuple[str, ...]) -> LakeTable:
        return self.lake.narrow(table, columns)

    def describe(self, table: LakeTable, wanted: NewLakeTable) -> None:
        self.doom.stay(Moment.AFTER_PUBLISH, table.name)
        self.lake.describe(table, wanted)

    def files(self, table_id: str) -> TableVersionFiles:
        return self.lake.files(table_id)

    def publish(self, staged: FilesStaged) -> FilesPublished:
        return self.lake.publish(staged)


@dataclass(frozen=True)
class DoomedExecutor:
    """Gives each attempt a watch that hears of its phases."""

    executor: Executor
    doom: Doom

    def execute(self, task: LeasedTask, watch: Watch) -> Outcome:
        return self.executor.execute(task, DoomedWatch(watch, self.doom, task.maker))

    def interrupt(self, attempt_id: str) -> None:
        self.executor.interrupt(attempt_id)

    def close(self) -> None:
        self.executor.close()


@dataclass(frozen=True)
class DoomedBook:
    """Hears of the ends of attempts."""

    book: TaskBook
    doom: Doom
    makers: dict[str, str] = field(default_factory=dict)  # by attempt

    async def lease(self, offer: Offer) -> Leased:
        leased = await self.book.lease(offer)
        self.makers.update({task.attempt_id: task.maker for task in leased.tasks})
        return leased

    async def beat(self, beat: Beat) -> Pulse:
        return await self.book.beat(beat)

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        return await self.book.watch(worker, attempt_ids, wait_ms)

    async def complete(self, completed: Completed) -> None:
        maker = self.makers[completed.attempt_id]
        if self.doom.comes(Moment.BEFORE_COMPLETION, maker):
            await asyncio.Event().wait()
        await self.book.complete(completed)
        if self.doom.comes(Moment.AFTER_COMPLETION, maker):
            await asyncio.Event().wait()


@dataclass(frozen=True)
class MeetingWatch:
    """Waits before it publishes until all others are there too."""

    watch: Watch
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
class MeetingExecutor:
    """Has so many attempts publish at the same moment."""

    executor: Executor
    meeting: threading.Barrier

    def execute(self, task: LeasedTask, watch: Watch) -> Outcome:
        return self.executor.execute(task, MeetingWatch(watch, self.meeting))

    def interrupt(self, attempt_id: str) -> None:
        self.executor.interrupt(attempt_id)

    def close(self) -> None:
        self.executor.close()
