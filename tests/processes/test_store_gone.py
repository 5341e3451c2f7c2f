"""A server whose store accepts connections and answers nothing any more: a stop comes to an end."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.processes.server import Server, running


class Hole:
    """A proxy before a store that swallows everything once it is told to."""

    def __init__(self, target: str) -> None:
        url = urlsplit(target)
        self._host, self._port = url.hostname, url.port
        self.swallows = False
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Hole"]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _connected(self, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        far, behind = await asyncio.open_connection(self._host, self._port)
        await asyncio.gather(self._pump(near, behind), self._pump(far, out))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                if not self.swallows:
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()


@pytest.mark.interop
@pytest.mark.parametrize("busy", [False, True])
async def test_a_stop_ends_within_ten_seconds_when_the_store_is_gone(
    tmp_path: Path, moto_url: str, *, busy: bool
) -> None:
    async with Hole(moto_url).open() as hole:
        store = f"s3://arco/gone-{busy}?endpoint=http://127.0.0.1:{hole.port}"
        server = Server(["up", "--store", store, "--no-spark"], log=tmp_path / "log")
        async with (
            running(server),
            httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http,
        ):
            made = await http.post("/api/v1/catalogs", json={"name": "a"})
            assert made.status_code == 201
            hole.swallows = True
            waiting = []
            if busy:
                body = {"sql": "SELECT * FROM system.executions", "freshness": "fresh"}
                waiting = [
                    asyncio.ensure_future(http.post("/api/v1/catalogs", json={"name": "b"})),
                    asyncio.ensure_future(http.post("/api/v1/query", json=body)),
                ]
                await asyncio.sleep(1)
            began = time.monotonic()
            server.send(signal.SIGTERM)
            assert await server.exit_code(within_s=30) == 1
            assert time.monotonic() - began < 10
            assert "stopped without the store" in (tmp_path / "log").read_text()
            await asyncio.gather(*waiting, return_exceptions=True)
