"""Garbage collection deletes what is old and has ended, and nothing of a run that may be resumed."""

import pytest

from arco.core.errors import NotFound, Unavailable
from arco.flow.coordinator.attempt_logs import log_key, read_log
from arco.flow.coordinator.coordinator_lease import CoordinatorLease
from arco.flow.coordinator.garbage_collection import (
    LEASE_RETENTION_MS,
    RunGarbageCollector,
    RunGcReport,
)
from arco.flow.coordinator.leases import lease_key
from arco.flow.coordinator.messages import RunStatus
from arco.flow.coordinator.plan_store import claim_key, plan_key
from arco.flow.coordinator.ports import StoredRun
from arco.flow.plan.plan import Plan
from arco.storage.roles import Role
from tests.flow.coordinator.coordinator_setup import (
    FAILED,
    CoordinatorSetup,
    run_scenario,
    simulated,
)
from tests.flow.coordinator.plans import asset, plan, run_request, task

DAY_MS = 24 * 3_600_000
KEPT_MS = 5 * DAY_MS


def _one() -> Plan:
    return plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])


async def _collect(setup: CoordinatorSetup, *, dry_run: bool = False) -> RunGcReport:
    janitor = RunGarbageCollector(setup.store(Role.JANITOR), setup.reader, retention_ms=KEPT_MS)
    return await janitor.collect(dry_run=dry_run)


async def _left(setup: CoordinatorSetup) -> set[str]:
    store = setup.store(Role.JANITOR)
    return {
        meta.key
        for folder in ("runs/", "logs/", "leases/")
        for meta in [meta async for meta in store.list(folder)]
    }


async def _made(setup: CoordinatorSetup, key: str) -> tuple[str, str]:
    """A run that is over, with a log: its id and that of its attempt."""
    view = await setup.coordinator.submit(run_request(_one(), key))
    [leased] = await setup.lease()
    await setup.heartbeat(leased, log="it works\n")
    await setup.complete(leased, setup.publish(leased))
    await setup.over(view.run_id)
    return view.run_id, leased.attempt_id


@simulated
async def test_a_run_that_is_over_goes_with_all_that_is_left_of_it_once_it_is_old(
    setup: CoordinatorSetup,
) -> None:
    run_id, attempt_id = await _made(setup, "one")
    all_keys = {
        claim_key("one"),
        plan_key(run_id),
        log_key(run_id, attempt_id, 0),
        lease_key(attempt_id),
    }
    assert await _left(setup) == all_keys
    assert (await _collect(setup)).total() == 0
    await setup.sleep(LEASE_RETENTION_MS + 1_000)
    assert (await _collect(setup)).leases == 1
    assert await _left(setup) == all_keys - {lease_key(attempt_id)}
    await setup.sleep(KEPT_MS)
    done = await _collect(setup)
    assert (done.claims, done.plans, done.logs, done.leases) == (1, 1, 1, 0)
    assert done.bytes > 0
    assert await _left(setup) == set()


@simulated
async def test_a_dry_run_deletes_nothing_and_reports_the_same(setup: CoordinatorSetup) -> None:
    await _made(setup, "one")
    await setup.sleep(KEPT_MS + 1_000)
    before = await _left(setup)
    rehearsed = await _collect(setup, dry_run=True)
    assert await _left(setup) == before
    done = await _collect(setup)
    assert rehearsed.dry_run
    assert not done.dry_run
    assert (rehearsed.total(), rehearsed.bytes) == (done.total(), done.bytes) == (4, done.bytes)


def test_a_run_that_waits_for_workers_is_kept_however_old_it_is() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        view = await setup.coordinator.submit(run_request(_one(), "waits"))
        over, _ = await _made_beside(setup, view.run_id)
        await setup.sleep(4 * KEPT_MS)
        await _collect(setup)
        assert await _left(setup) == {claim_key("waits"), plan_key(view.run_id)}
        await setup.restart()
        [leased] = await setup.lease()
        assert leased.run_id == view.run_id
        with pytest.raises(NotFound):
            await setup.coordinator.get_run(over)

    async def _made_beside(setup: CoordinatorSetup, waits: str) -> tuple[str, str]:
        other = plan(task("u@1", maker="u", partition="ds=1"), makers=[asset("u")])
        view = await setup.coordinator.submit(run_request(other, "beside", worker="v"))
        [leased] = await setup.lease("v", run_id=view.run_id)
        assert leased.run_id != waits
        await setup.complete(leased, setup.publish(leased), "v")
        await setup.over(view.run_id)
        return view.run_id, leased.attempt_id

    run_scenario(scenario)


