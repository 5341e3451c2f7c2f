"""The application: the parts of `Services` put together behind one edge."""

from starlette.types import ASGIApp

from arco.api.desk import Desk
from arco.api.dispatcher import Dispatcher, Door
from arco.api.edge import Edge
from arco.api.health import HealthChecks
from arco.api.health_monitor import HealthMonitor, HealthSources
from arco.api.iceberg.config import ROOT
from arco.api.iceberg.desk import IcebergDesk
from arco.api.iceberg.problem import ICEBERG_VOICE
from arco.api.iceberg.routes import iceberg_routes
from arco.api.lag import Lags
from arco.api.openapi import openapi
from arco.api.pages import Pages
from arco.api.reads import Reads
from arco.api.route import AnyRoute
from arco.api.router import Router
from arco.api.routes import native_routes
from arco.api.services import Services
from arco.api.switch import Switch
from arco.core import json
from arco.core.errors import Unavailable


def make_app(services: Services) -> ASGIApp:
    """The native API, and the protocols beside it that there is a service for."""
    doubts = None if services.iceberg is None else services.iceberg.desk.doubts
    reads = Reads(services.reader, services.runtime.tasks, doubts)
    door = Door(
        runtime=services.runtime,
        scope=services.scope,
        identity=services.identity,
        limits=services.limits,
        log=services.log,
    )
    native = Dispatcher(Router(make_routes(services, reads)), door, reads=reads)
    switch = Switch(native, _others(services, door))
    return Edge(
        switch,
        runtime=services.runtime,
        limits=services.limits,
        log=services.log,
        metrics=services.metrics,
        tracing=services.tracing,
        hosts=services.hosts,
        voice=switch.voice,
    )


def _others(services: Services, door: Door) -> dict[str, Dispatcher]:
    """The protocols besides the native one, by the first segment of their paths."""
    if services.iceberg is None:
        return {}
    routes = iceberg_routes(IcebergDesk(services, services.iceberg))
    # Told that there is no table `a.history`, Iceberg's Java client asks for a table `a` in no namespace,
    # to see its history, and goes on if it hears that there is no such table.
    blank = frozenset({"namespace"})
    router = Router(routes, heads=False, plus_is_blank=True, may_be_blank=blank)
    return {ROOT.strip("/"): Dispatcher(router, door, voice=ICEBERG_VOICE)}


def make_routes(services: Services, reads: Reads) -> tuple[AnyRoute, ...]:
    """The table of routes, with the document that describes it."""

    async def look() -> int:
        number = (await reads.head()).number
        if number < 0:
            raise Unavailable("nothing was published here yet: is the compactor there?")
        return number

    sources = HealthSources(
        runtime=services.runtime,
        lags=Lags(services.runtime, services.domains),
        store=services.reader.store,
        compaction=services.compaction,
        ready_ms=services.limits.ready_ms,
        compactor=services.compactor_health,
        disk=services.disk,
    )
    health = HealthChecks(look, services.metrics, HealthMonitor(sources))
    pages = Pages()
    routes = native_routes(Desk(services, reads), health, pages)
    pages.set_document(json.encode(openapi(routes)))
    return routes
