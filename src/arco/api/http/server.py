"""The HTTP server: serves an application on a port until `stop` or a signal, then shuts down cleanly."""

import contextlib
import logging
import resource
import signal
import socket
from collections.abc import Callable, Generator
from dataclasses import replace
from types import FrameType

import uvicorn

from arco.api.http.asgi import ASGIApp
from arco.api.http.connection import BoundedConnection, HalfSentRequests
from arco.api.http.limits import HttpLimits
from arco.api.http.long_poll import ShutdownFlag
from arco.api.http.telemetry import LibraryLogHandler, Log
from arco.core.errors import Unavailable

_BACKLOG = 1_024  # connections that the system holds until they are accepted
# In one step of the loop, so that a flood on one port leaves time for the other.
_ACCEPTED_AT_ONCE = 32
_OTHER_FILES = 1_024  # besides connections: directories of the store, pipes, the admin port
_MIN_CONNECTIONS = 16
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HttpServer:
    """One application on one port."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        log: Log,
        limits: HttpLimits | None = None,
        stopping: ShutdownFlag | None = None,
        signals: bool = True,
        flag: str = "--port",
        on_signal: Callable[[], None] | None = None,
    ) -> None:
        limits = within_open_files(limits or HttpLimits())
        self._host = host
        self._port = port
        self._flag = flag
        self._listener: socket.socket | None = None
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
            stopping or ShutdownFlag(),
            signals=signals,
            on_signal=on_signal,
        )

    async def serve(self, listening: Callable[[int], None]) -> None:
        """Serve until `stop` or, if it handles them, a signal; call `listening` with the port.

        Returns when everything in flight was answered, or the time for that is over.
        """
        listener = self._listener or self._listen()

        def on_startup() -> None:
            listener.listen(_BACKLOG)  # the loop has lowered it to what it accepts at once
            listening(listener.getsockname()[1])

        self._server.on_startup = on_startup
        try:
            with _library_log(self._log):
                await self._server.serve(sockets=[listener])
        finally:
            listener.close()

    def bind(self) -> None:
        """Listen on the port before serving; `Unavailable` if it is in use."""
        self._listener = self._listen()

    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        """Accept no more requests, and let `serve` return once those in flight are answered."""
        self._server.shut_down()

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # With the protocol, or the loop would not know that it is TCP and leave Nagle's delay on.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
            # Until a socket listens, another process can bind the same port.
            listener.listen(_BACKLOG)
        except OSError as problem:
            listener.close()
            raise Unavailable(
                f"port {self._port} of {self._host} cannot be had: {problem.strerror}; "
                f"choose another with {self._flag}"
            ) from problem
        return listener


def within_open_files(limits: HttpLimits) -> HttpLimits:
    """The limits with no more connections than file descriptors, after raising that limit of the process.

    A process without descriptors accepts no connection on any port, not even a probe.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        max_connections = max(_MIN_CONNECTIONS, soft - _OTHER_FILES)
        return replace(limits, connections=min(limits.connections, max_connections))
    return limits


@contextlib.contextmanager
def _library_log(log: Log) -> Generator[None, None, None]:
    """Write uvicorn's log records to our log, once for all servers of the process."""
    uvicorn_log = logging.getLogger("uvicorn")
    if any(isinstance(each, LibraryLogHandler) for each in uvicorn_log.handlers):
        yield
        return
    handler = LibraryLogHandler(log)
    uvicorn_log.addHandler(handler)
    uvicorn_log.propagate, uvicorn_log.level = False, logging.WARNING
    try:
        yield
    finally:
        uvicorn_log.removeHandler(handler)


def _connection_class(limits: HttpLimits) -> type[BoundedConnection]:
    """The connections of one server, which share its limits and its half-sent requests."""
    half_sent = HalfSentRequests(limits.connections)
    return type("Connection", (BoundedConnection,), {"limits": limits, "half_sent": half_sent})


class _Server(uvicorn.Server):
    """uvicorn's server, with a callback at startup, and signals that do not end the process."""

    on_startup: Callable[[], None]

    def __init__(
        self,
        config: uvicorn.Config,
        stopping: ShutdownFlag,
        *,
        signals: bool,
        on_signal: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._on_signal = on_signal
        self._signals = _SIGNALS if signals else ()

    def shut_down(self) -> None:
        """Accept no more requests, and end long polls."""
        self._stopping.is_set = True
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._on_signal is not None and not self._stopping.is_set:
            self._on_signal()
        self._stopping.is_set = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_startup()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Shut down on a signal; unlike uvicorn's own, this does not raise the signal again afterwards."""
        previous = []
        with contextlib.suppress(ValueError):  # only the main thread may set handlers
            previous = [(each, signal.signal(each, self.handle_exit)) for each in self._signals]
        try:
            yield
        finally:
            for each, handler in previous:
                signal.signal(each, handler)
