"""Room in the store: a full one is waited for a little, as somebody may be making room, and then told of.

A worker by itself would say what it has done again and again, for as long as nobody takes it.
"""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from arco.core.errors import StoreFull
from arco.core.runtime import Runtime
from arco.flow.coordinator.messages import (
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunView,
)
from arco.flow.coordinator.ports import Coordinator
from arco.flow.plan.table_state import PlanningState

T = TypeVar("T")

PATIENCE_MS = 8_000


class RoomWatch:
    """A book of runs, with an eye on its store: `given_up` is set once it has been full for too long."""

    def __init__(
        self, book: Coordinator, runtime: Runtime, *, patience_ms: float = PATIENCE_MS
    ) -> None:
        self.given_up = runtime.tasks.event()
        self.problem: StoreFull | None = None  # why, once it is
        self._book = book
        self._runtime = runtime
        self._patience_ms = patience_ms
        self._full_since_ms: float | None = None

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> PlanningState:
        return await self._book.state(tables, files_of)

    async def submit(self, wish: RunRequest) -> RunView:
        return await self._book.submit(wish)

    async def get_run(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        return await self._watched(self._book.get_run(run_id, since, wait_ms))

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        return await self._book.cancel(run_id, by)

    async def retry(self, run_id: str, worker: str = "") -> RunView:
        return await self._book.retry(run_id, worker)

    async def lease(self, offer: LeaseRequest) -> LeaseResponse:
        leased = await self._watched(self._book.lease(offer))
        if leased.tasks:
            self._full_since_ms = None  # that they were given out is written down
        return leased

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        return await self._watched(self._book.heartbeat(beat))

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        return await self._book.watch(worker, attempt_ids, wait_ms)

    async def complete(self, completed: AttemptReport) -> None:
        await self._watched(self._book.complete(completed))
        self._full_since_ms = None

    async def _watched(self, asked: Awaitable[T]) -> T:
        try:
            return await asked
        except StoreFull as full:
            now_ms = self._runtime.clock.elapsed_ms()
            if self._full_since_ms is None:
                self._full_since_ms = now_ms
            if now_ms - self._full_since_ms >= self._patience_ms:
                self.problem = full
                self.given_up.set()
            raise
