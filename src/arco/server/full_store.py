"""A coordinator that gives up after its store was full for some seconds.

A user may be freeing space, so a full store is waited for a little. A worker by itself would repeat its
reports for ever.
"""

from collections.abc import Awaitable
from typing import TypeVar

from arco.core.errors import StoreFull
from arco.core.runtime import Runtime
from arco.flow.coordinator.messages import (
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunView,
)
from arco.flow.coordinator.ports import Coordinator

T = TypeVar("T")

_TIMEOUT_MS = 8_000


class FullStoreWatch:
    """The coordinator of one run, with a watch on its store.

    `given_up` is set once the store was full for too long.
    """

    def __init__(
        self, coordinator: Coordinator, runtime: Runtime, *, timeout_ms: float = _TIMEOUT_MS
    ) -> None:
        self.given_up = runtime.tasks.event()
        self.problem: StoreFull | None = None  # the error, once `given_up` is set
        self._coordinator = coordinator
        self._runtime = runtime
        self._timeout_ms = timeout_ms
        self._full_since_ms: float | None = None

    async def get_run(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        return await self._watched(self._coordinator.get_run(run_id, since, wait_ms))

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        return await self._coordinator.cancel(run_id, by)

    async def lease(self, offer: LeaseRequest) -> LeaseResponse:
        leased = await self._watched(self._coordinator.lease(offer))
        if leased.tasks:
            self._full_since_ms = None  # leased tasks were written to the store
        return leased

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        return await self._watched(self._coordinator.heartbeat(beat))

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        return await self._coordinator.watch(worker, attempt_ids, wait_ms)

    async def complete(self, completed: AttemptReport) -> None:
        await self._watched(self._coordinator.complete(completed))
        self._full_since_ms = None

    async def _watched(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except StoreFull as full:
            now_ms = self._runtime.clock.elapsed_ms()
            if self._full_since_ms is None:
                self._full_since_ms = now_ms
            if now_ms - self._full_since_ms >= self._timeout_ms:
                self.problem = full
                self.given_up.set()
            raise
