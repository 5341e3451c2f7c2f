"""The server on a thread of its own, for tests and benchmarks in the same process."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.objects import StoredObject
from tests.faults.script import Modes, Script
from tests.faults.server import AZURE_PREFIX, GCS_PREFIX, FaultServer

AZURE_ACCOUNT = "devstoreaccount1"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that is listening. Everything here may be used from any thread."""

    endpoint: str
    _server: FaultServer

    @property
    def s3_endpoint(self) -> str:
        """For S3 clients with path-style addresses; buckets are directly below it."""
        return self.endpoint

    @property
    def gcs_endpoint(self) -> str:
        """For clients of either API of GCS."""
        return self.endpoint + GCS_PREFIX

    @property
    def azure_endpoint(self) -> str:
        """For Azure clients; the account is part of the path, as with an emulator."""
        return f"{self.endpoint}{AZURE_PREFIX}/{AZURE_ACCOUNT}"

    @property
    def script(self) -> Script:
        return self._server.script

    def counts(self) -> dict[tuple[str, str], int]:
        """Requests by (verb, outcome): the status answered, or the name of the fault."""
        return self._server.counts()

    def names(self) -> dict[tuple[str, str], int]:
        """Requests by (verb, name of the object)."""
        return self._server.names()

    def objects(self, bucket: str) -> dict[str, StoredObject]:
        """What a bucket holds, by name: the truth that a test compares answers with."""
        return self._server.backend.snapshot(bucket)


@contextlib.contextmanager
def running_server(
    *,
    port: int = 0,
    seed: int = 0,
    ignore_conditions: bool = False,
    writes_per_second_per_name: float | None = None,
    page_limit: int = 1000,
) -> Iterator[RunningServer]:
    """A server on 127.0.0.1 for as long as the block lasts, with empty buckets."""
    modes = Modes(
        ignore_conditions=ignore_conditions,
        writes_per_second_per_name=writes_per_second_per_name,
        page_limit=page_limit,
    )
    server = FaultServer(modes, seed)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fault-server", daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(server.listen(port), loop).result()
    host, bound_port = listening.sockets[0].getsockname()
    try:
        yield RunningServer(f"http://{host}:{bound_port}", server)
    finally:
        asyncio.run_coroutine_threadsafe(_stop(listening), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stop(listening: asyncio.Server) -> None:
    """Take no more connections and end those there are, the hanging ones included."""
    listening.close()
    await asyncio.sleep(0)  # one just accepted has not begun, and could not end in order
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
