"""The real application on a real server, on a thread of its own, over a catalog on local disk."""

import asyncio
import contextlib
import io
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import uvloop

from arco.access.identity import Identity, NoIdentity
from arco.api.app import make_app
from arco.api.health_monitor import ELSEWHERE, CompactionStatus, DiskSpace
from arco.api.http.asgi import ASGIApp
from arco.api.http.limits import HttpLimits
from arco.api.http.server import HttpServer
from arco.api.http.telemetry import Log, RequestTracing
from arco.api.metrics import Metrics
from arco.api.remote_compactor import RemoteCompactor
from arco.api.services import LOOPBACK, OTHER_DOMAINS, QueryEngine, Services
from arco.catalog.change import ensure_default
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import CompactorPort
from arco.catalog.decision import WorkspaceRules
from arco.catalog.lease import Lease
from arco.catalog.model import TableFormat
from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.events.registry import CLIENT_TYPES, DOMAINS, find_domain
from arco.fold.tier1 import DOMAIN
from arco.iceberg.files import TableFiles
from arco.iceberg.location import Locations
from arco.iceberg.service import open_iceberg
from arco.ledger.idempotency import Idempotency
from arco.ledger.ingestion import EventIngestion
from arco.ledger.writer import DomainWriters, LedgerWriter
from arco.query.engine import SqlEngine
from arco.query.lineage.tracer import Tracer
from arco.server.workspace import make_format_router
from arco.storage.backend import Backend, ObservedBackend
from arco.storage.local import LocalBackend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.coordinator import open_flow_context
from tests.api.engine import OneAnswer


@dataclass(frozen=True)
class Options:
    """What a test may want otherwise."""

    identity: Callable[[Scope, Runtime], Identity] = lambda scope, _runtime: NoIdentity(scope)
    limits: HttpLimits = field(default_factory=HttpLimits)
    tracing: RequestTracing | None = None
    hosts: frozenset[str] | None = LOOPBACK
    compactor: Callable[[Store], CompactorPort] = CatalogCompactor
    wrap: Callable[[Backend], Backend] = lambda backend: backend
    engine: Callable[[SnapshotReader], QueryEngine] = OneAnswer
    retry: StoreRetryPolicy | None = None
    compaction: CompactionStatus = ELSEWHERE
    disk: Callable[[], DiskSpace] | None = None


@dataclass(frozen=True)
class Served:
    """A server that is listening, and what it was made of."""

    url: str
    services: Services
    lines: io.BytesIO
    root: Path
    loop: asyncio.AbstractEventLoop

    def client(self, **settings: Any) -> httpx2.Client:
        """A client that keeps its connection; use it as a context."""
        return httpx2.Client(base_url=self.url, timeout=30, trust_env=False, **settings)

    @property
    def log(self) -> str:
        return self.lines.getvalue().decode()


@contextlib.contextmanager
def looped() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop on a thread of its own; that of a server, which sends at the end of a step."""
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="api-server", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def listening(
    app: ASGIApp,
    loop: asyncio.AbstractEventLoop,
    log: Log,
    limits: HttpLimits | None = None,
    *,
    port: int = 0,
) -> Iterator[str]:
    """An application on a port of this machine, by default a free one, for as long as the block lasts."""
    server = HttpServer(app, host="127.0.0.1", port=port, log=log, limits=limits)
    bound: list[int] = []
    ready = threading.Event()

    def on_listening(number: int) -> None:
        bound.append(number)
        ready.set()

    running = asyncio.run_coroutine_threadsafe(server.serve(on_listening), loop)
    try:
        while not ready.wait(0.05):
            if running.done():
                running.result()
        yield f"http://127.0.0.1:{bound[0]}"
    finally:
        server.stop()
        running.result(60)


@contextlib.contextmanager
def served(root: Path, options: Options | None = None) -> Iterator[Served]:
    """The whole of it: store, catalog, compactor in process, API."""
    options = options or Options()
    lines = io.BytesIO()
    with looped() as loop:
        services, close = asyncio.run_coroutine_threadsafe(
            _open(root, options, lines), loop
        ).result(60)
        try:
            with listening(make_app(services), loop, services.log, options.limits) as url:
                yield Served(url, services, lines, root, loop)
        finally:
            asyncio.run_coroutine_threadsafe(close(), loop).result(60)


async def _open(
    root: Path, options: Options, lines: io.BytesIO
) -> tuple[Services, Callable[[], Coroutine[Any, Any, None]]]:
    runtime, scope, metrics = system_runtime(), Scope(), Metrics()
    disk = options.wrap(LocalBackend(root, runtime, fsync=False))
    backend = ObservedBackend(disk, metrics, runtime.clock)
    store = Store(backend, runtime, scope=scope, role=Role.API, retry=options.retry)
    compactor = options.compactor(Store(backend, runtime, scope=scope, role=Role.COMPACTOR))
    reader = SnapshotReader(store)
    lease = Lease(store, DOMAIN, holder="test")
    rules = WorkspaceRules(
        own_roots=(f"file://{root}/",), routed_formats=frozenset({TableFormat.ICEBERG})
    )
    committer = Committer(reader, LedgerWriter(store, DOMAIN), compactor, lease, rules=rules)
    await ensure_default(committer)
    idempotency = Idempotency(store)
    root_url = f"file://{root}/{scope.prefix}"
    files, locations = TableFiles(store, root_url, {}), Locations(root_url, ())
    writers = DomainWriters(store, DOMAINS)
    iceberg = open_iceberg(
        committer, idempotency, files, locations, writer=writers.of("executions")
    )
    domains = {domain: SnapshotReader(store, domain) for domain in OTHER_DOMAINS}
    engine = options.engine(reader)
    sql_engine = engine if isinstance(engine, SqlEngine) else None
    if sql_engine is not None:
        metrics.query.watch(sql_engine.pool)
    flow_store = Store(backend, runtime, scope=scope, role=Role.FLOW, retry=options.retry)
    flow, coordinator = await open_flow_context(reader, writers, iceberg, flow_store, sql_engine)
    services = Services(
        runtime=runtime,
        scope=scope,
        identity=options.identity(scope, runtime),
        reader=reader,
        committer=committer,
        format_router=make_format_router(committer, iceberg),
        idempotency=idempotency,
        engine=engine,
        tracer=Tracer({**domains, DOMAIN: reader}, engine),
        ingestion=EventIngestion(writers, CLIENT_TYPES, find_domain),
        log=Log(lines, runtime.clock),
        metrics=metrics,
        limits=options.limits,
        hosts=options.hosts,
        domains=domains,
        iceberg=iceberg,
        flow=flow,
        compaction=options.compaction,
        disk=options.disk,
    )
    if options.tracing is not None:
        services = replace(services, tracing=options.tracing)

    async def close() -> None:
        await coordinator.close()
        await flow.tables.close()
        await services.engine.close()
        await iceberg.close()
        await writers.close()
        await idempotency.close()
        await committer.close()
        if isinstance(compactor, CatalogCompactor | RemoteCompactor):
            await compactor.close()

    return services, close
