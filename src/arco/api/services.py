"""What an API process is made of. `cli` creates the parts; nothing in `api` creates one for itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from arco.access.identity import Identity
from arco.api.health_monitor import ELSEWHERE, CompactionStatus, CompactorHealth, DiskSpace
from arco.api.http.limits import HttpLimits
from arco.api.http.long_poll import ShutdownFlag
from arco.api.http.telemetry import Log, RequestTracing
from arco.api.metrics import Metrics
from arco.catalog.committer import Committer
from arco.catalog.format_router import FormatRouter
from arco.catalog.reader import SnapshotReader
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.flow.coordinator.ports import ApiCoordinator, RunReader
from arco.flow.publish.tables import ParquetTables
from arco.iceberg.service import Iceberg
from arco.ledger.idempotency import DEFAULT_LIFE_MS, Idempotency
from arco.ledger.ingestion import EventIngestion
from arco.query.ledger_tail import LedgerTail
from arco.query.lineage.tracer import Tracer
from arco.query.system_tables import DomainTable

OTHER_DOMAINS = ("executions", "lineage", "search")  # besides the catalog
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class QueryEngine(Protocol):
    """Runs SQL; its results are Arrow tables."""

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> Any:
        """The result of a read-only query; `Invalid` for any other statement."""

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> Any:
        """The rows of the events in a ledger's tail."""

    async def close(self) -> None:
        """End the processes that it has started."""


@dataclass(frozen=True)
class FlowContext:
    """What the routes of pipelines need: the coordinator, finished runs, and plain Parquet tables."""

    coordinator: ApiCoordinator
    runs: RunReader
    tables: ParquetTables


@dataclass(frozen=True, kw_only=True)
class Services:
    """The parts of one API process for one workspace.

    `domains` are the readers of `OTHER_DOMAINS`, by name. `hosts` are the host names that the server
    answers to: `LOOPBACK` where no identity is required, None for any. `location_root` is prefixed to the
    location of a managed table, which is stored relative to its workspace. Without `iceberg` that protocol
    is not served, and without `flow` no runs. `compaction` is the status of compaction as this process
    knows it; `compactor_health` asks a compactor in another process. `disk` measures the disk of a local
    store. `key_life_ms` is how long `idempotency` keeps a key; Iceberg clients read it in `/v1/config`.
    """

    runtime: Runtime
    scope: Scope
    identity: Identity
    reader: SnapshotReader
    committer: Committer
    format_router: FormatRouter
    idempotency: Idempotency
    engine: QueryEngine
    tracer: Tracer
    ingestion: EventIngestion
    log: Log
    metrics: Metrics = field(default_factory=Metrics)
    tracing: RequestTracing = field(default_factory=RequestTracing)
    limits: HttpLimits = field(default_factory=HttpLimits)
    domains: Mapping[str, SnapshotReader] = field(default_factory=dict)
    hosts: frozenset[str] | None = None
    location_root: str = ""
    iceberg: Iceberg | None = None
    flow: FlowContext | None = None
    compaction: CompactionStatus = ELSEWHERE
    compactor_health: CompactorHealth | None = None
    disk: Callable[[], DiskSpace] | None = None
    key_life_ms: int = DEFAULT_LIFE_MS
    stopping: ShutdownFlag = field(default_factory=ShutdownFlag)
