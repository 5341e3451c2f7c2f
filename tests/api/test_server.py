"""The server as a process: it prints its address, stops cleanly, and records when requests arrive."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arco.api.app import make_app
from arco.api.http.asgi import ARRIVED
from arco.api.http.edge import AdminApp
from arco.api.http.server import HttpServer
from arco.api.http.telemetry import Log
from arco.core.clock import SystemClock
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from tests.api.server import Served, listening, looped

PROGRAM = """
import sys
from arco.api.http.telemetry import Log
from arco.api.http.server import HttpServer
from arco.core.runtime import system_runtime
from arco.core.tasks import run

async def app(scope, receive, send):
    print("asked", flush=True)
    await system_runtime().clock.sleep(300)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})

async def main():
    log = Log(sys.stderr.buffer, system_runtime().clock)
    server = HttpServer(app, host="127.0.0.1", port=0, log=log)
    await server.serve(lambda port: print(port, flush=True))
    print("cleaned up", flush=True)

run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_what_is_in_flight(number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        answers: list[str] = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx2.get(f"http://127.0.0.1:{port}/", timeout=10).text)
        )
        asking.start()
        assert process.stdout.readline() == b"asked\n"
        os.kill(process.pid, number)
        asking.join()
        out, errors = process.communicate(timeout=20)
    assert answers == ["done"]
    assert (process.returncode, out.decode().strip(), errors) == (0, "cleaned up", b"")


async def test_a_port_that_is_taken_is_an_error_that_says_so(
    api: Served, runtime: Runtime, tmp_path: Path
) -> None:
    port = httpx2.URL(api.url).port
    assert port is not None
    with (tmp_path / "log").open("wb") as stream:
        server = HttpServer(_never, host="127.0.0.1", port=port, log=Log(stream, runtime.clock))
        with pytest.raises(Unavailable, match=f"port {port}"):
            await server.serve(lambda _port: None)


async def test_a_port_is_taken_as_soon_as_it_is_bound(runtime: Runtime, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (tmp_path / "log").open("wb") as stream:
        log = Log(stream, runtime.clock)
        first = HttpServer(_never, host="127.0.0.1", port=port, log=log)
        second = HttpServer(_never, host="127.0.0.1", port=port, log=log)
        first.bind()
        with pytest.raises(Unavailable, match=f"port {port}"):
            second.bind()
        first.stop()
        await first.serve(lambda _port: None)


async def _never(scope: object, receive: object, send: object) -> None:
    raise AssertionError


async def test_the_admin_port_serves_probes_and_nothing_else(
    api: Served, runtime: Runtime, tmp_path: Path
) -> None:
    app = make_app(api.services)
    with looped() as loop, (tmp_path / "log").open("wb") as stream:
        log = Log(stream, runtime.clock)
        with (
            listening(AdminApp(app), loop, log) as url,
            httpx2.Client(base_url=url, trust_env=False) as http,
        ):
            for path in ("/health/live", "/health", "/health/ready", "/metrics"):
                assert http.get(path).status_code == 200
            other = http.get("/api/v1/catalogs")
            assert (other.status_code, other.json()["code"]) == (404, "no_such_route")


def test_connections_stay_within_the_files_that_a_process_may_open() -> None:
    program = """
import resource
from arco.api.http.limits import HttpLimits
from arco.api.http.server import within_open_files
for soft, hard in ((256, 4_096), (256, 1_500), (256, 600)):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(within_open_files(HttpLimits(connections=1_024)).connections,
          resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == ["1024 2048", "476 1500", "16 600"]


def test_a_request_that_waits_behind_another_had_come_before_that_began() -> None:
    clock = SystemClock()
    spans: list[tuple[float, float]] = []

    async def app(scope: Any, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        spans.append((scope[ARRIVED], clock.elapsed_ms()))
        time.sleep(0.5)  # holds up the loop, as many requests at once do
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask(connection: socket.socket, after_s: float) -> bytes:
        time.sleep(after_s)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(4_096)[:15]

    log = Log(io.BytesIO(), clock)
    with (
        looped() as loop,
        listening(app, loop, log) as url,
        contextlib.ExitStack() as stack,
        ThreadPoolExecutor(3) as threads,
    ):
        address = ("127.0.0.1", httpx2.URL(url).port or 0)
        open_ones = [
            stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(3)
        ]
        time.sleep(0.1)  # the loop accepts one connection at a time
        answers = list(threads.map(ask, open_ones, [0, 0.1, 0.1]))
    assert answers == [b"HTTP/1.1 200 OK"] * 3
    assert all(arrived <= began for arrived, began in spans)
    # While the first was answered the other two came in; the last of them waited for its turn.
    assert spans[2][0] < spans[1][1]
    assert spans[2][1] - spans[2][0] >= 500


@pytest.mark.parametrize("value", [b"a\r\nx-other: b", b"a\nb", b"a\rb", b"a\x00b"])
def test_a_header_with_a_control_character_is_not_sent(value: bytes) -> None:
    async def app(_scope: object, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-one", value)]})
        await send({"type": "http.response.body", "body": b"done"})

    log = Log(io.BytesIO(), SystemClock())
    with (
        looped() as loop,
        listening(app, loop, log) as url,
        httpx2.Client(trust_env=False) as http,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        http.get(url)


def test_answers_of_any_size_follow_each_other_on_one_connection() -> None:
    async def app(scope: Any, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        size = int(scope["query_string"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    log = Log(io.BytesIO(), SystemClock())
    with (
        looped() as loop,
        listening(app, loop, log) as url,
        httpx2.Client(trust_env=False) as http,
    ):
        for size in (0, 1, 65_535, 65_536, 65_537, 10_000_000, 3):
            assert http.get(f"{url}/?{size}").content == b"x" * size
