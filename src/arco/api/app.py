"""The application: the native API and the Iceberg REST catalog behind one edge."""

from arco.api.context import HandlerContext
from arco.api.fold_times import FoldTimes
from arco.api.health import HealthChecks
from arco.api.health_monitor import HealthMonitor, HealthSources, LagReader
from arco.api.http.asgi import ASGIApp
from arco.api.http.dispatcher import Dispatcher, DispatcherContext, ProtocolDispatcher
from arco.api.http.edge import EdgeApp
from arco.api.http.openapi import DocsPages, openapi
from arco.api.http.route import AnyRoute
from arco.api.http.router import Router
from arco.api.http.snapshots import SnapshotReads
from arco.api.iceberg.context import IcebergHandlerContext
from arco.api.iceberg.errors import ICEBERG_ERROR_FORMAT
from arco.api.iceberg.routes import ROOT, iceberg_routes
from arco.api.routes import native_routes
from arco.api.services import Services
from arco.core import json
from arco.core.errors import Unavailable


def make_app(services: Services) -> ASGIApp:
    """The application of an API process."""
    unresolved = None if services.iceberg is None else services.iceberg.context.unresolved_names
    reads = SnapshotReads(services.reader, unresolved)
    context = DispatcherContext(
        runtime=services.runtime,
        scope=services.scope,
        identity=services.identity,
        limits=services.limits,
        log=services.log,
    )
    native = Dispatcher(Router(make_routes(services, reads)), context, reads=reads)
    protocols = ProtocolDispatcher(native, _other_protocols(services, context, reads))
    return EdgeApp(
        protocols,
        runtime=services.runtime,
        limits=services.limits,
        log=services.log,
        metrics=services.metrics,
        tracing=services.tracing,
        hosts=services.hosts,
        error_format=protocols.error_format,
    )


def _other_protocols(
    services: Services, context: DispatcherContext, reads: SnapshotReads
) -> dict[str, Dispatcher]:
    """The protocols besides the native one, by the first segment of their paths."""
    if services.iceberg is None:
        return {}
    routes = iceberg_routes(IcebergHandlerContext(services, services.iceberg))
    # After a 404 for a table `a.history`, Iceberg's Java client asks for a table `a` in no namespace, to
    # read its history, and expects a 404 if there is none.
    blank = frozenset({"namespace"})
    router = Router(routes, heads=False, plus_is_blank=True, may_be_blank=blank)
    dispatcher = Dispatcher(router, context, reads=reads, error_format=ICEBERG_ERROR_FORMAT)
    return {ROOT.strip("/"): dispatcher}


def make_routes(services: Services, reads: SnapshotReads) -> tuple[AnyRoute, ...]:
    """The routes of the native API, with the OpenAPI document that describes them."""

    async def read_head() -> int:
        number = (await reads.head()).number
        if number < 0:
            raise Unavailable("nothing was published here yet: is the compactor there?")
        return number

    sources = HealthSources(
        runtime=services.runtime,
        lags=LagReader(services.runtime, services.domains),
        folds=FoldTimes(services.runtime, services.domains),
        store=services.reader.store,
        compaction=services.compaction,
        ready_ms=services.limits.ready_ms,
        compactor=services.compactor_health,
        disk=services.disk,
    )
    health = HealthChecks(read_head, services.metrics, HealthMonitor(sources))
    pages = DocsPages()
    routes = native_routes(HandlerContext(services, reads), health, pages)
    pages.set_document(json.encode(openapi(routes)))
    return routes
