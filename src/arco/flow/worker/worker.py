"""The loop of a worker: lease tasks and execute them concurrently, until there is nothing more to do.

It leases with a call that waits, so that a task starts the moment it is ready, and leases again whenever
a slot is free. While the coordinator is unavailable it keeps asking; when it is stopped, it gives its
tasks back, so that other workers can take them at once.

It offers the code that it has loaded, and gets only tasks that were planned with it. While it runs no
task and none is ready for the loaded code, it loads the project again if the files have changed.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from arco.core.backoff import ExponentialBackoff
from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent, Task
from arco.flow.coordinator.messages import LeasedTask, LeaseRequest, LeaseResponse
from arco.flow.coordinator.ports import TaskCoordinator
from arco.flow.worker.attempt import AttemptExecution, AttemptTracing, WorkerContext, WorkerTiming
from arco.flow.worker.outcome import StopReason
from arco.flow.worker.ports import Executor, ProjectCode

_WAIT_MS = 10_000  # less than a lease: a worker that is silent for longer counts as gone
_BACKOFF = ExponentialBackoff(200, 2_000)


def _ignore(_: object) -> None:
    """The default of the callbacks."""


class Worker:
    """Executes tasks of the project in `code`, `slots` at once, only of some pools if any are named.

    `on_unavailable` gets the errors of calls that it retries, `on_abandoned` the tasks that were
    stopped and did not end.
    """

    def __init__(
        self,
        coordinator: TaskCoordinator,
        executor: Executor,
        runtime: Runtime,
        *,
        name: str,
        slots: int,
        code: ProjectCode,
        pools: tuple[str, ...] = (),
        timing: WorkerTiming | None = None,
        on_unavailable: Callable[[ArcoError], None] = _ignore,
        on_abandoned: Callable[[LeasedTask], None] = _ignore,
        tracing: AttemptTracing | None = None,
    ) -> None:
        self._context = WorkerContext(
            coordinator,
            executor,
            runtime,
            name,
            timing or WorkerTiming(),
            tracing or AttemptTracing(),
        )
        self._tasks = runtime.tasks
        self._slots = slots
        self._code = code
        self._nothing_ready = True  # for the loaded code, by the last response
        self._pools = pools
        self._on_unavailable = on_unavailable
        self._on_abandoned = on_abandoned
        self._attempts: dict[str, AttemptExecution] = {}
        self._jobs: dict[str, Task[None]] = {}
        self._wake = runtime.tasks.event()  # a task ended, a response came, or it is to stop
        self._leasing: Task[None] | None = None
        self._response: LeaseResponse | None = None
        self._asked_idle = False  # whether no task ran when the last response was requested
        self._failure: Exception | None = None
        self._failures = 0
        self._is_stopping = False

    @property
    def at_work(self) -> int:
        """How many tasks it executes now; an abandoned one holds no slot any more."""
        return sum(not each.is_abandoned for each in self._attempts.values())

    def hurry(self) -> None:
        """Attempts that are stopped have little time from now on."""
        for attempt in self._attempts.values():
            attempt.hurry()

    async def run(
        self, run_id: str | None = None, until: AsyncEvent | None = None, *, once: bool = False
    ) -> None:
        """Work until the run has ended, or `until` is set, or with `once` until there is nothing to do."""
        watching = None if until is None else self._tasks.spawn(self._stop_after(until))
        try:
            await self._loop(run_id, once=once)
            await self._drain()
        except BaseException:
            self.stop()
            await self._drain()
            raise
        finally:
            if watching is not None:
                watching.cancel()

    def stop(self) -> None:
        """Start nothing more, and give back the tasks that are running."""
        self._is_stopping = True
        for attempt in self._attempts.values():
            attempt.stop(StopReason.WORKER_STOPPED)
        if self._leasing is not None:
            self._leasing.cancel()  # tasks of a response on its way are lost until their lease expires
        self._wake.set()

    async def _stop_after(self, until: AsyncEvent) -> None:
        await until.wait()
        self.stop()

    async def _loop(self, run_id: str | None, *, once: bool) -> None:
        while not self._is_stopping:
            self._wake.clear()
            response, self._response = self._response, None
            if self._failure is not None:
                raise self._failure
            if response is not None:
                for task in response.tasks:
                    self._start(task)
                has_nothing = once and not response.tasks
                # A task that ended after the request may have made its retry or another task ready.
                if response.is_over or (has_nothing and self._asked_idle and not self.at_work):
                    return
                if has_nothing and self.at_work:
                    await self._wake.wait()  # until a task ends, which may make others ready
                    continue
            if self._leasing is None and self.at_work < self._slots:
                wait_ms = 0 if once else _WAIT_MS
                self._leasing = self._tasks.spawn(self._lease(run_id, wait_ms))
            if self._response is None:
                await self._wake.wait()

    async def _lease(self, run_id: str | None, wait_ms: int) -> None:
        is_idle = not self.at_work
        try:
            if is_idle and self._nothing_ready:
                await self._tasks.in_thread(self._code.refresh)
            request = LeaseRequest(
                worker=self._context.worker,
                slots=self._slots - self.at_work,
                project=self._code.project,
                pools=self._pools,
                run_id=run_id,
                # Tasks that are ready for the loaded code come before the next look at the files.
                wait_ms=0 if is_idle and not self._nothing_ready else wait_ms,
                code=self._code.code,
            )
            response = await self._context.coordinator.lease(request)
            await self._refresh_code(response, is_idle=is_idle)
            self._nothing_ready = not response.tasks
            self._response, self._asked_idle = response, is_idle
            self._failures = 0
        except (Unavailable, Unknown) as error:
            self._on_unavailable(error)
            self._failures += 1
            await _BACKOFF.sleep(self._failures, self._context.runtime)
        except Exception as error:
            self._failure = error
        self._leasing = None
        self._wake.set()

    async def _refresh_code(self, response: LeaseResponse, *, is_idle: bool) -> None:
        """Load files that changed during the lease call."""
        if is_idle and (response.tasks or response.other_code):
            before = self._code.code
            await self._tasks.in_thread(lambda: self._code.refresh(response.tasks))
            if response.other_code and self._code.code == before:
                self._code.report_other_code(response.other_code)

    def _start(self, task: LeasedTask) -> None:
        attempt = AttemptExecution(self._context, task, lambda: self._abandon(task))
        self._attempts[task.attempt_id] = attempt
        self._jobs[task.attempt_id] = self._tasks.spawn(self._run_attempt(attempt))

    def _abandon(self, task: LeasedTask) -> None:
        """The thread of a task goes on alone, and its slot is free."""
        self._on_abandoned(task)
        self._wake.set()

    async def _run_attempt(self, attempt: AttemptExecution) -> None:
        try:
            await attempt.run()
        except Exception as error:
            self._failure = error  # a bug of Arco, or a rejected report: not retried
        finally:
            del self._attempts[attempt.task.attempt_id]
            del self._jobs[attempt.task.attempt_id]
            self._wake.set()

    async def _drain(self) -> None:
        """Wait for running attempts: to their end, or for as long as stopping may take."""
        response, self._response = self._response, None
        if response is not None and self._is_stopping:
            returned = [
                AttemptExecution(self._context, task).give_back() for task in response.tasks
            ]
            await self._until_shutdown(self._tasks.gather(*returned))
        while self.at_work and not self._is_stopping:
            self._wake.clear()
            await self._wake.wait()
        if self._is_stopping:
            await self._until_shutdown(self._all_ended())
            for job in [*self._jobs.values()]:
                job.cancel()
        elif self._failure is not None:
            raise self._failure

    async def _until_shutdown(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            await self._tasks.deadline(2 * self._context.timing.shutdown_ms, work)

    async def _all_ended(self) -> None:
        while self.at_work:
            self._wake.clear()
            await self._wake.wait()
