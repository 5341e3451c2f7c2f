"""Serving: the parts of a process around one HTTP server."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cyclopts import Parameter

from arco.cli.place import Place
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from arco.access.identity import Identity
    from arco.api.compaction import Compaction
    from arco.api.log import Log
    from arco.api.metrics import Metrics
    from arco.api.server import App
    from arco.api.services import Services
    from arco.api.stopping import Stopping
    from arco.cli.stop_deadline import StopDeadline
    from arco.cli.workspace import Workspace
    from arco.core.runtime import Runtime
    from arco.iceberg.service import Iceberg
    from arco.storage.backend import Backend

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
    """

    host: str = "127.0.0.1"
    port: int = 8181
    auth: Auth = Auth.NONE
    log_level: LogLevel = LogLevel.INFO


def check_listening(listening: Listening) -> None:
    """Refuse to serve strangers who need not say who they are, and ports that are none."""
    if not 0 <= listening.port <= 65_535:
        raise Invalid(f"a port is a number from 0 to 65535, not {listening.port}")
    if listening.auth is Auth.NONE and listening.host not in LOOPBACK:
        raise Invalid(
            f"without authentication Arco listens on this machine alone, not on {listening.host}: "
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
    compaction: "Compaction | None" = None,
) -> "Services":
    """All that the API is made of."""
    from arco.api.compaction import ELSEWHERE
    from arco.api.services import LOOPBACK as LOOPBACK_HOSTS
    from arco.api.services import OTHER_DOMAINS, Services
    from arco.catalog.reader import SnapshotReader
    from arco.events.kinds import TYPES, domain_of
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
        identity=_identity(place, auth, runtime),
        reader=workspace.reader,
        committer=workspace.committer,
        idempotency=workspace.idempotency,
        engine=engine,
        tracer=Tracer({**domains, workspace.reader.domain: workspace.reader}, engine),
        intake=Intake(workspace.writers, TYPES, domain_of),
        log=log,
        metrics=metrics,
        domains=domains,
        location_root=place.location_root(),
        iceberg=iceberg,
        compaction=compaction or ELSEWHERE,
        hosts=LOOPBACK_HOSTS if auth is Auth.NONE else None,
    )


def stop_deadline(runtime: "Runtime", log: "Log", metrics: "Metrics") -> "StopDeadline":
    """What ends a process that cannot stop because its store is gone."""
    from arco.cli.stop_deadline import StopDeadline

    return StopDeadline(runtime.clock, log, metrics)


def log_to_stderr(runtime: "Runtime", level: LogLevel) -> "Log":
    """Log lines as JSON on stderr."""
    import logging

    from arco.api.log import make_log

    return make_log(sys.stderr.buffer, runtime.clock, level=getattr(logging, level.upper()))


async def serve(
    app: "App",
    listening: Listening,
    log: "Log",
    ready: "Callable[[str], str]",
    stopping: "Stopping | None" = None,
    *,
    deadline: "StopDeadline",
) -> None:
    """Serve until a signal, and say once that it is ready, by the sentence for its URL."""
    from arco.api.server import HttpServer

    def announce(port: int) -> None:
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        print(ready(f"http://{host}:{port}"), flush=True)

    server = HttpServer(
        app,
        host=listening.host,
        port=listening.port,
        log=log,
        stopping=stopping,
        on_signal=deadline.begin,
    )
    await server.serve(announce)


def _identity(place: Place, auth: Auth, runtime: "Runtime") -> "Identity":
    from arco.access.identity import BearerIdentity, NoIdentity
    from arco.access.token import LocalTokens

    if auth is Auth.NONE:
        return NoIdentity(place.scope())
    return BearerIdentity(LocalTokens(place.signing_key(runtime.rng), runtime), place.scope())
