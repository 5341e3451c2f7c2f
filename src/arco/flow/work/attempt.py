"""One attempt at a task: carried out in a thread, with signs of life, until the book of runs knows its end.

An attempt that is over within a blink costs one thread and nothing else. Others are looked after: a beat
every few seconds, which makes the lease longer, and a call that waits for the word to stop. Whoever cannot
reach the book for as long as its lease lasts takes the task for lost, as the book does by then.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from opentelemetry.trace import Span

from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.flow.run.port import TaskBook
from arco.flow.run.wire import HEARTBEAT_MS, LEASE_MS, LeasedTask, Outcome, TaskStatus
from arco.flow.work.ending import Stop, broken, ended, is_published, unfinished
from arco.flow.work.port import Executor
from arco.flow.work.said import Said
from arco.flow.work.telling import Telling
from arco.flow.work.tracing import Tracing, within

_BLINK_MS = 250  # whoever is over by then needs no care
_WATCH_MS = 25_000


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often an attempt gives signs of life, and how long it may take to stop once it is told to.

    `farewell_ms` is how long if its worker is about to end: whoever ends it waits.
    """

    beat_ms: float = HEARTBEAT_MS
    lease_ms: float = LEASE_MS
    grace_ms: float = 10_000
    farewell_ms: float = 1_500


@dataclass(frozen=True)
class Workplace:
    """What all attempts of a worker share."""

    book: TaskBook
    executor: Executor
    runtime: Runtime
    worker: str
    pace: Pace = Pace()
    tracing: Tracing = field(default_factory=Tracing)


