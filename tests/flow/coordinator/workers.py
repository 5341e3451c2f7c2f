"""Workers of a service that dies: they lease, publish, and say so until somebody has heard it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.core.errors import Fenced, NotFound, Unavailable, Unknown
from arco.flow.coordinator.messages import (
    LEASE_MS,
    AttemptOutcome,
    LeasedTask,
    RunRequest,
    RunStatus,
    RunView,
)
from tests.flow.coordinator.crashing import Service
from tests.flow.coordinator.rig import CANCELLED, FAILED, SUCCESS, Rig

T = TypeVar("T")
Script = Callable[[LeasedTask], str]  # what an attempt does: well, badly, silently, twice

WELL, BADLY, SILENTLY, TWICE, LATE = "well", "badly", "silently", "twice", "late"


def well(_task: LeasedTask) -> str:
    return WELL


@dataclass
class Log:
    """What was seen from outside."""

    at_once: dict[str, int] = field(default_factory=dict)  # live attempts, by task
    most_at_once: int = 0
    by_pool: int = 0
    most_by_pool: int = 0
    began_early: list[str] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


class Crew:
    """Some workers on one run."""

    def __init__(self, service: Service, wish: RunRequest, script: Script = well) -> None:
        self.service = service
        self.wish = wish
        self.script = script
        self.log = Log()
        self.deps = {task.key: task.deps for task in wish.plan.tasks}
        self._is_over = False

    async def run(self, workers: int = 2, work_ms: float = 300) -> RunView:
        """Submit the run and work until it is over."""
        view = await self.patiently(lambda rig: rig.book.submit(self.wish))
        tasks = self.service.runtime.tasks
        crew = [
            tasks.spawn(self._work(f"w{n}", view.run_id, work_ms * (n + 1))) for n in range(workers)
        ]
        for each in crew:
            await each.wait()
        return await self.patiently(lambda rig: rig.over(view.run_id, 600_000))

    async def patiently(self, what: Callable[[Rig], Coroutine[Any, Any, T]]) -> T:
        """Ask again while the book cannot answer."""
        while True:
            try:
                return await self.service.ask(what)
            except (Unavailable, Unknown):
                await self.service.runtime.clock.sleep(500)

    async def _work(self, worker: str, run_id: str, work_ms: float) -> None:
        while True:
            leased = await self.patiently(
                lambda rig: rig.offer(worker, 1, run_id=run_id, wait_ms=10_000)
            )
            if leased.is_over:
                return
            for task in leased.tasks:
                await self._attempt(worker, task, work_ms)

    async def _attempt(self, worker: str, task: LeasedTask, work_ms: float) -> None:
        clock, how = self.service.runtime.clock, self.script(task)
        self._begins(task)
        await clock.sleep(work_ms)
        outcome = FAILED if how == BADLY else self._outcome(task)
        if how in (SILENTLY, LATE):
            await clock.sleep(1.5 * LEASE_MS)
        self._ends(task)
        if how == SILENTLY:
            return
        for _ in range(2 if how == TWICE else 1):
            await self._say(worker, task, outcome)

    async def _say(self, worker: str, task: LeasedTask, outcome: AttemptOutcome) -> None:
        try:
            await self.patiently(lambda rig: rig.complete(task, outcome, worker))
        except (Fenced, NotFound):
            return
        if outcome.status is SUCCESS.status:
            self.log.acknowledged.add(task.key)

    def _outcome(self, task: LeasedTask) -> AttemptOutcome:
        if not task.outputs:
            self.log.done.add(task.key)
            return SUCCESS
        rig = Rig.__new__(Rig)  # for its way to publish alone
        rig.chains = self.service.chains
        try:
            done = rig.publish(task)
        except Fenced:
            return CANCELLED
        self.log.done.add(task.key)
        return done

    def _begins(self, task: LeasedTask) -> None:
        log = self.log
        log.at_once[task.key] = log.at_once.get(task.key, 0) + 1
        log.most_at_once = max(log.most_at_once, log.at_once[task.key])
        log.by_pool += 1
        log.most_by_pool = max(log.most_by_pool, log.by_pool)
        if any(dep not in log.done for dep in self.deps[task.key]):
            log.began_early.append(task.key)

    def _ends(self, task: LeasedTask) -> None:
        self.log.at_once[task.key] -= 1
        self.log.by_pool -= 1


def is_good(view: RunView) -> bool:
    return view.status is RunStatus.SUCCESS
