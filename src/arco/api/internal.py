"""The server side of the compactor's HTTP interface: an application around a `CompactorPort`.

Only Arco's own processes may call it, with the service token. Its errors carry stable codes, so that the
client (`remote_compactor`) can distinguish a definite refusal from an unknown outcome.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arco.access.authorization import Operation
from arco.access.identity import Identity
from arco.api.fold_times import FoldTimes
from arco.api.health import HealthChecks, health_routes
from arco.api.health_monitor import (
    ELSEWHERE,
    CompactionStatus,
    DiskSpace,
    HealthMonitor,
    HealthSources,
    LagReader,
)
from arco.api.http.asgi import ASGIApp
from arco.api.http.dispatcher import Dispatcher, DispatcherContext
from arco.api.http.edge import EdgeApp
from arco.api.http.limits import HttpLimits
from arco.api.http.reply import Reply
from arco.api.http.request import Call, QueryParams
from arco.api.http.route import AnyRoute, BodySpec, ResponseSpec, Route, json_body
from arco.api.http.router import Router
from arco.api.http.telemetry import Log, RequestTracing
from arco.api.metrics import Metrics
from arco.catalog.compactor_port import CompactorPort, PublishedCommit, SyncCompact
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.errors import Invalid
from arco.core.ids import parse_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import TIER2
from arco.storage.store import Store

SYNC_COMPACT = "/internal/sync-compact"
MARK_ORPHANS = "/internal/mark-orphans"
MERGE = "/internal/merge"
NOTIFY = "/internal/notify"

_GROUP_BYTES = 64 * 1024 * 1024  # one call carries a group commit of a trusted process


class OrphanMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Files that no manifest names and that are older than this ULID may be deleted (P27)."""

    before: str
    domain: str = DOMAIN


class StreamNotification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream of a domain has new events. If it is lost, the compactor finds them later."""

    domain: str
    stream: str


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


def _ignore(domain: str, stream: str) -> None:
    """For a process that does not fold the ledger."""


@dataclass(frozen=True, kw_only=True)
class InternalServices:
    """The parts of one compactor process.

    `notify` is called with a domain and a stream that has new events. Health
    is about `store`, the `disk` of a local store, and `compaction`.
    """

    runtime: Runtime
    scope: Scope
    identity: Identity
    compactor: CompactorPort
    read_head_number: Callable[[], Awaitable[int]]
    store: Store
    log: Log
    compaction: CompactionStatus = ELSEWHERE
    disk: Callable[[], DiskSpace] | None = None
    notify: Callable[[str, str], None] = _ignore
    metrics: Metrics = field(default_factory=Metrics)
    tracing: RequestTracing = field(default_factory=RequestTracing)
    limits: HttpLimits = field(default_factory=HttpLimits)


class InternalHandlers:
    """The calls of one process of Arco to its compactor."""

    def __init__(
        self, compactor: CompactorPort, notify: Callable[[str, str], None] = _ignore
    ) -> None:
        self._compactor = compactor
        self._notify = notify

    async def sync_compact(self, call: Call[QueryParams, SyncCompact]) -> Reply:
        """Publish events as one commit."""
        return _committed(await self._compactor.sync_compact(call.body))

    async def mark_orphans(self, call: Call[QueryParams, OrphanMark]) -> Reply:
        """Publish that older files which no manifest names may be deleted."""
        before = parse_ulid(call.body.before)
        return _committed(await self._compactor.mark_orphans(before, call.body.domain))

    async def merge(self, _call: Call[QueryParams, EmptyBody]) -> Reply:
        """Merge state files if a merge is due; null if none was."""
        return _committed(await self._compactor.merge())

    async def notify(self, call: Call[QueryParams, StreamNotification]) -> Reply:
        """Take note that a stream has new events."""
        if call.body.domain not in TIER2:
            raise Invalid(f"domain {call.body.domain[:40]!r} is not folded from the ledger")
        self._notify(call.body.domain, parse_ulid(call.body.stream))
        return Reply(204)


def make_internal_app(services: InternalServices) -> ASGIApp:
    """The compactor as an ASGI application."""
    context = DispatcherContext(
        runtime=services.runtime,
        scope=services.scope,
        identity=services.identity,
        limits=services.limits,
        log=services.log,
        is_internal=True,
    )
    store = services.store
    domains = {name: SnapshotReader(store, name) for name in TIER2}
    sources = HealthSources(
        runtime=services.runtime,
        lags=LagReader(services.runtime, domains),
        folds=FoldTimes(services.runtime, domains),
        store=store,
        compaction=services.compaction,
        ready_ms=services.limits.ready_ms,
        disk=services.disk,
    )
    health = HealthChecks(services.read_head_number, services.metrics, HealthMonitor(sources))
    routes = (
        *internal_routes(InternalHandlers(services.compactor, services.notify)),
        *health_routes(health),
    )
    return EdgeApp(
        Dispatcher(Router(routes), context).handle,
        runtime=services.runtime,
        limits=services.limits,
        log=services.log,
        metrics=services.metrics,
        tracing=services.tracing,
    )


def internal_routes(on: InternalHandlers) -> tuple[AnyRoute, ...]:
    """The routes of the compactor."""
    no_body = json_body(EmptyBody, {}, optional=True)
    return (
        _route(SYNC_COMPACT, Operation.SYNC_COMPACT, on.sync_compact, json_body(SyncCompact, {})),
        _route(
            MARK_ORPHANS, Operation.PUBLISH_ORPHAN_MARK, on.mark_orphans, json_body(OrphanMark, {})
        ),
        _route(MERGE, Operation.MERGE, on.merge, no_body),
        Route(
            "POST",
            NOTIFY,
            Operation.NOTIFY,
            on.notify,
            QueryParams,
            (ResponseSpec(204, "The notification was received."),),
            json_body(StreamNotification, {}),
        ),
    )


def _route(path: str, operation: Operation, handler: Any, body: BodySpec[Any]) -> AnyRoute:
    return Route(
        "POST",
        path,
        operation,
        handler,
        QueryParams,
        (ResponseSpec(200, "It is published.", PublishedCommit | None),),
        body,
        problems=(409,),
        mutates=True,
        body_bytes=_GROUP_BYTES,
    )


def _committed(committed: PublishedCommit | None) -> Reply:
    return Reply(200, json.encode(committed))
