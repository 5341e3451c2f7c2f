"""Serving: the parts of a process around one HTTP server."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.place import Place
from arco.core.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from arco.access.identity import Identity
    from arco.api.health_monitor import CompactionStatus, CompactorHealth
    from arco.api.http.asgi import ASGIApp
    from arco.api.http.long_poll import ShutdownFlag
    from arco.api.http.server import HttpServer
    from arco.api.http.telemetry import Log
    from arco.api.metrics import Metrics
    from arco.api.services import Services
    from arco.cli.workspace import Workspace
    from arco.core.runtime import Runtime
    from arco.iceberg.service import Iceberg
    from arco.storage.backend import Backend

AdminPort = Annotated[int | None, Parameter(metavar="PORT", show_default=False)]

_DEFAULT_ADMIN_PORT = 8183

LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
class Listening:
    """Flags that say where a server listens, to whom, and how much it tells.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port to listen on; 0 for any that is free.
    auth
        How callers prove who they are: none (loopback only), or local (tokens of `arco token mint`).
    log_level
        Which log lines to write to stderr.
    admin_port
        A second port for health and metrics alone, so that probes are answered whatever happens on
        the first; 0 for any that is free. By default 8183, if that is free.
    admin_host
        The address that the admin port listens on.
    """

    host: str = "127.0.0.1"
    port: int = 8181
    auth: Auth = Auth.NONE
    log_level: LogLevel = LogLevel.INFO
    admin_port: AdminPort = None
    admin_host: str = "127.0.0.1"

    def admin(self) -> "AdminListening":
        """Where health and metrics are served besides, by default where it is free."""
        if self.admin_port is None:
            return AdminListening(self.admin_host, _DEFAULT_ADMIN_PORT, is_default=True)
        return AdminListening(self.admin_host, self.admin_port)


@dataclass(frozen=True)
class AdminListening:
    """Where the admin port is; a default one that is taken is done without."""

    host: str
    port: int
    is_default: bool = False


def check_listening(listening: Listening) -> None:
    """Refuse to serve strangers who need not say who they are, and ports that are none."""
    for port in (listening.port, listening.admin_port or 0):
        if not 0 <= port <= 65_535:
            raise Invalid(f"a port is a number from 0 to 65535, not {port}")
    for host in (listening.host, listening.admin_host):
        if listening.auth is Auth.NONE and host not in LOOPBACK:
            raise Invalid(
                f"without authentication Arco listens on this machine alone, not on {host}: "
                "give --auth local, and mint tokens with `arco token mint`"
            )


def watched_backend(place: Place, runtime: "Runtime", metrics: "Metrics") -> "Backend":
    """The store, with every request to it counted."""
    from arco.storage.observed import ObservedBackend

    backend = place.backend(runtime)
    return ObservedBackend(backend, metrics, runtime.clock, metrics.store_pending)


def make_services(
    place: Place,
    workspace: "Workspace",
    *,
    auth: Auth,
    runtime: "Runtime",
    log: "Log",
    metrics: "Metrics",
    iceberg: "Iceberg | None" = None,
    compaction: "CompactionStatus | None" = None,
    compactor_health: "CompactorHealth | None" = None,
    makes_key: bool = False,
) -> "Services":
    """All that the API is made of; `makes_key` for a signing key that is named and missing."""
    from arco.api.health_monitor import ELSEWHERE
    from arco.api.services import LOOPBACK as LOOPBACK_HOSTS
    from arco.api.services import OTHER_DOMAINS, Services
    from arco.catalog.reader import SnapshotReader
    from arco.events.registry import CLIENT_TYPES, find_domain
    from arco.ledger.intake import Intake
    from arco.query.engine import SqlEngine
    from arco.query.lineage.tracer import Tracer

    store = workspace.reader.store
    domains = {name: SnapshotReader(store, name) for name in OTHER_DOMAINS}
    engine = SqlEngine(workspace.reader, domains=domains)
    metrics.query.watch(engine.pool)
    return Services(
        runtime=runtime,
        scope=place.scope(),
        identity=_identity(place, auth, runtime, makes_key=makes_key),
        reader=workspace.reader,
        committer=workspace.committer,
        idempotency=workspace.idempotency,
        engine=engine,
        tracer=Tracer({**domains, workspace.reader.domain: workspace.reader}, engine),
        intake=Intake(workspace.writers, CLIENT_TYPES, find_domain),
        log=log,
        metrics=metrics,
        domains=domains,
        location_root=place.location_root(),
        iceberg=iceberg,
        compaction=compaction or ELSEWHERE,
        compactor_health=compactor_health,
        disk=place.disk(),
        hosts=LOOPBACK_HOSTS if auth is Auth.NONE else None,
    )


def log_to_stderr(runtime: "Runtime", level: LogLevel) -> "Log":
    """Log lines as JSON on stderr."""
    import logging

    from arco.api.http.telemetry import make_log

    return make_log(sys.stderr.buffer, runtime.clock, level=getattr(logging, level.upper()))


async def serve(
    app: "ASGIApp",
    listening: Listening,
    log: "Log",
    ready: "Callable[[str], str]",
    *,
    runtime: "Runtime",
    metrics: "Metrics",
    admin: AdminListening | None,
    stopping: "ShutdownFlag | None" = None,
) -> None:
    """Serve until a signal, and say once that it is ready, by the sentence for its URL."""
    from arco.api.http.server import HttpServer
    from arco.cli.stop_deadline import StopDeadline

    deadline = StopDeadline(runtime.clock, log, metrics)
    server = HttpServer(
        app,
        host=listening.host,
        port=listening.port,
        log=log,
        stopping=stopping,
        on_signal=deadline.begin,
    )
    metrics.health.watch_connections(server.connections)
    server.bind()
    beside = None if admin is None else _bind_admin(app, admin, log)
    serving = None
    if beside is not None and admin is not None:
        host = admin.host
        serving = runtime.tasks.spawn(
            beside.serve(lambda port: log.info("health and metrics", url=_url(host, port)))
        )
    try:
        await server.serve(lambda port: print(ready(_url(listening.host, port)), flush=True))
    finally:
        if beside is not None and serving is not None:
            beside.stop()
            await serving.wait()


def _bind_admin(app: "ASGIApp", admin: AdminListening, log: "Log") -> "HttpServer | None":
    """The server of the admin port, which has its port; None if it does without."""
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


def _identity(place: Place, auth: Auth, runtime: "Runtime", *, makes_key: bool) -> "Identity":
    from arco.access.identity import BearerIdentity, NoIdentity
    from arco.access.token import LocalTokens

    if auth is Auth.NONE:
        return NoIdentity(place.scope())
    key = place.signing_key(runtime.rng, make_named=makes_key)
    return BearerIdentity(LocalTokens(key, runtime), place.scope())