class AttemptAtWork:
    """A leased task while it is worked on."""

    def __init__(
        self, place: Workplace, task: LeasedTask, given_up: Callable[[], None] = lambda: None
    ) -> None:
        self.task = task
        self.is_given_up = False  # its thread does not stop, and nobody waits for it any more
        self._given_up = given_up
        self._place = place
        self._clock = place.runtime.clock
        self._tasks = place.runtime.tasks
        self._said = Said()
        self._telling = Telling(place.book, place.runtime, place.worker, task, self._said)
        self._began_ms = self._leased_ms = self._clock.elapsed_ms()
        self._stop: Stop | None = None
        self._stopped_ms = 0.0
        self._grace_ms = place.pace.grace_ms
        self._stir = place.runtime.tasks.event()  # wakes who cares for it
        self._is_over = False  # carried out: only the word of it is still on its way
        self._is_told = False
        self._told_as: TaskStatus | None = None
        self._interrupting: Task[None] | None = None  # held, or it might be collected on its way

    async def work(self) -> None:
        """Carry the task out, and return once the book has its end or must not hear of it."""
        tracing = self._place.tracing
        span = tracing.start(self.task, self._place.worker)
        care = self._tasks.spawn(self._care())
        try:
            outcome = await self._tasks.in_thread(lambda: self._execute(span))
            self._is_over = True
            if self._is_told:
                await care.wait()  # that it was given up is heard first
            if not self._is_told or is_published(outcome):
                await self._tell(outcome)
        finally:
            care.cancel()
            tracing.end(span, self._told_as)

    def stop(self, why: Stop) -> None:
        """Have it stop; the first reason counts, unless the task turns out to be lost."""
        if self._stop is None:
            self._stopped_ms = self._clock.elapsed_ms()
            self._said.stop()
            self._interrupting = self._tasks.spawn(self._interrupt())
        if self._stop is None or why is Stop.LOST:
            self._stop = why
        if why is Stop.WORKER_STOPPED:
            self.hurry()
        self._stir.set()

    def hurry(self) -> None:
        """Its worker is about to end: if it is to stop, it has little time for that."""
        self._grace_ms = self._place.pace.farewell_ms
        self._stopped_ms = max(self._stopped_ms, self._clock.elapsed_ms() - self._grace_ms)
        self._stir.set()

    def _execute(self, span: Span) -> Outcome:
        try:
            with within(span):
                return self._place.executor.execute(self.task, self._said)
        except Exception as problem:
            return broken(problem)

    async def _interrupt(self) -> None:
        attempt_id = self.task.attempt_id
        try:
            await self._tasks.in_thread(lambda: self._place.executor.interrupt(attempt_id))
        except Exception as problem:
            self._said.log(f"it could not be interrupted: {type(problem).__name__}: {problem}")

    async def _care(self) -> None:
        """Beats and timeouts, until the attempt is over."""
        await self._clock.sleep(min(_BLINK_MS, self._time_left_ms()))
        watching = self._tasks.spawn(self._watch())
        next_beat_ms = self._began_ms + self._place.pace.beat_ms
        try:
            while not self._is_told:
                now = self._clock.elapsed_ms()
                if not self._is_over:
                    self._look_at_the_clock(now)
                    if self._stop is not None and now >= self._grace_ends_ms:
                        return await self._give_up(self._stop)
                if now >= next_beat_ms and self._stop is not Stop.LOST:
                    next_beat_ms = now + await self._beat()
                self._stir.clear()
                with suppress(TimeoutError):
                    await self._tasks.deadline(self._pause_ms(next_beat_ms), self._stir.wait())
        finally:
            watching.cancel()

    def _look_at_the_clock(self, now: float) -> None:
        if self._time_left_ms() <= 0:
            self.stop(Stop.TIMED_OUT)
        if now >= self._leased_ms + self._place.pace.lease_ms:
            self.stop(Stop.LOST)

    @property
    def _grace_ends_ms(self) -> float:
        return self._stopped_ms + self._grace_ms

    def _time_left_ms(self) -> float:
        if self.task.timeout_ms is None:
            return float("inf")
        return self._began_ms + self.task.timeout_ms - self._clock.elapsed_ms()

    def _pause_ms(self, next_beat_ms: float) -> float:
        """Until something is to be done."""
        now, pace = self._clock.elapsed_ms(), self._place.pace
        if self._is_over:
            due = next_beat_ms if self._stop is not Stop.LOST else now + pace.beat_ms
        elif self._stop is None:
            due = min(next_beat_ms, self._leased_ms + pace.lease_ms, now + self._time_left_ms())
        elif self._stop is Stop.LOST:
            due = self._grace_ends_ms
        else:
            due = min(next_beat_ms, self._grace_ends_ms)
        return max(due - now, 1.0)

    async def _beat(self) -> float:
        """Give a sign of life; how long until the next."""
        pace, asked_ms = self._place.pace, self._clock.elapsed_ms()
        soon_ms = min(pace.beat_ms / 5, 1_000)
        try:
            pulse = await self._tasks.deadline(pace.beat_ms, self._telling.beat())
        except (Unavailable, Unknown, TimeoutError):
            return soon_ms
        except ArcoError:
            self.stop(Stop.LOST)  # nobody knows it any more, or somebody else has it
            return pace.beat_ms
        except Exception as problem:  # a bug of ours: tried again for as long as the lease lasts
            self._said.log(f"it gave no sign of life: {type(problem).__name__}: {problem}")
            return soon_ms
        self._leased_ms = asked_ms
        if pulse.is_lost:
            self.stop(Stop.LOST)
        elif pulse.should_cancel:
            self.stop(Stop.CANCELLED)
        return pace.beat_ms

    async def _watch(self) -> None:
        """Wait for the word to stop, which so comes sooner than with the next beat."""
        attempt_id = self.task.attempt_id
        while self._stop is None:
            try:
                stopped = await self._place.book.watch(self._place.worker, (attempt_id,), _WATCH_MS)
            except (Unavailable, Unknown):
                await self._clock.sleep(1_000)
                continue
            except ArcoError:
                return  # the next beat hears of it too
            if attempt_id in stopped:
                self.stop(Stop.CANCELLED)

    async def _give_up(self, why: Stop) -> None:
        """Tell of an attempt that does not stop. Its thread goes on, and is heard again if it publishes."""
        self._is_told = True
        try:
            if why is not Stop.LOST:
                await self._complete(unfinished(self.task, why))
        finally:
            self.is_given_up = True
            self._given_up()

    async def refuse(self) -> None:
        """Give the task back without having begun it."""
        await self._complete(unfinished(self.task, Stop.WORKER_STOPPED))

    async def _tell(self, outcome: Outcome) -> None:
        """Tell the end of the attempt; of one that was lost only what it has published all the same."""
        if self._stop is Stop.LOST and not is_published(outcome):
            return
        await self._complete(ended(self.task, outcome, self._stop))

    async def _complete(self, outcome: Outcome) -> None:
        if await self._telling.end(outcome):
            self._told_as = outcome.status
