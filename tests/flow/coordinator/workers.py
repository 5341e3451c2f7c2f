"""Simulated workers of a service that crashes: they lease, publish, and report until it is acknowledged."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.core.errors import Fenced, NotFound, Unavailable, Unknown
from arco.flow.coordinator.messages import LEASE_MS, AttemptOutcome, LeasedTask, RunRequest, RunView
from tests.flow.coordinator.coordinator_setup import CANCELLED, FAILED, SUCCESS, CoordinatorSetup
from tests.flow.coordinator.crashing_coordinator import Service

T = TypeVar("T")

SUCCEED, FAIL, SILENT, TWICE, LATE = "succeed", "fail", "silent", "report twice", "report late"


@dataclass
class Log:
    """What was observed."""

    at_once: dict[str, int] = field(default_factory=dict)  # active attempts, by task
    most_at_once: int = 0
    by_pool: int = 0
    most_by_pool: int = 0
    started_early: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)


class Workers:
    """Some workers on one run; `script` says what an attempt does."""

    def __init__(
        self,
        service: Service,
        request: RunRequest,
        script: Callable[[LeasedTask], str] = lambda _: SUCCEED,
    ) -> None:
        self.service = service
        self.request = request
        self.script = script
        self.log = Log()
        self.deps = {task.key: task.deps for task in request.plan.tasks}

    async def run(self, count: int = 2, work_ms: float = 300) -> RunView:
        """Submit the run and work until it has ended."""
        view = await self.retry(lambda setup: setup.coordinator.submit(self.request))
        tasks = self.service.runtime.tasks
        workers = [
            tasks.spawn(self._work(f"w{n}", view.run_id, work_ms * (n + 1))) for n in range(count)
        ]
        for each in workers:
            await each.wait()
        return await self.retry(lambda setup: setup.over(view.run_id, 600_000))

    async def retry(self, call: Callable[[CoordinatorSetup], Coroutine[Any, Any, T]]) -> T:
        """Repeat a call while the coordinator is unavailable."""
        while True:
            try:
                return await self.service.call(call)
            except (Unavailable, Unknown):
                await self.service.runtime.clock.sleep(500)

    async def _work(self, worker: str, run_id: str, work_ms: float) -> None:
        while True:
            leased = await self.retry(
                lambda setup: setup.request(worker, 1, run_id=run_id, wait_ms=10_000)
            )
            if leased.is_over:
                return
            for task in leased.tasks:
                await self._attempt(worker, task, work_ms)

    async def _attempt(self, worker: str, task: LeasedTask, work_ms: float) -> None:
        clock, behaviour = self.service.runtime.clock, self.script(task)
        self._start(task)
        await clock.sleep(work_ms)
        outcome = FAILED if behaviour == FAIL else self._outcome(task)
        if behaviour in (SILENT, LATE):
            await clock.sleep(1.5 * LEASE_MS)
        self.log.at_once[task.key] -= 1
        self.log.by_pool -= 1
        if behaviour == SILENT:
            return
        for _ in range(2 if behaviour == TWICE else 1):
            try:
                await self.retry(lambda setup: setup.complete(task, outcome, worker))
            except (Fenced, NotFound):
                continue

    def _outcome(self, task: LeasedTask) -> AttemptOutcome:
        if not task.outputs:
            self.log.done.add(task.key)
            return SUCCESS
        setup = CoordinatorSetup.__new__(CoordinatorSetup)  # only its way to publish is used
        setup.chains = self.service.chains
        try:
            outcome = setup.publish(task)
        except Fenced:
            return CANCELLED
        self.log.done.add(task.key)
        return outcome

    def _start(self, task: LeasedTask) -> None:
        log = self.log
        log.at_once[task.key] = log.at_once.get(task.key, 0) + 1
        log.most_at_once = max(log.most_at_once, log.at_once[task.key])
        log.by_pool += 1
        log.most_by_pool = max(log.most_by_pool, log.by_pool)
        if any(dep not in log.done for dep in self.deps[task.key]):
            log.started_early.append(task.key)
