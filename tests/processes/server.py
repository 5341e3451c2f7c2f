"""One `arco` process that serves, and that can be killed, stopped and begun again on its port."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cli.command import ARCO
from tests.cli.serving import NO_SPARK

# Below the ports that the system gives to clients: one of those could take the port of a server that is
# down, or connect to itself while it waits for it.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port that nobody listens on, and that no client is given."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def clean_environment(**variables: str) -> dict[str, str]:
    """Ours, with these ARCO_ variables and no others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    return inherited | variables


class Server:
    """A command that serves on one port. Its log lines go to a file, for whoever looks for a cause."""

    def __init__(self, arguments: Sequence[str], *, log: Path, **variables: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self.ready_line = ""
        self._command = [str(ARCO), *arguments, "--port", str(self.port), "--log-level", "warning"]
        self._environment = clean_environment(**NO_SPARK | variables)
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        """Begin, and come back when it says that it is ready."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
            )
        self._process = process
        assert process.stdout is not None
        self.ready_line = await asyncio.to_thread(process.stdout.readline)
        if self.url not in self.ready_line:
            self.kill()
            raise AssertionError(
                f"{self._command[1]} did not start: {self.log.read_text()[-2000:]}"
            )

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send(signal.SIGKILL)
        self._reap(5)

    def send(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    async def exit_code(self, within_s: float) -> int:
        """What it ends with by itself."""
        return await asyncio.to_thread(self._reap, within_s)

    def end(self) -> None:
        """Leave nothing behind, whatever has happened."""
        if self._process is not None:
            self._process.kill()
            self._reap(5)

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was not started"
        return self._process

    def _reap(self, within_s: float) -> int:
        process = self._running()
        code = process.wait(within_s)
        assert process.stdout is not None
        process.stdout.close()
        self._process = None
        return code


@asynccontextmanager
async def running(*servers: Server) -> AsyncIterator[None]:
    """These servers, begun together, until the block ends."""
    try:
        await asyncio.gather(*(server.start() for server in servers))
        yield
    finally:
        for server in servers:
            server.end()


async def eventually(look: Callable[[], Awaitable[bool]], within_s: float = 60) -> None:
    """Wait until something is so."""
    until = time.monotonic() + within_s
    while not await look():
        assert time.monotonic() < until, "it did not come"
        await asyncio.sleep(0.05)
