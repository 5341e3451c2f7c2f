"""What the process tells Prometheus of Tier 2: its cycles, and the process that they run in."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LAG_S = (0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 30, 60, 300, 3_600)
_BY_DOMAIN = ("domain",)


class CompactionMetrics:
    """Counters of cycles, by domain, wherever those run."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, labels: tuple[str, ...] = _BY_DOMAIN) -> Counter:
            return Counter(f"arco_compaction_{name}", what, labels, registry=registry)

        self._cycles = counter("cycles", "What Tier 2 has published.", ("domain", "kind"))
        self._events = counter("events", "Events that were folded, whatever became of them.")
        self._late = counter("late_events", "Events older than what is retained, so not folded.")
        self._quarantined = counter("quarantined", "Lines that could not be folded.")
        self._files = counter("files", "Files that were created.")
        self._bytes = counter("bytes", "Bytes of those files.")
        self._seconds = counter("seconds", "Time spent, by phase.", ("domain", "phase"))
        self._restarts = counter("restarts", "Times that Spark had to be started again.", ())
        self._lag = Histogram(
            "arco_compaction_lag_seconds",
            "From the receipt of a cycle's oldest event until all can see it.",
            _BY_DOMAIN,
            buckets=_LAG_S,
            registry=registry,
        )
        self._running = Gauge(
            "arco_compaction_running", "1 while Spark is up, 0 while it is not.", registry=registry
        )

    def cycled(
        self,
        domain: str,
        kind: str,
        *,
        events: int,
        late: int,
        quarantined: int,
        files: int,
        size_bytes: int,
        phases_ms: Mapping[str, float],
        lag_ms: float | None,
    ) -> None:
        """A cycle of this kind (a fold, a merge) has published."""
        self._cycles.labels(domain, kind).inc()
        self._events.labels(domain).inc(events)
        self._late.labels(domain).inc(late)
        self._quarantined.labels(domain).inc(quarantined)
        self._files.labels(domain).inc(files)
        self._bytes.labels(domain).inc(size_bytes)
        for phase, ms in phases_ms.items():
            self._seconds.labels(domain, phase).inc(ms / 1000)
        if lag_ms is not None:
            self._lag.labels(domain).observe(lag_ms / 1000)

    def restarted(self) -> None:
        """Spark had died, or had not come up, and is started again."""
        self._restarts.inc()

    def watch(self, is_up: Callable[[], bool]) -> None:
        """Ask whether Spark is up whenever somebody looks."""
        self._running.set_function(is_up)
