"""A full store during a run: waited for some seconds, then given up."""

from typing import cast

import pytest

from arco.core.errors import StoreFull
from arco.core.runtime import Runtime
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    LeasedTask,
    LeaseRequest,
    LeaseResponse,
    TaskStatus,
)
from arco.flow.coordinator.ports import Coordinator
from arco.server.full_store import FullStoreWatch

OFFER = LeaseRequest(worker="w", slots=1, project="p")
DONE = AttemptReport(
    attempt_id="a",
    worker="w",
    started_at_ms=1,
    completed_at_ms=2,
    outcome=AttemptOutcome(status=TaskStatus.SUCCESS),
)
TASK = LeasedTask(
    run_id="r",
    key="k",
    maker="k",
    partition="",
    attempt=1,
    attempt_id="a",
    lease_until_ms=1,
    reason="MISSING",
    now_ms=1,
)


class _Store:
    """A coordinator whose store is full or not."""

    def __init__(self) -> None:
        self.is_full = True
        self.has_tasks = False

    async def lease(self, _offer: LeaseRequest) -> LeaseResponse:
        if self.is_full and self.has_tasks:
            raise StoreFull("no space left")
        return LeaseResponse(tasks=(TASK,) if self.has_tasks else ())

    async def complete(self, _completed: AttemptReport) -> None:
        if self.is_full:
            raise StoreFull("no space left")


def watching(store: _Store, runtime: Runtime, timeout_ms: float) -> FullStoreWatch:
    return FullStoreWatch(cast("Coordinator", store), runtime, timeout_ms=timeout_ms)


async def test_a_store_that_is_full_briefly_is_waited_for(runtime: Runtime) -> None:
    store = _Store()
    watch = watching(store, runtime, 3_600_000)
    for _ in range(3):
        with pytest.raises(StoreFull):
            await watch.complete(DONE)
    assert not watch.given_up.is_set()


async def test_a_store_that_stays_full_is_given_up(runtime: Runtime) -> None:
    watch = watching(_Store(), runtime, 20)
    with pytest.raises(StoreFull):
        await watch.complete(DONE)
    await watch.lease(OFFER)  # without tasks nothing is written
    assert watch.problem is None
    await runtime.clock.sleep(30)
    with pytest.raises(StoreFull):
        await watch.complete(DONE)
    assert watch.given_up.is_set()
    assert str(watch.problem) == "no space left"


@pytest.mark.parametrize("by_lease", [True, False])
async def test_a_successful_write_restarts_the_timeout(runtime: Runtime, *, by_lease: bool) -> None:
    store = _Store()
    watch = watching(store, runtime, 20)
    with pytest.raises(StoreFull):
        await watch.complete(DONE)
    await runtime.clock.sleep(30)
    store.is_full, store.has_tasks = False, by_lease
    await (watch.lease(OFFER) if by_lease else watch.complete(DONE))
    store.is_full = True
    with pytest.raises(StoreFull):
        await watch.complete(DONE)
    assert not watch.given_up.is_set()
