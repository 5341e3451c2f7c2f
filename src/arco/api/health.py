"""Handlers for operators: liveness, readiness, the health report and the metrics of a process."""

from collections.abc import Awaitable, Callable

from arco.access.authorization import Operation
from arco.api.health_monitor import HealthMonitor
from arco.api.health_report import HealthReport, refusal_of, report_of
from arco.api.http.problem import HttpError
from arco.api.http.reply import Reply
from arco.api.http.request import Call, QueryParams
from arco.api.http.route import AnyRoute, ResponseSpec, public_route
from arco.api.metrics import CONTENT_TYPE, Metrics
from arco.api.responses import Health
from arco.core import json
from arco.core.errors import ArcoError, Unavailable


class HealthChecks:
    """The probes of one process; `read_head` reads the number of the head, or fails."""

    def __init__(
        self, read_head: Callable[[], Awaitable[int]], metrics: Metrics, monitor: HealthMonitor
    ) -> None:
        self._read_head = read_head
        self._metrics = metrics
        self._monitor = monitor
        metrics.health.watch(monitor.sources)

    async def report(self, _call: Call[QueryParams, None]) -> Reply:
        """How this server is: what compacts events, how far behind that is, and what is wrong."""
        report = report_of(await self._monitor.observe(), self._monitor.sources)
        return Reply(200, json.encode(report))

    async def live(self, _call: Call[QueryParams, None]) -> Reply:
        """The process answers."""
        return Reply(200, json.encode(Health(status="live")))

    async def ready(self, _call: Call[QueryParams, None]) -> Reply:
        """The catalog can be read, and the store takes writes; a compactor need not be there."""

        async def read_head() -> int:
            return await self._read_head()

        sources = self._monitor.sources
        try:
            number = await sources.runtime.tasks.deadline(sources.ready_ms, read_head())
        except (ArcoError, TimeoutError) as problem:
            raise Unavailable("the store or the catalog cannot be read") from problem
        refusal = refusal_of(await self._monitor.observe())
        if refusal is not None:
            raise HttpError(503, refusal.code, refusal.message, headers={"Retry-After": "5"})
        return Reply(200, json.encode(Health(status="ready", manifest=number)))

    async def metrics(self, _call: Call[QueryParams, None]) -> Reply:
        """Everything that is counted, as Prometheus reads it."""
        self._metrics.health.set_observation(await self._monitor.observe())
        return Reply(200, self._metrics.render(), CONTENT_TYPE)


def health_routes(on: HealthChecks) -> tuple[AnyRoute, ...]:
    """The routes for operators, which every server of Arco has."""
    return (
        public_route(
            "/health", Operation.HEALTH, on.report, ResponseSpec(200, "The report.", HealthReport)
        ),
        public_route(
            "/health/live", Operation.HEALTH, on.live, ResponseSpec(200, "It lives.", Health)
        ),
        public_route(
            "/health/ready", Operation.HEALTH, on.ready, ResponseSpec(200, "Ready.", Health)
        ),
        public_route(
            "/metrics",
            Operation.METRICS,
            on.metrics,
            ResponseSpec(200, "The metrics.", str, content_type="text/plain"),
        ),
    )
