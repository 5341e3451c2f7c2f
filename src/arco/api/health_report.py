"""The report on health: for people and dashboards, where the probes only say yes or no.

Everybody may ask, so asking often costs the store nothing: what was found is good for a few seconds.
"""

from typing import Literal

from msgspec import UNSET, UnsetType

from arco.api.compaction import State
from arco.api.lag import DomainLag, Lags
from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.api.wire import Document
from arco.core import json
from arco.core.errors import ArcoError
from arco.core.tasks import Event

_GOOD_FOR_MS = 5_000
_NOBODY = frozenset({"off", "restarting"})


class CompactionHealth(Document, frozen=True, kw_only=True):
    """Who compacts events: how that one is, and why."""

    state: State
    reason: str | UnsetType = UNSET


class HealthReport(Document, frozen=True, kw_only=True):
    """How this server is. Degraded: events wait and nobody compacts them, or the store does not answer.

    `domains` has the lag of each domain of events, or null if it could not be found out.
    """

    status: Literal["ok", "degraded"]
    compaction: CompactionHealth
    domains: tuple[DomainLag, ...] | None


class HealthReports:
    """Tells how the server is."""

    def __init__(self, services: Services, lags: Lags) -> None:
        self._services = services
        self._lags = lags
        self._found: tuple[DomainLag, ...] | None = None
        self._found_ms: float | None = None
        self._looking: Event | None = None

    async def report(self, _call: Call[Query, None]) -> Reply:
        """How this server is: what compacts events, and how far behind that is."""
        domains, compaction = await self._domains(), self._services.compaction
        waits = domains is None or any(each.lag_ms for each in domains)
        report = HealthReport(
            status="degraded" if waits and self._is_stuck(domains) else "ok",
            compaction=CompactionHealth(
                state=compaction.state,
                reason=UNSET if compaction.reason is None else compaction.reason,
            ),
            domains=domains,
        )
        return Reply(200, json.encode(report))

    def _is_stuck(self, domains: tuple[DomainLag, ...] | None) -> bool:
        return domains is None or self._services.compaction.state in _NOBODY

    async def _domains(self) -> tuple[DomainLag, ...] | None:
        """The lags, found out by one of those who ask at the same time."""
        while self._looking is not None:
            await self._looking.wait()
        clock = self._services.runtime.clock
        if self._found_ms is None or clock.elapsed_ms() - self._found_ms > _GOOD_FOR_MS:
            self._looking = self._services.runtime.tasks.event()
            try:
                self._found = await self._look()
                self._found_ms = clock.elapsed_ms()
            finally:
                self._looking.set()
                self._looking = None
        return self._found

    async def _look(self) -> tuple[DomainLag, ...] | None:
        services = self._services
        try:
            return await services.runtime.tasks.deadline(
                services.limits.ready_ms, self._lags.look()
            )
        except (ArcoError, TimeoutError):
            return None
