"""Logs: every line once, in order, and readable without any listing."""

from arco.flow.coordinator.attempt_logs import AttemptLogStore, read_log
from arco.storage.roles import Role
from tests.flow.coordinator.coordinator_setup import CoordinatorSetup, in_virtual_time, simulated
from tests.flow.coordinator.plans import chain, run_request
from tests.ledger.simulated import Calm, simulate


@simulated
async def test_lines_of_heartbeats_and_of_the_end_are_stored_in_order(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    await setup.heartbeat(leased, log="one\n")
    await setup.heartbeat(leased, log="two\n")
    await setup.restart()
    await setup.heartbeat(leased, log="three\n")
    await setup.complete(leased, log="four\n")
    store = setup.store(Role.API)
    log = await read_log(store, view.run_id, leased.attempt_id)
    assert log == ("one\ntwo\nthree\nfour\n", 4, True)
    rest = await read_log(store, view.run_id, leased.attempt_id, 2)
    assert rest == ("three\nfour\n", 4, True)


@simulated
async def test_repeated_lines_are_stored_each_time_and_a_repeated_chunk_once(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    for part in (0, 1, 1, 2):
        await setup.heartbeat(leased, log="still waiting\n", log_part=part)
    await setup.restart()
    await setup.heartbeat(leased, log="still waiting\n", log_part=2)
    for _ in range(2):
        await setup.complete(leased, log="still waiting\n", log_part=3)
    log = await read_log(setup.store(Role.API), view.run_id, leased.attempt_id)
    assert log == (4 * "still waiting\n", 4, True)


@in_virtual_time
async def test_without_numbers_a_repeated_chunk_is_stored_once(calm: Calm) -> None:
    logs = AttemptLogStore(calm.store(Role.FLOW))
    for _ in range(3):
        await logs.write("run", "attempt", "same\n")
    await logs.write("run", "attempt", "")
    await logs.write("run", "attempt", "other\n")
    assert await read_log(calm.store(), "run", "attempt") == ("same\nother\n", 2, True)


@in_virtual_time
async def test_a_long_log_is_read_part_by_part(calm: Calm) -> None:
    logs = AttemptLogStore(calm.store(Role.FLOW))
    for number in range(40):
        await logs.write("run", "attempt", f"{number}\n")
    log = await read_log(calm.store(), "run", "attempt")
    assert log.text.split() == [str(number) for number in range(40)]
    assert (log.next, log.is_whole) == (40, True)


def test_a_page_of_a_large_log_is_bounded() -> None:
    line = "x" * 99_999 + "\n"

    async def scenario(calm: Calm) -> None:
        logs, store = AttemptLogStore(calm.store(Role.FLOW)), calm.store()
        for number in range(40):
            await logs.write("run", "attempt", line, number)
        first = await read_log(store, "run", "attempt")
        assert (first.next, first.is_whole) == (16, False)
        second = await read_log(store, "run", "attempt", first.next)
        third = await read_log(store, "run", "attempt", second.next)
        assert (third.next, third.is_whole) == (40, True)
        assert first.text + second.text + third.text == 40 * line

    simulate(scenario)
