"""The HTTP listener of a process: where it listens, how it serves, and how it stops.

Beside the main port an admin port answers health and metrics alone. After a stop signal the process ends
even if the store does not answer (`StopDeadline`).
"""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.core.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from arco.api.http.asgi import ASGIApp
    from arco.api.http.long_poll import ShutdownFlag
    from arco.api.http.server import HttpServer
    from arco.api.http.telemetry import Log
    from arco.api.metrics import Metrics
    from arco.api.services import Services
    from arco.core.clock import Clock
    from arco.core.runtime import Runtime

AdminPort = Annotated[int | None, Parameter(metavar="PORT", show_default=False)]

_DEFAULT_ADMIN_PORT = 8183
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_STORE_TIMEOUT_MS = 8_000
_STORE_CHECK_S = 0.5
_FORCED_EXIT_CODE = 1


class Auth(StrEnum):
    """How callers prove who they are."""

    NONE = "none"
    LOCAL = "local"


class LogLevel(StrEnum):
    """Which log lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@Parameter(name="*")
@dataclass(frozen=True)
class ListenSettings:
    """Where a server listens, whom it answers, and how much it logs.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port to listen on; 0 for any free port.
    auth
        How callers authenticate: none (loopback only), or local (tokens of `arco token mint`).
    log_level
        Which log lines to write to stderr.
    admin_port
        A second port for health and metrics only, so that probes are answered even when the first is
        busy; 0 for any free port. By default 8183, if it is free.
    admin_host
        The address that the admin port listens on.
    """

    host: str = "127.0.0.1"
    port: int = 8181
    auth: Auth = Auth.NONE
    log_level: LogLevel = LogLevel.INFO
    admin_port: AdminPort = None
    admin_host: str = "127.0.0.1"

    def admin(self) -> "AdminListener":
        """The admin port; the default one is used only if it is free."""
        if self.admin_port is None:
            return AdminListener(self.admin_host, _DEFAULT_ADMIN_PORT, is_default=True)
        return AdminListener(self.admin_host, self.admin_port)

    def check(self) -> None:
        """Reject invalid ports, and other machines as callers without authentication."""
        for port in (self.port, self.admin_port or 0):
            if not 0 <= port <= 65_535:
                raise Invalid(f"a port is a number from 0 to 65535, not {port}")
        for host in (self.host, self.admin_host):
            if self.auth is Auth.NONE and host not in _LOOPBACK:
                raise Invalid(
                    f"without authentication Arco listens on this machine alone, not on {host}: "
                    "give --auth local, and mint tokens with `arco token mint`"
                )


@dataclass(frozen=True)
class AdminListener:
    """The address of the admin port. A default port that is taken is not used."""

    host: str
    port: int
    is_default: bool = False


def log_to_stderr(runtime: "Runtime", level: LogLevel) -> "Log":
    """Log lines as JSON on stderr."""
    import logging

    from arco.api.http.telemetry import Log

    return Log(sys.stderr.buffer, runtime.clock, level=getattr(logging, level.upper()))


async def serve_api(
    services: "Services", listen: ListenSettings, ready: Callable[[str], str]
) -> None:
    """Serve the API, with an admin port, until a signal."""
    from arco.api.app import make_app

    await serve(
        make_app(services),
        listen,
        ready,
        runtime=services.runtime,
        log=services.log,
        metrics=services.metrics,
        admin=listen.admin(),
        stopping=services.stopping,
    )


async def serve(
    app: "ASGIApp",
    listen: ListenSettings,
    ready: Callable[[str], str],
    *,
    runtime: "Runtime",
    log: "Log",
    metrics: "Metrics",
    admin: AdminListener | None,
    stopping: "ShutdownFlag | None" = None,
) -> None:
    """Serve until a signal. Once it listens, print to stdout what `ready` makes of its URL."""
    from arco.api.http.server import HttpServer

    server = HttpServer(
        app,
        host=listen.host,
        port=listen.port,
        log=log,
        stopping=stopping,
        on_signal=StopDeadline(runtime.clock, log, metrics).begin,
    )
    metrics.health.watch_connections(server.connections)
    server.bind()
    admin_server = None if admin is None else _bind_admin(app, admin, log)
    async with AsyncExitStack() as stack:
        if admin is not None and admin_server is not None:
            host = admin.host
            serving = runtime.tasks.spawn(
                admin_server.serve(
                    lambda port: log.info("health and metrics", url=_url(host, port))
                )
            )
            stack.push_async_callback(serving.wait)
            stack.callback(admin_server.stop)
        await server.serve(lambda port: _print(ready(_url(listen.host, port))))


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - programs that start a server wait for this line


def _bind_admin(app: "ASGIApp", admin: AdminListener, log: "Log") -> "HttpServer | None":
    """The server of the admin port, bound; None if the default port is taken."""
    from arco.api.http.edge import AdminApp
    from arco.api.http.server import HttpServer

    server = HttpServer(
        AdminApp(app),
        host=admin.host,
        port=admin.port,
        log=log,
        signals=False,
        flag="--admin-port",
    )
    try:
        server.bind()
    except Unavailable:
        if not admin.is_default:
            raise
        log.warning(
            "the default admin port is taken: health and metrics are on the main port alone",
            port=admin.port,
        )
        return None
    return server


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class StopDeadline:
    """Ends the process if, after a stop signal, the store leaves requests unanswered for some seconds.

    A clean stop finishes requests and releases leases, which needs the store. Leases that the process
    still holds expire, as after a kill.
    """

    def __init__(self, clock: "Clock", log: "Log", metrics: "Metrics") -> None:
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._since_ms = 0.0  # when the store last answered, or had no requests
        self._answers = 0  # until then
        self._failures = 0

    def begin(self) -> None:
        """A stop signal came. The system's timer also fires while the event loop waits for a thread."""
        self._reset()
        signal.signal(signal.SIGALRM, lambda _signal, _frame: self._check())
        signal.setitimer(signal.ITIMER_REAL, _STORE_CHECK_S, _STORE_CHECK_S)
        # Python removes handlers while it exits, and without one the signal would kill the process.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)

    def _reset(self) -> None:
        self._since_ms = self._clock.elapsed_ms()
        self._answers, self._failures = self._metrics.store_answers, self._metrics.store_failures

    def _check(self) -> None:
        metrics = self._metrics
        has_requests = metrics.store_pending.count > 0 or metrics.store_failures > self._failures
        if metrics.store_answers > self._answers or not has_requests:
            self._reset()
        elif self._clock.elapsed_ms() - self._since_ms >= _STORE_TIMEOUT_MS:
            try:
                self._log.warning("stopped without the store, which does not answer")
            finally:
                os._exit(_FORCED_EXIT_CODE)
