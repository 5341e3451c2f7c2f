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
from tests.flow.faults.random_project import RandomAsset, RandomProject, made_row
from tests.flow.faults.workspace import WorkspaceLake

TROUBLED = 2  # so often something may go wrong with a task; then it is made


class Fault(StrEnum):
    """What happens to an attempt."""

    WELL = "well"
    BROKEN = "broken"  # before anything is written
    WASTED = "wasted"  # what it has staged is never published
    SILENT = "silent"  # it has published, and its completion is lost
    LATE = "late"  # it is silent until its task is leased to another worker, and publishes then
    RUNNER_GONE = "runner gone"  # it has published, and its worker disappears
    RUNNER_LATE = "runner late"  # the same, and it publishes after its task was leased again


# What one worker can survive, and what takes a run its only one.
OF_ATTEMPTS = (Fault.BROKEN, Fault.WASTED, Fault.SILENT, Fault.LATE)
OF_RUNNERS = (Fault.RUNNER_GONE, Fault.RUNNER_LATE)


@dataclass
class AttemptHistory:
    """What is known of all attempts at all tasks of a seed."""

    seed: int
    trouble: float  # how likely something goes wrong with an attempt
    possible: tuple[Fault, ...]  # what may
    tries: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class FileExecutor:
    """An `Executor` that writes files; `silence` cuts one attempt off, `vanish` its whole worker."""

    history: AttemptHistory
    lines: RandomProject
    project: Project
    lake: WorkspaceLake
    silence: Callable[[str], None]
    vanish: Callable[[], None]
    late_s: float

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        line = self.lines.lines[task.maker.rpartition(".")[2]]
        fault = self._fate(task, line)
        if fault is Fault.BROKEN:
            return AttemptOutcome(status=TaskStatus.FAILED, error="it broke")
        if fault in (Fault.SILENT, Fault.LATE):
            self.silence(task.attempt_id)
        if fault in OF_RUNNERS:
            self.vanish()
        [place] = stamp_outputs(task, self.project.fingerprints[task.maker]).outputs
        staged = self._stage(task, line, place)
        if fault is Fault.WASTED:
            return AttemptOutcome(status=TaskStatus.FAILED, error="it broke after it had written")
        if fault in (Fault.LATE, Fault.RUNNER_LATE):
            threading.Event().wait(self.late_s)
        return self._publish(task, place, staged)

    def interrupt(self, attempt_id: str) -> None:
        """Whoever is late does not listen either."""

    def close(self) -> None:
        """Nothing was opened."""

    def _fate(self, task: LeasedTask, line: RandomAsset) -> Fault:
        name, history = f"{line.version}/{task.key}", self.history
        with history.lock:
            tried = history.tries[name] = history.tries.get(name, 0) + 1
            random = Random(f"{history.seed}/{name}/{tried}")
            bad = tried <= TROUBLED and random.random() < history.trouble
            fault = random.choice(history.possible) if bad else Fault.WELL
            label = f"{task.key} version {line.version} attempt {task.attempt}"
            history.faults.append(f"{label} of {task.run_id[-4:]}: {fault}")
        return fault

    def _stage(self, task: LeasedTask, line: RandomAsset, place: TaskOutput) -> FilesStaged:
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

    def _read(self, task: LeasedTask, line: RandomAsset) -> list[str]:
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


def rows_of(lake: WorkspaceLake, table_id: str) -> dict[str, list[str]]:
    """All rows of a table, by partition."""
    now = lake.files(table_id)
    return {
        partition: [row for each in files for row in json.loads(lake.read(table_id, each.path))]
        for partition, files in now.files.items()
    }
