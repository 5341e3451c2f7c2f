"""Runs of random projects with faults, compared with a serial run: `python -m tests.flow.faults.random`.

The planner, the coordinator, the worker, the API and the publication of plain files are real; only the
executor is not Spark. Attempts fail, fall silent or come late, and whole workers disappear. Runs are
planned until no task is left. Then the code of one asset changes, and everything is repeated.

Random choices follow from the seed; the exact timing follows from the machine.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from arco.cli.flow.flags import PartitionChoice
from arco.cli.flow.plan import make_plan
from arco.cli.flow.project import LoadedProject, load
from arco.core.errors import ArcoError, Unknown
from arco.core.ids import new_ulid
from arco.flow.coordinator.messages import (
    ANY_WORKER,
    LEASE_MS,
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunStatus,
    RunView,
)
from arco.flow.plan.plan import Plan
from arco.flow.worker.ports import StaticProjectCode, project_code
from arco.flow.worker.worker import Worker
from tests.flow.faults.file_executor import (
    OF_ATTEMPTS,
    OF_RUNNERS,
    AttemptHistory,
    Fault,
    FileExecutor,
    rows_of,
)
from tests.flow.faults.random_project import RandomProject, Tables, random_project
from tests.flow.faults.workspace import TIMES, Workspace, WorkspaceLake

MOST_RUNS = 30
TROUBLE = 0.4
TIMEOUT_S = 120
EVERYTHING = (*OF_ATTEMPTS, *OF_RUNNERS)

_LEASE_S = LEASE_MS / TIMES / 1_000
_OVER = (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.CANCELLED)


@dataclass
class Wire:
    """The connection of a worker to the coordinator; it can be cut, for one attempt or for all."""

    workspace: Workspace
    silent: set[str] = field(default_factory=set)
    is_cut: bool = False

    async def lease(self, offer: LeaseRequest) -> LeaseResponse:
        self._pass()
        leased = await self.workspace.coordinator.lease(offer)
        self._pass()
        return leased

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        self._pass(beat.attempt_id)
        return await self.workspace.coordinator.heartbeat(beat)

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        self._pass(*attempt_ids)
        return await self.workspace.coordinator.watch(worker, attempt_ids, wait_ms)

    async def complete(self, completed: AttemptReport) -> None:
        self._pass()
        if completed.attempt_id not in self.silent:  # else its worker goes on with other tasks
            await self.workspace.coordinator.complete(completed)

    def cut(self) -> None:
        self.is_cut = True

    def _pass(self, *attempt_ids: str) -> None:
        if self.is_cut or self.silent & set(attempt_ids):
            raise Unknown("the wire is cut")


@dataclass
class World:
    """One seed, until nothing is left to do."""

    workspace: Workspace
    lines: RandomProject
    random: Random
    history: AttemptHistory
    folder: Path
    expected: Tables = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)

    async def check(self) -> list[str]:
        """All that is wrong at the end; nothing, if all is well."""
        self.lines.make(self.expected, self.lines.lines)
        wrong = await self._until_made(PartitionChoice())
        changed = self.lines.lines[self.random.choice(list(self.lines.lines))]
        changed.version += 1
        append_again = self.random.random() < 0.5
        self.lines.make(self.expected, self.lines.remade(changed.name, append_again=append_again))
        wrong += await self._until_made(PartitionChoice(append_again=append_again))
        return wrong + await self._held()

    async def _until_made(self, choice: PartitionChoice) -> list[str]:
        self.lines.write(self.folder)
        loaded = load(str(self.folder))
        for _ in range(MOST_RUNS):
            now_ms = self.workspace.runtime.clock.now_ms()
            plan = await make_plan(self.workspace.coordinator, loaded, [], choice, now_ms)
            self.plans.append(", ".join(f"{each.key}: {each.reason}" for each in plan.tasks))
            if not plan.tasks:
                break
            await self._run(loaded, plan)
        else:
            return [f"after {MOST_RUNS} runs there is still something to do"]
        await asyncio.sleep(2.5 * _LEASE_S)  # for late attempts
        return await asyncio.to_thread(
            self._differences, WorkspaceLake(self.workspace, asyncio.get_running_loop())
        )

    async def _run(self, loaded: LoadedProject, plan: Plan) -> None:
        """A run of one worker that lends itself, as `arco run` does, or of three that take any task."""
        alone, name = self.random.random() < 0.5, f"w{len(self.runs)}"
        key = new_ulid(self.workspace.runtime)
        wish = RunRequest(run_key=key, plan=plan, worker=name if alone else ANY_WORKER)
        view = await self.workspace.coordinator.submit(wish)
        self.runs.append(view.run_id)
        cluster = [
            asyncio.create_task(
                self._work(loaded, view.run_id, f"{name}.{n}" if n else name, alone=alone)
            )
            for n in range(1 if alone else 3)
        ]
        restarts = self.random.random() < 0.3
        after_s = self.random.random() * 2 * _LEASE_S
        try:
            if restarts:
                await asyncio.sleep(after_s)
                await self.workspace.restart()
            await self._over(view)
        finally:
            for each in cluster:
                each.cancel()
            await asyncio.gather(*cluster, return_exceptions=True)

    async def _work(self, loaded: LoadedProject, run_id: str, name: str, *, alone: bool) -> None:
        wire, loop = Wire(self.workspace), asyncio.get_running_loop()
        may_vanish = alone or "." in name  # of several, one has to go on
        scribe = FileExecutor(
            self.history,
            self.lines,
            loaded.project,
            WorkspaceLake(self.workspace, loop),
            silence=wire.silent.add,
            vanish=wire.cut if may_vanish else lambda: None,
            late_s=2 * _LEASE_S,
        )
        runtime, project = self.workspace.runtime, loaded.project.name
        code = StaticProjectCode(project, project_code(loaded.project))
        await Worker(wire, scribe, runtime, name=name, slots=2, code=code).run(run_id)

    async def _over(self, view: RunView) -> None:
        while view.status not in _OVER:
            view = await self.workspace.coordinator.get_run(view.run_id, view.number, 1_000)

    def _differences(self, lake: WorkspaceLake) -> list[str]:
        wrong = []
        for name, line in self.lines.lines.items():
            table_id = lake.find(f"default.{line.table}")
            rows_by_partition = {} if table_id is None else rows_of(lake, table_id)
            for partition in line.partitions:
                rows, wanted = rows_by_partition.get(partition, []), self.expected[name][partition]
                if sorted(rows) != sorted(wanted):
                    wrong.append(f"{line.mode} {name}@{partition} has {rows} and not {wanted}")
        return wrong

    async def standing(self) -> list[str]:
        """The state of the last run, to explain why it does not end."""
        if not self.runs:
            return []
        view = await self.workspace.coordinator.get_run(self.runs[-1])
        tasks = [f"{each.key} {each.status} {each.attempt} {each.error}" for each in view.changed]
        return [
            f"run {view.run_id} is {view.status}, {self.workspace.starts} starts of the coordinator",
            *tasks,
        ]

    async def _held(self) -> list[str]:
        views = [await self.workspace.coordinator.get_run(each) for each in self.runs]
        wrong = [
            f"run {each.run_id} is {each.status}" for each in views if each.status not in _OVER
        ]
        if self.workspace.coordinator.at_work:
            wrong.append(f"{self.workspace.coordinator.at_work} attempts hold their slots")
        return wrong


async def _check(seed: int, folder: Path, possible: tuple[Fault, ...]) -> tuple[str, Counter[str]]:
    random = Random(seed)
    workspace = await Workspace.open(seed)
    world = World(
        workspace, random_project(random), random, AttemptHistory(seed, TROUBLE, possible), folder
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            wrong = await world.check()
    except (ArcoError, TimeoutError) as problem:
        wrong = [f"{type(problem).__name__}: {problem}", *await world.standing()]
    finally:
        with suppress(ArcoError):
            await workspace.close()
    faults = Counter(each.rpartition(": ")[2] for each in world.history.faults)
    faults["starts"] = workspace.starts
    if not wrong:
        return "", faults
    report = [f"seed {seed}", *wrong, "plans:", *world.plans, "faults:", *world.history.faults]
    return "\n  ".join(report), faults


def check(
    seed: int, folder: Path, possible: tuple[Fault, ...] = EVERYTHING
) -> tuple[str, Counter[str]]:
    """What is wrong with a seed and how it came about, or nothing; and how often what happened."""
    return asyncio.run(_check(seed, folder, possible))


def main() -> None:
    """Seeds from `--seed` on; those that fail are printed with their numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runners-stay", action="store_true", help="no run loses its only worker")
    given = parser.parse_args()
    possible = OF_ATTEMPTS if given.runners_stay else EVERYTHING
    begun, failed, faults = time.monotonic(), list[int](), Counter[str]()
    for seed in range(given.seed, given.seed + given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            problem, happened = check(seed, Path(folder), possible)
        faults += happened
        if problem:
            failed.append(seed)
            print(problem, flush=True)
    took = time.monotonic() - begun
    print(", ".join(f"{count} {what}" for what, count in faults.most_common()))
    print(f"{given.seeds} seeds from {given.seed} on, {len(failed)} failed {failed}, {took:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
