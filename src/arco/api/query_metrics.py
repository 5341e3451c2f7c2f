"""What the process reports to Prometheus of its SQL processes: how many are busy, and who waits."""

from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge


class SqlProcesses(Protocol):
    """A pool of SQL processes, as far as it counts."""

    @property
    def queued(self) -> int:
        """How many queries wait for a process."""

    @property
    def busy(self) -> int:
        """How many processes answer a query."""


class QueryMetrics:
    """Gauges of the SQL processes, read whenever the metrics are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queued = Gauge(
            "arco_sql_queue_length",
            "Queries that wait for an SQL process.",
            registry=registry,
        )
        self._busy = Gauge(
            "arco_sql_processes_busy", "SQL processes that answer a query.", registry=registry
        )

    def watch(self, processes: SqlProcesses) -> None:
        """Report on this pool from now on."""
        self._queued.set_function(lambda: processes.queued)
        self._busy.set_function(lambda: processes.busy)
