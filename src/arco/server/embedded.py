"""The embedded server: Arco in the process of one command, for `--root DIR` and `--store URL`.

Engines reach it over HTTP on a loopback port; the command calls its coordinator directly. Its events stay
in the ledger, where fresh reads find them, until a command finds so many that it compacts them
(`embedded_compaction`), or a server runs on the same store.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from arco.api.app import make_app
from arco.api.http.server import HttpServer
from arco.api.metrics import Metrics
from arco.core.errors import StoreFull, Unavailable
from arco.core.runtime import Runtime
from arco.flow.coordinator.ports import Coordinator
from arco.server.all_in_one import ServerContext, ServerSettings, open_server
from arco.server.listener import LogLevel, log_to_stderr
from arco.server.reporting import StartupWait, log_slow_startup
from arco.server.workspace_address import WorkspaceAddress

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class EmbeddedServer:
    """The URL of an embedded server, and its coordinator."""

    url: str
    coordinator: Coordinator
    host: Callable[[str], None]  # registers a worker of this process by its name


@asynccontextmanager
async def embedded_server(
    address: WorkspaceAddress,
    runtime: Runtime,
    *,
    settings: ServerSettings | None = None,
    port: int = 0,
    needs_coordinator: bool = True,
    creates_store: bool = True,
) -> AsyncIterator[EmbeddedServer]:
    """Serve Arco without Spark for as long as the block lasts; the command handles signals.

    With `needs_coordinator` it is refused while another process coordinates runs. Without, it only reads
    runs, and takes the lock for the moment that it needs to end runs whose process was killed.
    Without `creates_store`, a local directory that holds no store is `NotFound`.
    """
    settings = replace(settings or ServerSettings(), coordinates_runs=needs_coordinator)
    log = log_to_stderr(runtime, LogLevel.ERROR)
    context = ServerContext(address, runtime, log, Metrics())
    async with log_slow_startup(runtime, log) as wait:
        stores = await context.open_stores(create=creates_store)
        server = await open_server(context, stores, settings, _unless_full(wait))
    services, coordinator = server.services, server.coordinator
    coordinator.reports_first_problem = False  # `check` below raises it to the user
    http_server = HttpServer(
        make_app(services),
        host=_HOST,
        port=port,
        log=log,
        stopping=services.stopping,
        signals=False,
    )
    async with server.running() as attempted, _serving(http_server, runtime) as bound_port:
        await attempted.wait()
        coordinator.check()
        url, runs = f"http://{_HOST}:{bound_port}", coordinator.coordinator
        yield EmbeddedServer(url, runs, runs.host)


def _unless_full(wait: StartupWait) -> Callable[[Exception], None]:
    """Wait for what may pass; a full disk does not, and the user is there to read the error."""

    def retrying(problem: Exception) -> None:
        if isinstance(problem, StoreFull):
            raise problem
        wait.retrying(problem)

    return retrying


@asynccontextmanager
async def _serving(server: HttpServer, runtime: Runtime) -> AsyncIterator[int]:
    """Serve beside a block, which gets the port."""
    ready, ports = runtime.tasks.event(), list[int]()

    def listening(port: int) -> None:
        ports.append(port)
        ready.set()

    async def serve() -> None:
        try:
            await server.serve(listening)
        finally:
            ready.set()

    serving = runtime.tasks.spawn(serve())
    try:
        await ready.wait()
        if not ports:
            await serving.wait()  # raises its error
            raise Unavailable("the embedded server ended before it was ready; try again")
        yield ports[0]
    finally:
        server.stop()
        await serving.wait()
