"""Handlers for whoever runs the process: does it live, is it ready, what does it count."""

from collections.abc import Awaitable, Callable

from arco.api.health_monitor import HealthMonitor
from arco.api.health_report import HealthReports, refusal_of
from arco.api.metrics import CONTENT_TYPE, Metrics
from arco.api.problem import Refusal
from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.wire import Health
from arco.core import json
from arco.core.errors import ArcoError, Unavailable


class HealthChecks:
    """`look` gives the number of what is published, and fails if that cannot be read."""

    def __init__(
        self, look: Callable[[], Awaitable[int]], metrics: Metrics, monitor: HealthMonitor
    ) -> None:
        self._look = look
        self._metrics = metrics
        self._monitor = monitor
        self.report = HealthReports(monitor).report
        metrics.health.watch(monitor.sources)

    async def live(self, _call: Call[Query, None]) -> Reply:
        """The process answers."""
        return Reply(200, json.encode(Health(status="live")))

    async def ready(self, _call: Call[Query, None]) -> Reply:
        """The catalog can be read, and the store takes writes; a compactor need not be there."""

        async def looked() -> int:
            return await self._look()

        sources = self._monitor.sources
        try:
            number = await sources.runtime.tasks.deadline(sources.ready_ms, looked())
        except (ArcoError, TimeoutError) as problem:
            raise Unavailable("the store or the catalog cannot be read") from problem
        refusal = refusal_of(await self._monitor.observe())
        if refusal is not None:
            raise Refusal(503, refusal.code, refusal.message, headers={"Retry-After": "5"})
        return Reply(200, json.encode(Health(status="ready", manifest=number)))

    async def metrics(self, _call: Call[Query, None]) -> Reply:
        """Everything that is counted, as Prometheus reads it."""
        self._metrics.health.observed(await self._monitor.observe())
        return Reply(200, self._metrics.render(), CONTENT_TYPE)
