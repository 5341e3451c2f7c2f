"""The port to the book of runs: workers, the command line and the API speak to it through this alone."""

from typing import Protocol

from arco.flow.plan.plan import Plan
from arco.flow.run.wire import Beat, Completed, Leased, Offer, Pulse, RunView, RunWish
from arco.flow.state import StateReader


class TaskBook(Protocol):
    """The book of runs as far as a worker needs it.

    `NotFound` for an attempt that nobody knows, `AttemptFenced` for one that has lost its task.
    """

    async def lease(self, offer: Offer) -> Leased:
        """Tasks for a worker; waits for some if it is asked to."""

    async def beat(self, beat: Beat) -> Pulse:
        """A sign of life, which makes the lease longer."""

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        """Which of these attempts are to stop at once; waits for one if it is asked to."""

    async def complete(self, completed: Completed) -> None:
        """How an attempt ended; durable once this returns. Saying it twice is saying it once."""


class Coordinator(TaskBook, StateReader, Protocol):
    """The book of runs, wherever it is.

    `NotFound` for a run that nobody knows, `Invalid` for a run key that stands for another plan.
    """

    async def submit(self, wish: RunWish) -> RunView:
        """Take a plan on; it is durable once this returns."""

    async def look(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        """How a run stands, once it has changed since a number, or after so long."""

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        """Stop a run for good. What is published stays published."""

    async def retry(self, run_id: str, worker: str = "", plan: Plan | None = None) -> RunView:
        """A new run of what failed, was skipped, blocked or cancelled in a run that is over.

        `plan` is a plan of these tasks or some of them, made with the present code; without one the plan
        of the run is carried out again, by workers that have the code it was made with.
        """
