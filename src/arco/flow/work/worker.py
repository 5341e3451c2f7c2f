"""The loop of a worker: ask for tasks, carry them out side by side, until there is nothing more to do.

It asks with a call that waits, so that a task begins the moment it is ready, and asks again whenever a slot
is free. When the book of runs is away it goes on asking; when it is told to stop, it gives back what it has
begun, so that others can take it over at once.

It offers the code that it has loaded, and is given only tasks that were planned with it. While it runs no
task and none is ready for the loaded code, it loads the project again if the files have changed.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.core.tasks import Event, Task
from arco.flow.run.port import TaskBook
from arco.flow.run.wire import Leased, LeasedTask, Offer
from arco.flow.work.attempt import AttemptAtWork, Pace, Workplace
from arco.flow.work.ending import Stop
from arco.flow.work.port import Executor, ProjectCode
from arco.flow.work.tracing import Tracing

_WAIT_MS = 10_000  # less than a lease: who is silent for longer is taken to be gone
_FIRST_PAUSE_MS = 200
_LONGEST_PAUSE_MS = 2_000


def _silent(_news: object) -> None:
    """Nobody wants to know."""


class Worker:
    """Carries out tasks of the project in `code`, `slots` at once, of some pools alone if any are named.

    `tell` hears why it has to wait for the book, `gave_up` of tasks that were told to stop and do not.
    """

    def __init__(
        self,
        book: TaskBook,
        executor: Executor,
        runtime: Runtime,
        *,
        name: str,
        slots: int,
        code: ProjectCode,
        pools: tuple[str, ...] = (),
        pace: Pace | None = None,
        tell: Callable[[ArcoError], None] = _silent,
        gave_up: Callable[[LeasedTask], None] = _silent,
        tracing: Tracing | None = None,
    ) -> None:
        self._place = Workplace(book, executor, runtime, name, pace or Pace(), tracing or Tracing())
        self._tasks = runtime.tasks
        self._slots = slots
        self._code = code
        self._is_dry = True  # nothing is ready for the code that is loaded, as far as is known
        self._pools = pools
        self._tell = tell
        self._gave_up = gave_up
        self._working: dict[str, AttemptAtWork] = {}
        self._jobs: dict[str, Task[None]] = {}
        self._news = runtime.tasks.event()  # a task ended, an answer came, or it is to stop
        self._asking: Task[None] | None = None
        self._answer: Leased | None = None
        self._failure: Exception | None = None
        self._failures = 0
        self._is_stopping = False

    @property
    def at_work(self) -> int:
        """How many tasks it carries out right now; one that would not stop holds no slot any more."""
        return sum(not each.is_given_up for each in self._working.values())

    def hurry(self) -> None:
        """Whatever is to stop has little time for that from now on."""
        for attempt in self._working.values():
            attempt.hurry()

    async def run(
        self, run_id: str | None = None, until: Event | None = None, *, once: bool = False
    ) -> None:
        """Work until the run is over, or `until` is set, or `once` there is nothing to do."""
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
        """Begin nothing more, and give back what is under way."""
        self._is_stopping = True
        for attempt in self._working.values():
            attempt.stop(Stop.WORKER_STOPPED)
        if self._asking is not None:
            self._asking.cancel()  # what it was just given is lost with it, for the time of a lease
        self._news.set()

    async def _stop_after(self, until: Event) -> None:
        await until.wait()
        self.stop()

    async def _loop(self, run_id: str | None, *, once: bool) -> None:
        while not self._is_stopping:
            self._news.clear()
            answer, self._answer = self._answer, None
            if self._failure is not None:
                raise self._failure
            if answer is not None:
                for task in answer.tasks:
                    self._begin(task)
                if answer.is_over or (once and not answer.tasks and not self.at_work):
                    return
                if once and not answer.tasks:
                    await self._news.wait()  # until one ends, which may make others ready
                    continue
            if self._asking is None and self.at_work < self._slots:
                self._ask(run_id, wait_ms=0 if once else _WAIT_MS)
            if self._answer is None:
                await self._news.wait()

    def _ask(self, run_id: str | None, *, wait_ms: int) -> None:
        self._asking = self._tasks.spawn(self._lease(run_id, wait_ms))

    async def _lease(self, run_id: str | None, wait_ms: int) -> None:
        is_idle = not self.at_work
        try:
            if is_idle and self._is_dry:
                await self._tasks.in_thread(self._code.refresh)
            offer = Offer(
                worker=self._place.worker,
                slots=self._slots - self.at_work,
                project=self._code.project,
                pools=self._pools,
                run_id=run_id,
                # What is ready for the loaded code is done before the files are looked at again.
                wait_ms=0 if is_idle and not self._is_dry else wait_ms,
                code=self._code.code,
            )
            answer = await self._place.book.lease(offer)
            await self._look_at_files(answer, is_idle=is_idle)
            self._is_dry = not answer.tasks
            self._answer = answer
            self._failures = 0
        except (Unavailable, Unknown) as problem:
            self._tell(problem)
            await self._place.runtime.clock.sleep(self._pause_ms())
        except Exception as problem:
            self._failure = problem
        self._asking = None
        self._news.set()

    async def _look_at_files(self, answer: Leased, *, is_idle: bool) -> None:
        """The files may have changed while it waited for an answer."""
        in_thread = self._tasks.in_thread
        if is_idle and (answer.tasks or answer.other_code):
            before = self._code.code
            await in_thread(lambda: self._code.refresh(answer.tasks))
            if answer.other_code and self._code.code == before:
                self._code.report_other_code(answer.other_code)

    def _pause_ms(self) -> float:
        pause: int = min(_FIRST_PAUSE_MS << self._failures, _LONGEST_PAUSE_MS)
        self._failures = min(self._failures + 1, 10)
        return pause * (1 + self._place.runtime.rng.random() / 4)

    def _begin(self, task: LeasedTask) -> None:
        attempt = AttemptAtWork(self._place, task, lambda: self._leave(task))
        self._working[task.attempt_id] = attempt
        self._jobs[task.attempt_id] = self._tasks.spawn(self._work(attempt))

    def _leave(self, task: LeasedTask) -> None:
        """Its thread goes on alone, and its slot is free."""
        self._gave_up(task)
        self._news.set()

    async def _work(self, attempt: AttemptAtWork) -> None:
        try:
            await attempt.work()
        except Exception as problem:
            self._failure = (
                problem  # a bug of ours, or a book that refuses what we say: nobody retries
            )
        finally:
            del self._working[attempt.task.attempt_id]
            del self._jobs[attempt.task.attempt_id]
            self._news.set()

    async def _drain(self) -> None:
        """Wait for what is under way: to its end, or when told to stop as long as stopping may take."""
        answer, self._answer = self._answer, None
        if answer is not None and self._is_stopping:
            refused = [AttemptAtWork(self._place, task).refuse() for task in answer.tasks]
            await self._in_time(self._tasks.gather(*refused))
        while self.at_work and not self._is_stopping:
            self._news.clear()
            await self._news.wait()
        if self._is_stopping:
            await self._in_time(self._all_ended())
            for job in [*self._jobs.values()]:
                job.cancel()
        elif self._failure is not None:
            raise self._failure

    async def _in_time(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            await self._tasks.deadline(2 * self._place.pace.farewell_ms, work)

    async def _all_ended(self) -> None:
        while self.at_work:
            self._news.clear()
            await self._news.wait()
