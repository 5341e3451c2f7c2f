"""Logs: every line once, in order, and readable without any listing."""

from arco.flow.run.logs import Logs, read_log
from arco.storage.roles import Role
from tests.flow.run.plans import chain, wish
from tests.flow.run.rig import Rig, story
from tests.ledger.simulated import Calm, simulate


def test_lines_of_beats_and_of_the_end_are_kept_in_order() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(1)))
        [leased] = await rig.lease()
        await rig.beat(leased, log="one\n")
        await rig.beat(leased, log="two\n")
        await rig.restart()
        await rig.beat(leased, log="three\n")
        await rig.complete(leased, log="four\n")
        store = rig.store(Role.API)
        text, following = await read_log(store, view.run_id, leased.attempt_id)
        assert text == "one\ntwo\nthree\nfour\n"
        assert following == 4
        assert await read_log(store, view.run_id, leased.attempt_id, 2) == ("three\nfour\n", 4)

    story(tell)


def test_a_part_that_is_sent_again_is_kept_once() -> None:
    async def tell(calm: Calm) -> None:
        logs = Logs(calm.store(Role.FLOW))
        for _ in range(3):
            await logs.write("run", "attempt", "same\n")
        await logs.write("run", "attempt", "")
        await logs.write("run", "attempt", "other\n")
        assert await read_log(calm.store(), "run", "attempt") == ("same\nother\n", 2)

    simulate(tell)


def test_a_long_log_is_read_part_by_part() -> None:
    async def tell(calm: Calm) -> None:
        logs = Logs(calm.store(Role.FLOW))
        for number in range(40):
            await logs.write("run", "attempt", f"{number}\n")
        text, following = await read_log(calm.store(), "run", "attempt")
        assert text.split() == [str(number) for number in range(40)]
        assert following == 40

    simulate(tell)
