"""Processes that slept through a retention (P7, figure 8): they fork no chain, and get an error."""

import pytest

from arco.core.errors import Conflict, Unavailable, Unknown
from arco.storage.backend import Backend
from arco.storage.chain import SHORTEST_RETENTION_MS
from tests.clocks import HandClock
from tests.storage.chains import (
    chain_on,
    collect_below,
    grown,
    janitor_on,
    number_key,
    once_before,
)
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder

NAP_MS = SHORTEST_RETENTION_MS / 2


async def test_a_head_remembered_for_too_long_is_read_from_the_store(memory: Backend) -> None:
    clock, recorder = HandClock(), Recorder()
    await grown(memory, 4)
    chain = chain_on(memory, recorder, clock)
    await chain.head()
    clock.pass_ms(NAP_MS - 1)
    recorder.clear()
    assert (await chain.head()).number == 3
    assert len(recorder.requests) == 1
    clock.pass_ms(NAP_MS)
    await grown(memory, 7)
    await collect_below(memory, 8)
    assert (await chain.head()).number == 10


async def test_a_search_that_was_suspended_is_restarted(memory: Backend) -> None:
    clock = HandClock()
    await grown(memory, 4)

    async def sleep() -> None:
        clock.pass_ms(NAP_MS)
        await grown(memory, 7)
        await collect_below(memory, 8)

    step = once_before(number_key(4), sleep)
    chain = chain_on(memory, clock=clock)
    head = await chain.head()
    asleep = chain_on(Interposed(memory, before=step), clock=clock)
    asleep._remembered = head
    assert (await asleep.head()).number == 10


@pytest.mark.parametrize("when", ["before the create", "while it is under way"])
async def test_a_sleeper_that_recreates_a_collected_number_gets_unknown(
    memory: Backend, when: str
) -> None:
    clock = HandClock()
    await grown(memory, 4)

    async def sleep() -> None:
        clock.pass_ms(NAP_MS)
        await grown(memory, 7)
        await collect_below(memory, 8)

    step = once_before(number_key(4), sleep, "create")
    # The head is read by one handle and used by another, whose first request is the create.
    head = await chain_on(memory, clock=clock).head()
    if when == "before the create":
        await sleep()
        step = once_before("never", sleep)
    with pytest.raises(Unknown):
        await chain_on(Interposed(memory, before=step), clock=clock).append(head, "late")


async def test_a_sleeper_that_meets_another_at_a_collected_number_gets_unknown(
    memory: Backend,
) -> None:
    # The object may be a new one, at a number where our own create had landed before.
    clock = HandClock()
    await grown(memory, 4)
    head = await chain_on(memory, clock=clock).head()
    await grown(memory, 7)
    await janitor_on(memory).raise_floor(8)
    with pytest.raises(Conflict):
        await chain_on(memory, clock=clock).append(head, "awake")
    clock.pass_ms(NAP_MS)
    with pytest.raises(Unknown):
        await chain_on(memory, clock=clock).append(head, "asleep")


async def test_a_sleeper_that_cannot_read_the_floor_gets_unknown(memory: Backend) -> None:
    async def hide_floors(verb: str, key: str) -> None:
        if "/floor/" in key:
            raise Unavailable("503")

    clock = HandClock()
    await grown(memory, 4)
    head = await chain_on(memory, clock=clock).head()
    clock.pass_ms(NAP_MS)
    with pytest.raises(Unknown):
        await chain_on(Interposed(memory, before=hide_floors), clock=clock).append(head, "late")


@pytest.mark.parametrize("numbers", [0, 4])
async def test_a_sleeper_through_whose_sleep_nothing_was_collected_may_append(
    memory: Backend, numbers: int
) -> None:
    clock = HandClock()
    await grown(memory, numbers)
    chain = chain_on(memory, clock=clock)
    head = await chain.head()
    clock.pass_ms(10 * NAP_MS)
    assert (await chain.append(head, "late")).number == numbers
