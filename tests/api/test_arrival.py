"""When a request came: once the server had its headers, however long it waited for its turn."""

import io
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from arco.api.http.asgi import ARRIVED
from arco.api.http.telemetry import make_log
from arco.core.clock import SystemClock
from tests.api.running import listening, looped


def test_a_request_that_waits_behind_another_had_come_before_that_began() -> None:
    clock = SystemClock()
    spans: list[tuple[float, float]] = []

    async def app(scope: Any, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        spans.append((scope[ARRIVED], clock.elapsed_ms()))
        time.sleep(0.5)  # holds up the loop, as many requests at once do
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask(url: str, after_s: float) -> int:
        time.sleep(after_s)
        return httpx2.get(url, trust_env=False).status_code

    log = make_log(io.BytesIO(), clock)
    with looped() as loop, listening(app, loop, log) as url, ThreadPoolExecutor(3) as threads:
        assert list(threads.map(ask, [url] * 3, [0, 0.1, 0.1])) == [200, 200, 200]
    assert all(arrived <= began for arrived, began in spans)
    # While the first was answered the other two came in; the last of them waited for its turn.
    assert spans[2][0] < spans[1][1]
    assert spans[2][1] - spans[2][0] >= 500
