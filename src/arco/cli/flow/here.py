"""An Arco for the life of one command, in its own process: for `--root DIR` and `--store URL`.

Engines reach it over HTTP at a port of this machine alone; the command itself speaks to the book of runs
without that way round. Events stay in the ledger, where fresh reads find them, until a command has left so
many that it compacts them (`tidying`), or somebody serves this place.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from arco.api.app import make_app
from arco.api.http.server import HttpServer
from arco.api.metrics import Metrics
from arco.cli.place import Place
from arco.cli.serve import LogLevel, log_to_stderr
from arco.cli.trouble import patience
from arco.cli.whole import Ground, Terms, open_whole
from arco.core.errors import StoreFull, Unavailable
from arco.core.runtime import Runtime
from arco.flow.coordinator.ports import Coordinator

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Here:
    """Where it is reached, and its book of runs."""

    url: str
    coordinator: Coordinator
    host: Callable[[str], None]  # to be told of workers in this process


@asynccontextmanager
async def arco_here(
    place: Place,
    runtime: Runtime,
    *,
    terms: Terms | None = None,
    port: int = 0,
    needs_book: bool = True,
) -> AsyncIterator[Here]:
    """All of Arco but Spark, for as long as the block lasts; on any port that is free, unless one is named.

    Signals are the command's own business. What `needs_book` is refused while another Arco keeps it. What
    only looks never keeps others from it, but for the moment that it takes to end runs that have died:
    without that their tasks would be told to run, and what they have published to be missing.
    """
    terms = replace(terms or Terms(), keeps_book=needs_book)
    log = log_to_stderr(runtime, LogLevel.ERROR)
    ground = Ground(place, runtime, log, Metrics())
    async with patience(runtime, log) as wait:
        stores = await ground.stores()
        whole = await open_whole(ground, stores, terms, _unless_full(wait.met))
    whole.flow.tells_first = False  # it is raised below, in words for people
    services = whole.services
    app, stopping = make_app(services), services.stopping
    server = HttpServer(app, host=_HOST, port=port, log=log, stopping=stopping, signals=False)
    async with whole.living() as tried, _serving(server, runtime) as bound:
        await tried.wait()
        whole.flow.check()  # if another has the book, waiting would be no help
        yield Here(f"http://{_HOST}:{bound}", whole.flow.book, whole.flow.book.host)


def _unless_full(met: Callable[[Exception], None]) -> Callable[[Exception], None]:
    """Waits for whatever may pass; a full disk does not, and whoever has called is there to be told."""

    def told(problem: Exception) -> None:
        if isinstance(problem, StoreFull):
            raise problem
        met(problem)

    return told


@asynccontextmanager
async def _serving(server: HttpServer, runtime: Runtime) -> AsyncIterator[int]:
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
            await serving.wait()  # its error is ours
            raise Unavailable("the server has ended before it began")
        yield ports[0]
    finally:
        server.stop()
        await serving.wait()
