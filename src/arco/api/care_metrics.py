"""What the process tells Prometheus of its inspections: how each domain was found the last time."""

from prometheus_client import CollectorRegistry, Gauge

_BY_DOMAIN = ("domain",)


class CareMetrics:
    """Gauges of the last inspection, by domain."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"arco_inspection_{name}", what, _BY_DOMAIN, registry=registry)

        self._troubles = gauge("troubles", "Things that are wrong and not repaired by themselves.")
        self._waiting = gauge("waiting_segments", "Segments with events that are not published.")
        self._lag = gauge("lag_seconds", "How long the oldest of them has waited; 0 for none.")
        self._orphans = gauge("orphan_files", "Files that nobody names, until they are collected.")

    def inspected(
        self, domain: str, *, troubles: int, waiting: int, lag_ms: float | None, orphans: int
    ) -> None:
        """A domain was looked at."""
        self._troubles.labels(domain).set(troubles)
        self._waiting.labels(domain).set(waiting)
        self._lag.labels(domain).set((lag_ms or 0) / 1000)
        self._orphans.labels(domain).set(orphans)
