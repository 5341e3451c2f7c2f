"""The HTTP server: an application on a port until it is told to stop, then a clean end."""

import contextlib
import logging
import resource
import signal
import socket
from collections.abc import Callable, Generator
from dataclasses import replace
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from arco.api.connection import BoundedConnection
from arco.api.half_sent import HalfSentRequests
from arco.api.limits import Limits
from arco.api.log import ForeignLines, Log
from arco.api.stopping import Stopping
from arco.core.errors import Unavailable

App = ASGIApp  # for rooms that hand one on and know no web framework

_BACKLOG = 1_024  # connections that the system holds until they are accepted
_ACCEPTED_AT_ONCE = (
    32  # in one step of the loop, so that a flood on one port leaves time for the other
)
_OTHER_FILES = 1_024  # besides connections: directories of the store, pipes, the admin port's own
_FEWEST_CONNECTIONS = 16
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HttpServer:
    """One application on one port."""

    def __init__(
        self,
        app: App,
        *,
        host: str,
        port: int,
        log: Log,
        limits: Limits | None = None,
        stopping: Stopping | None = None,
        signals: bool = True,
        flag: str = "--port",
        on_signal: Callable[[], None] | None = None,
    ) -> None:
        limits = within_open_files(limits or Limits())
        self._host = host
        self._port = port
        self._flag = flag
        self._opened: socket.socket | None = None
        self._log = log
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_connection_class(limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=limits.keep_alive_s,
                timeout_graceful_shutdown=limits.drain_s,
                backlog=_ACCEPTED_AT_ONCE,
            ),
            stopping or Stopping(),
            signals=signals,
            on_signal=on_signal,
        )

    async def serve(self, listening: Callable[[int], None]) -> None:
        """Serve until `stop`, or a signal if it hears them; `listening` is told the port once there is one.

        Returns when everything in flight was answered, or the time for it is over. Whoever called cleans
        up then.
        """
        opened = self._opened or self._open()

        def listens() -> None:
            opened.listen(_BACKLOG)  # the loop has set it to what it accepts at once
            listening(opened.getsockname()[1])

        self._server.listening = listens
        try:
            with _foreign_lines(self._log):
                await self._server.serve(sockets=[opened])
        finally:
            opened.close()

    def bind(self) -> None:
        """Take the port before serving, or `Unavailable` if it cannot be had."""
        self._opened = self._open()

    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        """Take no more requests, and let `serve` return once those in flight are answered."""
        self._server.end()

    def _open(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # The protocol is named, or the loop would not know that it is TCP and leave Nagle's delay on.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((self._host, self._port))
            # A second socket may be bound to the port until one of them listens.
            opened.listen(_BACKLOG)
        except OSError as problem:
            opened.close()
            raise Unavailable(
                f"port {self._port} of {self._host} cannot be had: {problem.strerror}; "
                f"choose another with {self._flag}"
            ) from problem
        return opened


def within_open_files(limits: Limits) -> Limits:
    """The limits with as many connections as this process may have files open, after asking for more.

    A server that has no descriptor left accepts nothing on any port, also on that for probes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        most = max(_FEWEST_CONNECTIONS, soft - _OTHER_FILES)
        return replace(limits, connections=min(limits.connections, most))
    return limits


@contextlib.contextmanager
def _foreign_lines(log: Log) -> Generator[None, None, None]:
    """A block in which the lines of uvicorn go to our log, once for all servers of the process."""
    foreign = logging.getLogger("uvicorn")
    if any(isinstance(each, ForeignLines) for each in foreign.handlers):
        yield
        return
    handler = ForeignLines(log)
    foreign.addHandler(handler)
    foreign.propagate, foreign.level = False, logging.WARNING
    try:
        yield
    finally:
        foreign.removeHandler(handler)


def _connection_class(limits: Limits) -> type[BoundedConnection]:
    """The connections of one server, which share its limits and know each other."""
    half_sent = HalfSentRequests(limits.connections)
    return type("Connection", (BoundedConnection,), {"limits": limits, "half_sent": half_sent})


class _Server(uvicorn.Server):
    """uvicorn's server, which tells when it listens and leaves the process to its owner."""

    listening: Callable[[], None]

    def __init__(
        self,
        config: uvicorn.Config,
        stopping: Stopping,
        *,
        signals: bool,
        on_signal: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._on_signal = on_signal
        self._signals = _SIGNALS if signals else ()

    def end(self) -> None:
        """Take no more requests, and hold up nobody who waits."""
        self._stopping.is_asked = True
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._on_signal is not None and not self._stopping.is_asked:
            self._on_signal()
        self._stopping.is_asked = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop on a signal; unlike the original, a stop that was clean does not end in a signal."""
        before = []
        with contextlib.suppress(ValueError):  # only the main thread may, and others are stopped
            before = [(each, signal.signal(each, self.handle_exit)) for each in self._signals]
        try:
            yield
        finally:
            for each, handler in before:
                signal.signal(each, handler)
