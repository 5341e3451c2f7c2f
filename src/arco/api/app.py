"""The application: the parts of `Services` put together behind one edge."""

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from arco.api.desk import Desk
from arco.api.dispatcher import Dispatcher, Door
from arco.api.edge import Edge
from arco.api.health import HealthChecks
from arco.api.openapi import openapi
from arco.api.pages import Pages
from arco.api.reads import Reads
from arco.api.route import AnyRoute
from arco.api.routes import native_routes
from arco.api.services import Services
from arco.core import json
from arco.core.errors import Unavailable


def make_app(services: Services, *, beside: tuple[BaseRoute, ...] = ()) -> ASGIApp:
    """The native API as an ASGI application; routes of other protocols may stand beside it."""
    reads = Reads(services.reader, services.runtime.tasks)
    door = Door(
        runtime=services.runtime,
        scope=services.scope,
        identity=services.identity,
        limits=services.limits,
        log=services.log,
    )
    dispatcher = Dispatcher(make_routes(services, reads), door, reads)
    return Edge(
        Starlette(routes=[*beside, dispatcher]) if beside else dispatcher.handle,
        runtime=services.runtime,
        limits=services.limits,
        log=services.log,
        metrics=services.metrics,
        tracing=services.tracing,
        hosts=services.hosts,
    )


def make_routes(services: Services, reads: Reads) -> tuple[AnyRoute, ...]:
    """The table of routes, with the document that describes it."""

    async def look() -> int:
        number = (await reads.head()).number
        if number < 0:
            raise Unavailable("nothing was published here yet: is the compactor there?")
        return number

    health = HealthChecks(
        look, services.runtime.tasks, services.metrics, ready_ms=services.limits.ready_ms
    )
    pages = Pages()
    routes = native_routes(Desk(services, reads), health, pages)
    pages.set_document(json.encode(openapi(routes)))
    return routes