@simulated
async def test_an_attempt_that_goes_on_for_days_keeps_its_lease_and_its_log(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(_one(), "long"))
    [leased] = await setup.lease()
    await setup.heartbeat(leased, log="first\n")
    store = setup.store(Role.JANITOR)
    ends_ms = setup.runtime.clock.elapsed_ms() + LEASE_RETENTION_MS + DAY_MS / 24
    while setup.runtime.clock.elapsed_ms() < ends_ms:
        await setup.sleep(14_000)
        await setup.heartbeat(leased)
    assert (await _collect(setup)).total() == 0
    await setup.heartbeat(leased, log="last\n")
    await setup.complete(leased, FAILED)
    await setup.over(view.run_id)
    await setup.sleep(KEPT_MS - DAY_MS)
    done = await _collect(setup)  # the first lines are old, the last ones are not
    assert (done.plans, done.claims, done.logs) == (0, 0, 0)
    log = await read_log(store, view.run_id, leased.attempt_id)
    assert log.text == "first\nlast\n"
    await setup.sleep(2 * DAY_MS)
    assert (await _collect(setup)).logs == 2


def test_runs_are_not_collected_while_unfinished_ones_cannot_be_read() -> None:
    class Away:
        async def unfinished(self) -> tuple[StoredRun, ...]:
            raise Unavailable("too much was not compacted")

        async def run(self, run_id: str, *, caller: str | None = None) -> StoredRun | None:
            return StoredRun(run_id, RunStatus.SUCCESS, is_over=True)

    async def scenario(setup: CoordinatorSetup) -> None:
        run_id, attempt_id = await _made(setup, "one")
        await setup.sleep(KEPT_MS + 1_000)
        with pytest.raises(Unavailable):
            await RunGarbageCollector(
                setup.store(Role.JANITOR), Away(), retention_ms=KEPT_MS
            ).collect()
        kept = {claim_key("one"), plan_key(run_id), log_key(run_id, attempt_id, 0)}
        assert await _left(setup) == kept

    run_scenario(scenario)


@simulated
async def test_a_run_key_that_was_forgotten_is_a_new_run(setup: CoordinatorSetup) -> None:
    first, _ = await _made(setup, "again")
    await setup.restart()
    await setup.sleep(KEPT_MS + 1_000)
    await _collect(setup)
    second, _ = await _made(setup, "again")
    assert second != first


@simulated
async def test_what_others_have_put_beside_it_is_left_alone(setup: CoordinatorSetup) -> None:
    store = setup.store(Role.FLOW)
    others = {"runs/x/notes.txt", "logs/x/notes.txt", "runs/keys/x.json"}
    for key in others:
        await store.create(key, b"mine")
    await store.put_hint("leases/mine.json", b"{}")
    await setup.sleep(4 * KEPT_MS)
    await _collect(setup)
    assert await _left(setup) == {*others, "leases/mine.json"}


def test_old_coordinator_epochs_are_deleted_and_the_holder_keeps_its_lease() -> None:
    async def epochs(setup: CoordinatorSetup) -> int:
        listed = [meta.key async for meta in setup.store(Role.JANITOR).list("locks/runs/")]
        return sum(key.startswith("locks/runs/0") for key in listed)

    async def scenario(setup: CoordinatorSetup) -> None:
        for number in range(3):
            released_lease = CoordinatorLease(setup.store(Role.API), f"n{number}")
            assert await released_lease.take() is None
            await released_lease.release()
        keeper = CoordinatorLease(setup.store(Role.API), "keeper")
        assert await keeper.take() is None
        assert (await _collect(setup)).epochs == 0
        await setup.sleep(LEASE_RETENTION_MS + 1_000)
        before = await epochs(setup)
        rehearsed = await _collect(setup, dry_run=True)
        assert await epochs(setup) == before
        done = await _collect(setup)
        assert rehearsed.epochs == done.epochs == before - await epochs(setup) == 6
        assert rehearsed.bytes == done.bytes > 0
        other = CoordinatorLease(setup.store(Role.API), "another")
        assert await other.take() == "keeper"
        assert not keeper.lost.is_set()
        await keeper.release()
        assert await other.take() is None
        await other.release()

    run_scenario(scenario)
