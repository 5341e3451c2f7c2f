"""Waiting at a caller's wish ends with the caller, before anything is given to it."""

import asyncio
from typing import Any

import pytest

from arco.access.authorization import Operation
from arco.access.principal import Principal
from arco.api.body import Gone
from arco.api.flow.waiting import Waiting
from arco.api.route import Call
from arco.api.stopping import Stopping
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope

LONG_MS = 20_000


class Asked:
    """Something to ask for that is never there, and whether somebody is still asking."""

    def __init__(self) -> None:
        self.is_asked = False
        self.times = 0

    async def __call__(self, _wait_ms: int) -> str:
        self.is_asked = True
        self.times += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_asked = False
        return ""


def call(runtime: Runtime) -> Call[Any, Any]:
    made: Call[Any, Any] = Call(
        operation=Operation.LEASE_TASKS,
        principal=Principal("user:ada", Scope()),
        names={},
        path=b"/",
        query_string=b"",
        headers={},
        arrived_ms=0,
    )
    made.left = runtime.tasks.event()
    return made


async def test_a_wait_ends_in_the_middle_when_the_caller_leaves_and_nobody_asks_on() -> None:
    runtime, asked = system_runtime(), Asked()
    made, waiting = call(runtime), Waiting(runtime, Stopping())
    until = asyncio.create_task(waiting.until(made, LONG_MS, asked, bool))
    await asyncio.sleep(0.01)
    assert asked.is_asked
    assert made.left is not None
    made.left.set()
    with pytest.raises(Gone):
        await until
    await asyncio.sleep(0)
    assert (asked.is_asked, asked.times) == (False, 1)


async def test_what_is_there_is_told_to_a_caller_who_stays() -> None:
    runtime, found = system_runtime(), iter(("", "", "it"))

    async def ask(_wait_ms: int) -> str:
        return next(found)

    waiting = Waiting(runtime, Stopping())
    assert await waiting.until(call(runtime), LONG_MS, ask, bool) == "it"


async def test_what_goes_wrong_while_somebody_waits_is_told() -> None:
    runtime = system_runtime()

    async def ask(_wait_ms: int) -> str:
        raise LookupError("there is no such run")

    with pytest.raises(LookupError, match="no such run"):
        await Waiting(runtime, Stopping()).until(call(runtime), LONG_MS, ask, bool)


async def test_a_server_that_stops_answers_whoever_waits() -> None:
    runtime, stopping = system_runtime(), Stopping()

    async def ask(_wait_ms: int) -> str:
        stopping.is_asked = True
        return ""

    assert await Waiting(runtime, stopping).until(call(runtime), LONG_MS, ask, bool) == ""
