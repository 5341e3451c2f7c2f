"""One process at a time is the coordinator, where only the store can decide which."""

from arco.core.errors import Unavailable
from arco.core.scope import Scope
from arco.flow.coordinator.coordinator_lease import LIFE_MS, CoordinatorLease
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.coordinator.coordinator_setup import in_virtual_time
from tests.ledger.simulated import Calm
from tests.sim.store import SimBackend


class _Connection(SimBackend):
    """The way to the store of one process, which may be cut."""

    is_cut = False

    async def put(self, key: str, body: bytes) -> None:
        self._check()
        await super().put(key, body)

    async def create(self, key: str, body: bytes) -> None:
        self._check()
        await super().create(key, body)

    def _check(self) -> None:
        if self.is_cut:
            raise Unavailable("the line is cut")


class _Two:
    """Two processes that want the same lease."""

    def __init__(self, calm: Calm) -> None:
        self.lines = [_Connection(calm.objects, calm.incarnation) for _ in range(2)]
        stores = [Store(line, calm.runtime, scope=Scope(), role=Role.API) for line in self.lines]
        self.one, self.two = (CoordinatorLease(store, f"n{n}") for n, store in enumerate(stores, 1))


@in_virtual_time
async def test_a_second_process_gets_the_name_of_the_holder(calm: Calm) -> None:
    both = _Two(calm)
    assert await both.one.take() is None
    for _ in range(5):
        began_ms = calm.clock.elapsed_ms()
        assert await both.two.take() == "n1"
        assert calm.clock.elapsed_ms() - began_ms < LIFE_MS
        await calm.clock.sleep(60_000)
    assert not both.one.lost.is_set()


@in_virtual_time
async def test_a_released_lease_is_taken_at_once(calm: Calm) -> None:
    both = _Two(calm)
    await both.one.take()
    await both.one.release()
    began_ms = calm.clock.elapsed_ms()
    assert await both.two.take() is None
    assert calm.clock.elapsed_ms() - began_ms < 2_000


@in_virtual_time
async def test_a_holder_that_cannot_renew_loses_the_lease_before_another_takes_it(
    calm: Calm,
) -> None:
    both = _Two(calm)
    await both.one.take()
    await calm.clock.sleep(LIFE_MS / 2)
    both.lines[0].is_cut = True
    began_ms = calm.clock.elapsed_ms()
    while await both.two.take() is not None:
        assert not both.one.lost.is_set()
    assert both.one.lost.is_set()
    assert calm.clock.elapsed_ms() - began_ms < 2 * LIFE_MS
    both.lines[0].is_cut = False
    assert await both.one.take() == "n2"


@in_virtual_time
async def test_a_holder_that_was_cut_off_can_take_its_lease_again(calm: Calm) -> None:
    both = _Two(calm)
    await both.one.take()
    both.lines[0].is_cut = True
    await both.one.lost.wait()
    both.lines[0].is_cut = False
    assert await both.one.take() is None
    assert not both.one.lost.is_set()
    assert await both.two.take() == "n1"


@in_virtual_time
async def test_two_concurrent_processes_do_not_both_get_it(calm: Calm) -> None:
    both = _Two(calm)
    answers = await calm.runtime.tasks.gather(both.one.take(), both.two.take())
    assert sorted(each is None for each in answers) == [False, True]


@in_virtual_time
async def test_an_unreadable_renewal_does_not_end_the_lease(calm: Calm) -> None:
    both = _Two(calm)
    await both.one.take()
    store = Store(both.lines[0], calm.runtime, scope=Scope(), role=Role.API)
    await store.put_hint(f"locks/runs/{0:020d}.renewal.json", b"of a later Arco")
    assert await both.two.take() == "n1"
    assert not both.one.lost.is_set()


@in_virtual_time
async def test_a_released_lease_can_be_taken_repeatedly(calm: Calm) -> None:
    both = _Two(calm)
    for tenure, other, name in (
        (both.one, both.two, "n1"),
        (both.one, both.two, "n1"),
        (both.two, both.one, "n2"),
        (both.one, both.two, "n1"),
    ):
        assert await tenure.take() is None
        assert await other.take() == name
        await calm.clock.sleep(2 * LIFE_MS)
        assert not tenure.lost.is_set()
        await tenure.release()
