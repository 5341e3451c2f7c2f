"""A long poll ends with its client, before anything is given to it."""

import asyncio
from typing import Any

import pytest

from arco.access.authorization import Operation
from arco.access.principal import Principal
from arco.api.http.long_poll import LongPoll, ShutdownFlag
from arco.api.http.request import Call, ClientDisconnected
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope

LONG_MS = 20_000


class Asked:
    """A question without an answer, and whether it is still being asked."""

    def __init__(self) -> None:
        self.is_set = False
        self.times = 0

    async def __call__(self, _wait_ms: int) -> str:
        self.is_set = True
        self.times += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_set = False
        return ""


def call(runtime: Runtime) -> Call[Any, Any]:
    made: Call[Any, Any] = Call(
        operation=Operation.LEASE_TASKS,
        principal=Principal("user:ada", Scope()),
        path_params={},
        path=b"/",
        query_string=b"",
        headers={},
        arrived_ms=0,
    )
    made.disconnected = runtime.tasks.event()
    return made


async def test_a_poll_ends_when_its_client_disconnects() -> None:
    runtime, asked = system_runtime(), Asked()
    made, waiting = call(runtime), LongPoll(runtime, ShutdownFlag())
    until = asyncio.create_task(waiting.until(made, LONG_MS, asked, bool))
    await asyncio.sleep(0.01)
    assert asked.is_set
    assert made.disconnected is not None
    made.disconnected.set()
    with pytest.raises(ClientDisconnected):
        await until
    await asyncio.sleep(0)
    assert (asked.is_set, asked.times) == (False, 1)


async def test_a_client_that_stays_is_answered() -> None:
    runtime, actual = system_runtime(), iter(("", "", "it"))

    async def ask(_wait_ms: int) -> str:
        return next(actual)

    waiting = LongPoll(runtime, ShutdownFlag())
    assert await waiting.until(call(runtime), LONG_MS, ask, bool) == "it"


async def test_an_error_during_a_poll_is_raised() -> None:
    runtime = system_runtime()

    async def ask(_wait_ms: int) -> str:
        raise LookupError("there is no such run")

    with pytest.raises(LookupError, match="no such run"):
        await LongPoll(runtime, ShutdownFlag()).until(call(runtime), LONG_MS, ask, bool)


async def test_a_shutdown_answers_polls() -> None:
    runtime, stopping = system_runtime(), ShutdownFlag()

    async def ask(_wait_ms: int) -> str:
        stopping.is_set = True
        return ""

    assert await LongPoll(runtime, stopping).until(call(runtime), LONG_MS, ask, bool) == ""
