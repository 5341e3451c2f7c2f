"""What the book of runs is told of one attempt: that it lives, what it logs, and how it ended.

Whatever user code says, the book hears that the attempt lives and how it ended. What cannot be told is left
out, and the log says so.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from arco.core.errors import ArcoError, Fenced, Invalid, NotFound, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.flow.run.lease import given
from arco.flow.run.port import TaskBook
from arco.flow.run.wire import Beat, Completed, LeasedTask, Outcome, Pulse, TaskStatus
from arco.flow.work.ending import without_extras
from arco.flow.work.plain import plain_outcome
from arco.flow.work.said import MOST_PENDING_CHARS, MOST_SENT_CHARS, Said

T = TypeVar("T")

_FIRST_PAUSE_MS = 200
_LONGEST_PAUSE_MS = 2_000
_MOST_PARTS = MOST_PENDING_CHARS // MOST_SENT_CHARS + 2  # whoever goes on speaking is not heard out
_BAD_ENDS = frozenset({TaskStatus.FAILED, TaskStatus.BLOCKED})
_REFUSALS = (Invalid, TypeError, ValueError)  # of the book, and of what makes JSON of it


class Telling:
    """Speaks to the book of runs for one attempt."""

    def __init__(
        self, book: TaskBook, runtime: Runtime, worker: str, task: LeasedTask, said: Said
    ) -> None:
        self._book = book
        self._runtime = runtime
        self._worker = worker
        self._task = task
        self._said = said
        self._started_at_ms = runtime.clock.now_ms()

    async def beat(self) -> Pulse:
        """Give a sign of life, with what was said since the last."""
        part, attempt_id = self._said.take(), self._task.attempt_id
        beat = Beat(
            attempt_id=attempt_id,
            worker=self._worker,
            progress=self._said.latest,
            log=part.text,
            log_part=part.number,
        )
        try:
            pulse = await self._book.beat(beat)
        except _REFUSALS as problem:
            self._said.refused(part, _words(problem))
            return await self._book.beat(Beat(attempt_id=attempt_id, worker=self._worker))
        self._said.heard(part)
        return pulse

    async def end(self, outcome: Outcome) -> bool:
        """Say how it ended until it was heard; False if the task is somebody else's by now.

        What was done must not be forgotten because the book was away.
        """
        at_ms = self._runtime.clock.now_ms()
        await self._send_lines()
        if outcome.error and outcome.status in _BAD_ENDS:
            self._said.log(outcome.error)  # who reads the log wants to know how it ended
        try:
            return await self._complete(outcome, at_ms)
        except _REFUSALS as problem:
            await self._send_lines()
            left_out = "its checks, lineage, metrics, warnings and columns were left out"
            self._said.log(
                f"... the book of runs did not take all of it: {left_out}: {_words(problem)}"
            )
            return await self._complete(without_extras(outcome), at_ms)

    async def _complete(self, outcome: Outcome, at_ms: int) -> bool:
        part = self._said.take()
        completed = Completed(
            attempt_id=self._task.attempt_id,
            worker=self._worker,
            started_at_ms=self._started_at_ms,
            completed_at_ms=at_ms,
            outcome=plain_outcome(outcome),
            log=part.text,
            log_part=part.number,
            run_id=self._task.run_id,
            key=self._task.key,
            inputs=given(self._task.inputs),
        )
        try:
            await self._until_heard(lambda: self._book.complete(completed))
        except (Fenced, NotFound):
            return False
        self._said.heard(part)
        return True

    async def _send_lines(self) -> None:
        """Send lines until what is said next goes with the end itself."""
        for _ in range(_MOST_PARTS):
            if not self._said.fills_a_part:
                return
            try:
                await self._until_heard(self.beat)
            except ArcoError:
                return  # the end matters more, and may be heard all the same

    async def _until_heard(self, say: Callable[[], Coroutine[Any, Any, T]]) -> T:
        clock, rng, tries = self._runtime.clock, self._runtime.rng, 0
        while True:
            try:
                return await say()
            except (Unavailable, Unknown):
                pause = min(_FIRST_PAUSE_MS * 2**tries, _LONGEST_PAUSE_MS)
                await clock.sleep(pause * (1 + rng.random() / 4))
                tries = min(tries + 1, 10)


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
