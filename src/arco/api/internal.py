"""The compactor's side of its HTTP seam: an application around whoever fills `CompactorPort`.

Only our own processes may call it, by the service token. Its errors carry our codes, so that the other
side can tell a definite no from an unknown outcome.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import ASGIApp

from arco.access.authorization import Operation
from arco.access.identity import Identity
from arco.api.compaction import ELSEWHERE, Compaction
from arco.api.dispatcher import Dispatcher, Door
from arco.api.edge import Edge
from arco.api.health import HealthChecks
from arco.api.health_monitor import DiskSpace, HealthMonitor, HealthSources
from arco.api.lag import Lags
from arco.api.limits import Limits
from arco.api.log import Log
from arco.api.metrics import Metrics
from arco.api.query_params import Query
from arco.api.route import Answered, AnyRoute, Call, Reply, Route, Sent, sent
from arco.api.router import Router
from arco.api.routes import health_routes
from arco.api.tracing import Tracing
from arco.catalog.port import Committed, CompactorPort, SyncCompact
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

_GROUP_BYTES = (
    64 * 1024 * 1024
)  # a group of requests travels in one call, and we trust who sends it


class OrphanMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Files that no manifest names and that are older than this ULID may be deleted (P27)."""

    before: str
    domain: str = DOMAIN


class News(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream of a domain has something new. Who misses it finds out later."""

    domain: str
    stream: str


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No wishes."""


def _deaf(domain: str, stream: str) -> None:
    """Nobody folds the ledger in this process."""


@dataclass(frozen=True, kw_only=True)
class InternalServices:
    """The parts of one compactor process.

    `look` gives the number of what is published. `ring` hears of a domain and a stream with news. Health
    is about `store`, the `disk` that it is on if that is a local one, and `compaction`.
    """

    runtime: Runtime
    scope: Scope
    identity: Identity
    compactor: CompactorPort
    look: Callable[[], Awaitable[int]]
    store: Store
    log: Log
    compaction: Compaction = ELSEWHERE
    disk: Callable[[], DiskSpace] | None = None
    ring: Callable[[str, str], None] = _deaf
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing = field(default_factory=Tracing)
    limits: Limits = field(default_factory=Limits)


class Internal:
    """The handlers."""

    def __init__(self, compactor: CompactorPort, ring: Callable[[str, str], None] = _deaf) -> None:
        self._compactor = compactor
        self._ring = ring

    async def sync_compact(self, call: Call[Query, SyncCompact]) -> Reply:
        """Publish events as one commit."""
        return _committed(await self._compactor.sync_compact(call.body))

    async def mark_orphans(self, call: Call[Query, OrphanMark]) -> Reply:
        """Publish that older files which nobody names may go."""
        before = parse_ulid(call.body.before)
        return _committed(await self._compactor.mark_orphans(before, call.body.domain))

    async def merge(self, _call: Call[Query, Nothing]) -> Reply:
        """Merge what is due; null if nothing was."""
        return _committed(await self._compactor.merge())

    async def notify(self, call: Call[Query, News]) -> Reply:
        """Hear that a stream has something new."""
        if call.body.domain not in TIER2:
            raise Invalid(f"domain {call.body.domain[:40]!r} is not folded from the ledger")
        self._ring(call.body.domain, parse_ulid(call.body.stream))
        return Reply(204)


def make_internal_app(services: InternalServices) -> ASGIApp:
    """The compactor as an ASGI application."""
    door = Door(
        runtime=services.runtime,
        scope=services.scope,
        identity=services.identity,
        limits=services.limits,
        log=services.log,
        is_internal=True,
    )
    store = services.store
    sources = HealthSources(
        runtime=services.runtime,
        lags=Lags(services.runtime, {name: SnapshotReader(store, name) for name in TIER2}),
        store=store,
        compaction=services.compaction,
        ready_ms=services.limits.ready_ms,
        disk=services.disk,
    )
    health = HealthChecks(services.look, services.metrics, HealthMonitor(sources))
    routes = (*internal_routes(Internal(services.compactor, services.ring)), *health_routes(health))
    return Edge(
        Dispatcher(Router(routes), door).handle,
        runtime=services.runtime,
        limits=services.limits,
        log=services.log,
        metrics=services.metrics,
        tracing=services.tracing,
    )


def internal_routes(on: Internal) -> tuple[AnyRoute, ...]:
    """What one process of ours may ask of another."""
    nothing = Sent(lambda raw: json.decode(raw, Nothing), (Nothing,), {}, optional=True)
    return (
        _route(SYNC_COMPACT, Operation.SYNC_COMPACT, on.sync_compact, sent(SyncCompact, {})),
        _route(MARK_ORPHANS, Operation.PUBLISH_ORPHAN_MARK, on.mark_orphans, sent(OrphanMark, {})),
        _route(MERGE, Operation.MERGE, on.merge, nothing),
        Route(
            "POST",
            NOTIFY,
            Operation.NOTIFY,
            str(on.notify.__doc__),
            on.notify,
            Query,
            (Answered(204, "It was heard."),),
            sent(News, {}),
        ),
    )


def _route(path: str, operation: Operation, handler: Any, body: Sent[Any]) -> AnyRoute:
    return Route(
        "POST",
        path,
        operation,
        str(handler.__doc__),
        handler,
        Query,
        (Answered(200, "It is published.", Committed | None),),
        body,
        problems=(409,),
        mutates=True,
        body_bytes=_GROUP_BYTES,
    )


def _committed(committed: Committed | None) -> Reply:
    return Reply(200, json.encode(committed))
