"""The requests that a lease costs: none while it is held, few for a process without rivals."""

from arco.catalog.lease import IDLE_MS, Lease
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend, ObservedBackend
from arco.storage.chain import Chain
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.lease_contest import DOMAIN, Contest, crash_after
from tests.request_counter import Tally


def spied(backend: Backend, runtime: Runtime) -> tuple[Tally, Store]:
    tally = Tally()
    observed = ObservedBackend(backend, tally, runtime.clock)
    return tally, Store(observed, runtime, scope=Scope(), role=Role.API)


async def test_a_held_lease_costs_no_request_at_all(memory: Backend, runtime: Runtime) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a", life_ms=60_000)
    await lease.hold()
    await runtime.clock.sleep(50)  # the chain leaves its head hint
    tally.clear()
    for _ in range(1_000):
        assert await lease.hold() == 0
        lease.idle()
    assert tally.seen == []
    await lease.close()


async def test_after_a_rest_the_lease_costs_one_create(memory: Backend, runtime: Runtime) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a")
    await lease.hold()
    lease.idle()
    await runtime.clock.sleep(2 * IDLE_MS)
    assert lease.token is None
    tally.clear()
    assert await lease.hold() == 1
    requests = [(verb, key.rpartition("/")[2]) for verb, key, _ in tally.seen]
    assert [each for each in requests if each[1] != "head.json"] == [("create", f"{1:020d}.json")]
    await lease.close()


async def test_a_single_change_reuses_the_last_epoch_without_a_request(
    memory: Backend, runtime: Runtime
) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a")
    assert lease.reuse() is None  # there was none yet
    assert await lease.hold() == 0
    lease.idle()
    assert lease.reuse() is None  # it is held still
    await runtime.clock.sleep(2 * IDLE_MS)
    tally.clear()
    for _ in range(2):
        assert lease.reuse() == 0
        assert lease.token is None
        assert lease.reuse() is None  # at work
        lease.idle()
        assert lease.reuse() is None  # the next change comes at once: worth an epoch
        await runtime.clock.sleep(2 * IDLE_MS)
    assert tally.seen == []
    assert await lease.hold() == 1
    await lease.close()


async def test_an_epoch_with_a_known_successor_is_not_reused(
    memory: Backend, runtime: Runtime
) -> None:
    first = Lease(spied(memory, runtime)[1], DOMAIN, holder="a")
    await first.hold()
    first.idle()
    await runtime.clock.sleep(2 * IDLE_MS)
    second = Lease(spied(memory, runtime)[1], DOMAIN, holder="b")
    assert await second.hold() == 1
    await second.close()
    assert first.reuse() == 0
    first.lost()
    first.idle()
    await runtime.clock.sleep(2 * IDLE_MS)
    assert first.reuse() is None
    assert await first.hold() == 2
    await first.close()


async def test_releasing_an_idle_lease_costs_one_read_and_one_write(
    memory: Backend, runtime: Runtime
) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a", life_ms=60_000)
    await lease.hold()
    await runtime.clock.sleep(50)
    tally.clear()
    lease.idle()
    await runtime.clock.sleep(2 * IDLE_MS)
    requests = [(verb, key.partition(".")[2]) for verb, key, _ in tally.seen]
    assert requests == [("get", "waiting.renewal.json"), ("put", "renewal.json")]
    await lease.close()


async def test_a_cold_start_after_a_release_costs_the_head_two_reads_and_a_create(
    memory: Backend, runtime: Runtime
) -> None:
    first = Lease(spied(memory, runtime)[1], DOMAIN, holder="a")
    await first.hold()
    await first.close()
    tally, store = spied(memory, runtime)
    await Chain(store, f"locks/{DOMAIN}").head()
    head_costs = len(tally.seen)
    tally.clear()
    second = Lease(store, DOMAIN, holder="b")
    assert await second.hold() == 1
    # The release, and whether another process has waited longer for it.
    assert len([key for _, key, _ in tally.seen if "head.json" not in key]) == head_costs - 1 + 3
    await second.close()


def test_waiting_costs_one_request_a_look_and_at_most_ten_a_second() -> None:
    contest = Contest()
    crash_after(contest, "first", 500)
    contest.join("second", lambda contender: contender.work(10), at_ms=1_000)
    counts: list[int] = []
    for at_ms in (2_000, 3_000):
        contest.world.after(at_ms, lambda: counts.append(contest.world.tally["requests"]))
    contest.run(10)
    assert 4 <= counts[1] - counts[0] <= 10
