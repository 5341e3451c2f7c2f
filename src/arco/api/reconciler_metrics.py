"""What the process tells Prometheus of the reconciler: its rounds, what they did, and what failed."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from arco.iceberg.reconciler import Reconciled

_FULL, _SHORT = "full", "short"


class ReconcilerMetrics:
    """Counters of rounds; a full one looks at every Iceberg table."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"arco_reconciler_{name}", what, labels, registry=registry)

        self._rounds = counter("rounds", "Rounds that ended.", "kind", "outcome")
        self._tables = counter("tables", "Tables that were looked at.")
        self._repairs = counter("repairs", "What was finished after others.", "kind")
        self._failures = counter("table_failures", "Tables that were left to the next round.")
        self._last = Gauge(
            "arco_reconciler_last_success_timestamp_seconds",
            "When a round last succeeded, in seconds since 1970.",
            ("kind",),
            registry=registry,
        )
        for kind in (_FULL, _SHORT):
            for outcome in ("ok", "failed"):
                self._rounds.labels(kind, outcome)

    def reconciled(self, done: Reconciled, *, full: bool, at_ms: int) -> None:
        """A round has ended."""
        kind = _FULL if full else _SHORT
        self._rounds.labels(kind, "ok").inc()
        self._last.labels(kind).set(at_ms / 1000)
        self._tables.inc(done.tables)
        repairs = {
            "event": done.told,
            "columns": done.projected,
            "name": done.released,
            "key": done.finalised,
        }
        for repair, count in repairs.items():
            self._repairs.labels(repair).inc(count)

    def failed(self, *, full: bool) -> None:
        """A round was given up."""
        self._rounds.labels(_FULL if full else _SHORT, "failed").inc()

    def table_failed(self) -> None:
        """One table was left to the next round."""
        self._failures.inc()
