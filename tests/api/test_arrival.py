"""When a request came: once the server had its headers, however long it waited for its turn."""

import io
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from arco.api.exchange import ARRIVED
from arco.api.log import make_log
from arco.core.clock import SystemClock
from tests.api.running import listening, looped


def test_a_request_that_waits_behind_another_has_come_before_that_was_answered() -> None:
    clock, spans = SystemClock(), []

    async def app(scope: Any, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        began = clock.elapsed_ms()
        time.sleep(0.2)  # holds up the loop, as many requests at once do
        spans.append((scope[ARRIVED], began))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    log = make_log(io.BytesIO(), clock)
    sent = clock.elapsed_ms()
    with looped() as loop, listening(app, loop, log) as url:
        assert httpx2.get(url, trust_env=False).status_code == 200
    [(arrived, began)] = spans
    assert sent < arrived <= began
