"""What the API is made of: `cli` fills it in, and nothing here makes a part for itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from arco.access.identity import Identity
from arco.api.compaction import ELSEWHERE, Compaction
from arco.api.flow.desk import FlowDesk
from arco.api.health_monitor import CompactorHealth, DiskSpace
from arco.api.limits import Limits
from arco.api.log import Log
from arco.api.metrics import Metrics
from arco.api.stopping import Stopping
from arco.api.tracing import Tracing
from arco.catalog.commit import Committer
from arco.catalog.reader import SnapshotReader
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.iceberg.service import Iceberg
from arco.ledger.idempotency import DEFAULT_LIFE_MS, Idempotency
from arco.ledger.intake import Intake
from arco.query.ledger_tail import LedgerTail
from arco.query.lineage.tracer import Tracer
from arco.query.system_tables import DomainTable

OTHER_DOMAINS = ("executions", "lineage", "search")  # besides the catalog
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Engine(Protocol):
    """Whoever answers SQL; its tables are Arrow's."""

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> Any:
        """The result of a read-only query as an Arrow table; `Invalid` for what is not one."""

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> Any:
        """The rows that the events of a ledger's tail make, as an Arrow table."""

    async def close(self) -> None:
        """End what it has started."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """The parts of one API process for one workspace.

    `domains` are the readers of `OTHER_DOMAINS`, by name. `hosts` are the names by which the server may be
    called, `LOOPBACK` where no identity is asked for; None for any. `location_root` stands before the
    location of a managed table, which is stored relative to its workspace. Without `iceberg` that protocol
    is not served, and without `flow` no runs. `compaction` tells how whoever compacts events is;
    `compactor_health` asks a compactor in another process. `disk` measures the disk of a local store.
    `key_life_ms` is how long `idempotency` keeps a key; clients are told.
    """

    runtime: Runtime
    scope: Scope
    identity: Identity
    reader: SnapshotReader
    committer: Committer
    idempotency: Idempotency
    engine: Engine
    tracer: Tracer
    intake: Intake
    log: Log
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing = field(default_factory=Tracing)
    limits: Limits = field(default_factory=Limits)
    domains: Mapping[str, SnapshotReader] = field(default_factory=dict)
    hosts: frozenset[str] | None = None
    location_root: str = ""
    iceberg: Iceberg | None = None
    flow: FlowDesk | None = None
    compaction: Compaction = ELSEWHERE
    compactor_health: CompactorHealth | None = None
    disk: Callable[[], DiskSpace] | None = None
    key_life_ms: int = DEFAULT_LIFE_MS
    stopping: Stopping = field(default_factory=Stopping)
