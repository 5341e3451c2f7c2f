"""An executor without an engine: it writes a file for each output and publishes it as any executor does.

What goes wrong on the way is decided by the seed, the task and how often it was tried, never by time.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from arco.core.errors import Fenced, Unavailable, Unknown
from arco.flow.coordinator.attempt_events import stamp_outputs
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    LeasedTask,
    OutputResult,
    TaskOutput,
    TaskStatus,
)
from arco.flow.define import Project
from arco.flow.publish.wire import FilesStaged, StagedFile
from arco.flow.worker.ports import AttemptContext
from tests.flow.faults.hut import HutLake
from tests.flow.faults.lines import Line, Lines, made_row

TROUBLED = 2  # so often something may go wrong with a task; then it is made


class Fate(StrEnum):
    """What becomes of an attempt."""

    WELL = "well"
    BROKEN = "broken"  # before anything is written
    WASTED = "wasted"  # what it has staged is never published
    SILENT = "silent"  # it has published, and nobody hears of it
    LATE = "late"  # it is silent until its task is somebody else's, and publishes then
    RUNNER_GONE = "runner gone"  # it has published, and its worker is never heard of again
    RUNNER_LATE = "runner late"  # the same, and it publishes when nobody expects it any more


# What one worker can survive, and what takes a run its only one.
OF_ATTEMPTS = (Fate.BROKEN, Fate.WASTED, Fate.SILENT, Fate.LATE)
OF_RUNNERS = (Fate.RUNNER_GONE, Fate.RUNNER_LATE)


@dataclass
class Memory:
    """What is known of all attempts at all tasks of a seed."""

    seed: int
    trouble: float  # how likely something goes wrong with an attempt
    mishaps: tuple[Fate, ...]  # what may
    tries: dict[str, int] = field(default_factory=dict)
    fates: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Scribe:
    """Fills `arco.flow.worker.ports.Executor`; `silence` cuts off an attempt, `vanish` its worker."""

    memory: Memory
    lines: Lines
    project: Project
    lake: HutLake
    silence: Callable[[str], None]
    vanish: Callable[[], None]
    late_s: float

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        line = self.lines.lines[task.maker.rpartition(".")[2]]
        fate = self._fate(task, line)
        if fate is Fate.BROKEN:
            return AttemptOutcome(status=TaskStatus.FAILED, error="it broke")
        if fate in (Fate.SILENT, Fate.LATE):
            self.silence(task.attempt_id)
        if fate in OF_RUNNERS:
            self.vanish()
        [place] = stamp_outputs(task, self.project.fingerprints[task.maker]).outputs
        staged = self._stage(task, line, place)
        if fate is Fate.WASTED:
            return AttemptOutcome(status=TaskStatus.FAILED, error="it broke after it had written")
        if fate in (Fate.LATE, Fate.RUNNER_LATE):
            threading.Event().wait(self.late_s)
        return self._publish(task, place, staged)

    def interrupt(self, attempt_id: str) -> None:
        """Whoever is late does not listen either."""

    def close(self) -> None:
        """Nothing was opened."""

    def _fate(self, task: LeasedTask, line: Line) -> Fate:
        name, memory = f"{line.version}/{task.key}", self.memory
        with memory.lock:
            tried = memory.tries[name] = memory.tries.get(name, 0) + 1
            random = Random(f"{memory.seed}/{name}/{tried}")
            bad = tried <= TROUBLED and random.random() < memory.trouble
            fate = random.choice(memory.mishaps) if bad else Fate.WELL
            said = f"{task.key} version {line.version} attempt {task.attempt}"
            memory.fates.append(f"{said} of {task.run_id[-4:]}: {fate}")
        return fate

    def _stage(self, task: LeasedTask, line: Line, place: TaskOutput) -> FilesStaged:
        row = made_row(line, task.partition, self._read(task, line))
        table_id = self.lake.make(place.table)
        path, body = f"data/{task.attempt_id}/rows.json", json.dumps([row]).encode()
        self.lake.write(table_id, path, body)
        return FilesStaged(
            table_id=table_id,
            attempt=place.attempt,
            mode=line.mode,
            files={task.partition: (StagedFile(path=path, rows=1, bytes=len(body)),)},
        )

    def _read(self, task: LeasedTask, line: Line) -> list[str]:
        rows: list[str] = []
        for name in line.inputs:
            table_id = self.lake.find(f"default.{self.lines.lines[name].table}")
            assert table_id is not None, f"{task.key} was begun before {name} was made"
            rows += self.lines.read(
                {name: rows_of(self.lake, table_id)}, line, name, task.partition
            )
        return rows

    def _publish(self, task: LeasedTask, place: TaskOutput, staged: FilesStaged) -> AttemptOutcome:
        for _ in range(20):
            try:
                done = self.lake.publish(staged)
            except Fenced as lost:
                return AttemptOutcome(status=TaskStatus.FAILED, error=str(lost))
            except (Unknown, Unavailable):
                continue
            made = OutputResult(
                table=place.table,
                table_id=staged.table_id,
                partition=task.partition,
                version=done.number,
                rows=1,
            )
            return AttemptOutcome(
                status=TaskStatus.SUCCESS,
                code_fingerprint=self.project.fingerprints[task.maker],
                outputs=(made,),
            )
        return AttemptOutcome(status=TaskStatus.FAILED, error="the catalog does not answer")


def rows_of(lake: HutLake, table_id: str) -> dict[str, list[str]]:
    """All rows of a table, by partition."""
    now = lake.files(table_id)
    return {
        partition: [row for each in files for row in json.loads(lake.read(table_id, each.path))]
        for partition, files in now.files.items()
    }
