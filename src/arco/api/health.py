"""Handlers for whoever runs the process: does it live, is it ready, what does it count."""

from collections.abc import Awaitable, Callable

from arco.api.metrics import CONTENT_TYPE, Metrics
from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.wire import Health
from arco.core import json
from arco.core.errors import ArcoError, Unavailable
from arco.core.tasks import Tasks


class HealthChecks:
    """`look` gives the number of what is published, and fails if that cannot be read."""

    def __init__(
        self,
        look: Callable[[], Awaitable[int]],
        tasks: Tasks,
        metrics: Metrics,
        *,
        ready_ms: float,
    ) -> None:
        self._look = look
        self._tasks = tasks
        self._metrics = metrics
        self._ready_ms = ready_ms

    async def live(self, _call: Call[Query, None]) -> Reply:
        """The process answers."""
        return Reply(200, json.encode(Health(status="live")))

    async def ready(self, _call: Call[Query, None]) -> Reply:
        """The store answers, and the catalog can be read."""

        async def looked() -> int:
            return await self._look()

        try:
            number = await self._tasks.deadline(self._ready_ms, looked())
        except (ArcoError, TimeoutError) as problem:
            raise Unavailable("the store or the catalog cannot be read") from problem
        return Reply(200, json.encode(Health(status="ready", manifest=number)))

    async def metrics(self, _call: Call[Query, None]) -> Reply:
        """Everything that is counted, as Prometheus reads it."""
        return Reply(200, self._metrics.render(), CONTENT_TYPE)
