"""The Prometheus metrics of a process: requests, store, events, compaction, runs, SQL, reconciler."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from arco.api.health_metrics import HealthMetrics
from arco.api.http.asgi import InFlightCount
from arco.flow.coordinator.state import CoordinatorCounters
from arco.iceberg.reconciler import ReconcilerRound
from arco.storage.backend import PendingRequests

CONTENT_TYPE = CONTENT_TYPE_LATEST

_UNANSWERED = frozenset({"cancelled", "unavailable", "unknown_outcome"})
_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STORE_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_LAG_S = (0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 30, 60, 300, 3_600)
_BY_DOMAIN = ("domain",)
_FULL, _SHORT = "full", "short"


class ReconcilerMetrics:
    """Counters of the reconciler's rounds; a full round reads every Iceberg table."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"arco_reconciler_{name}", help_text, labels, registry=registry)

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

    def reconciled(self, result: ReconcilerRound, *, full: bool, at_ms: int) -> None:
        """Count a round that has ended."""
        kind = _FULL if full else _SHORT
        self._rounds.labels(kind, "ok").inc()
        self._last.labels(kind).set(at_ms / 1000)
        self._tables.inc(result.tables)
        repairs = {
            "event": result.reported,
            "columns": result.projected,
            "name": result.released,
            "key": result.finalised,
        }
        for repair, count in repairs.items():
            self._repairs.labels(repair).inc(count)

    def failed(self, *, full: bool) -> None:
        """Count a round that has failed."""
        self._rounds.labels(_FULL if full else _SHORT, "failed").inc()

    def table_failed(self) -> None:
        """Count a table that was left to the next round."""
        self._failures.inc()


class RunCounters(Protocol):
    """The counters of a coordinator."""

    @property
    def figures(self) -> CoordinatorCounters:
        """What has happened since it started."""

    @property
    def at_work(self) -> int:
        """How many attempts are running."""


class FlowMetrics(Collector):
    """Reads the counters of the coordinator at each scrape, in the process that has one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._coordinator: RunCounters | None = None
        registry.register(self)

    def watch(self, coordinator: RunCounters) -> None:
        """Report the counters of this coordinator."""
        self._coordinator = coordinator

    def collect(self) -> Iterator[Metric]:
        if self._coordinator is None:
            return
        figures = self._coordinator.figures
        ended = CounterMetricFamily("arco_flow_tasks", "Tasks that ended.", labels=("status",))
        for status, count in sorted(figures.ended.items()):
            ended.add_metric((status.value,), count)
        yield ended
        yield CounterMetricFamily(
            "arco_flow_leases_expired", "Attempts that were lost.", value=figures.lost
        )
        yield CounterMetricFamily(
            "arco_flow_runs_set_aside",
            "Runs that were ended as their plans cannot be read.",
            value=figures.set_aside,
        )
        yield GaugeMetricFamily(
            "arco_flow_attempts_at_work", "Attempts under way.", value=self._coordinator.at_work
        )


class CompactionMetrics:
    """Counters of compaction cycles, by domain."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help_text: str, labels: tuple[str, ...] = _BY_DOMAIN) -> Counter:
            return Counter(f"arco_compaction_{name}", help_text, labels, registry=registry)

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

    def record_cycle(
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
        """Count a cycle (`kind`: a fold or a merge) that has published."""
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
        """Count a restart of Spark, after it died or did not start."""
        self._restarts.inc()

    def watch(self, is_up: Callable[[], bool]) -> None:
        """Check whether Spark is up at each scrape."""
        self._running.set_function(is_up)


class MaintenanceMetrics:
    """Gauges of the last inspection, by domain."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help_text: str) -> Gauge:
            return Gauge(f"arco_inspection_{name}", help_text, _BY_DOMAIN, registry=registry)

        self._troubles = gauge("troubles", "Problems that Arco does not repair by itself.")
        self._waiting = gauge("waiting_segments", "Segments with events that are not published.")
        self._lag = gauge("lag_seconds", "How long the oldest of them has waited; 0 for none.")
        self._orphans = gauge(
            "orphan_files", "Files that no manifest names, until they are collected."
        )

    def inspected(
        self, domain: str, *, troubles: int, waiting: int, lag_ms: float | None, orphans: int
    ) -> None:
        """Record the result of an inspection."""
        self._troubles.labels(domain).set(troubles)
        self._waiting.labels(domain).set(waiting)
        self._lag.labels(domain).set((lag_ms or 0) / 1000)
        self._orphans.labels(domain).set(orphans)


class SqlProcessPool(Protocol):
    """The counters of a pool of SQL processes."""

    @property
    def queued(self) -> int:
        """How many queries wait for a process."""

    @property
    def busy(self) -> int:
        """How many processes answer a query."""


class QueryMetrics:
    """Gauges of the SQL processes, read at each scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queued = Gauge(
            "arco_sql_queue_length", "Queries that wait for an SQL process.", registry=registry
        )
        self._busy = Gauge(
            "arco_sql_processes_busy", "SQL processes that answer a query.", registry=registry
        )

    def watch(self, processes: SqlProcessPool) -> None:
        """Report the counters of this pool."""
        self._queued.set_function(lambda: processes.queued)
        self._busy.set_function(lambda: processes.busy)


class RequestMetrics(Collector):
    """Requests by two labels, and how long they took by the first of them.

    Plain numbers, which one thread changes and a scrape reads: every request of a client or to the store
    is counted, and a counter of the library costs three times as much.
    """

    def __init__(
        self,
        counter: tuple[str, str],
        histogram: tuple[str, str],
        labels: tuple[str, str],
        buckets_s: tuple[float, ...],
        registry: CollectorRegistry,
    ) -> None:
        self._counter = counter  # name and help
        self._histogram = histogram
        self._labels = labels
        self._bounds_ms = [bound * 1000 for bound in buckets_s]
        self._bounds = [*map(floatToGoString, buckets_s), "+Inf"]
        self._counts: dict[tuple[str, str | int], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}  # by bucket, and their sum
        registry.register(self)

    def record(self, label: str, outcome: str | int, ms: float | None) -> None:
        """Count a request; its time too, unless it is None."""
        key = label, outcome
        self._counts[key] = self._counts.get(key, 0) + 1
        if ms is None:
            return
        times = self._times.get(label)
        if times is None:
            times = self._times[label] = ([0] * len(self._bounds), [0.0])
        times[0][bisect_left(self._bounds_ms, ms)] += 1
        times[1][0] += ms

    def collect(self) -> Iterator[Metric]:
        counter = CounterMetricFamily(*self._counter, labels=self._labels)
        for (label, outcome), count in sorted(self._counts.items(), key=str):
            counter.add_metric((label, str(outcome)), count)
        yield counter
        histogram = HistogramMetricFamily(*self._histogram, labels=self._labels[:1])
        for label, (counts, sum_ms) in sorted(self._times.items()):
            buckets = list(zip(self._bounds, accumulate(counts), strict=True))
            histogram.add_metric((label,), buckets, sum_ms[0] / 1000)
        yield histogram


class Metrics:
    """The metrics of one process. It is the `Observer` of an `ObservedBackend` too."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"arco_{name}", help_text, labels, registry=self.registry)

        self._requests = RequestMetrics(
            ("arco_http_requests", "Requests answered."),
            ("arco_http_request_seconds", "From a request's headers to the end of its answer."),
            ("operation", "status"),
            _REQUEST_S,
            self.registry,
        )
        self._in_flight = Gauge(
            "arco_http_requests_in_flight", "Requests that are worked on.", registry=self.registry
        )
        self._store = RequestMetrics(
            ("arco_store_requests", "Requests to the object store."),
            ("arco_store_request_seconds", "Time of requests to the object store."),
            ("verb", "outcome"),
            _STORE_S,
            self.registry,
        )
        background = "Work in the background that has failed: merges, collections."
        self._background = counter("background_failures", background, "what")
        reports = "Reports of scans and commits that engines have sent."
        self._reports = counter("iceberg_metrics_reports", reports, "report")
        accepted = "Events that are durable in the ledger."
        self._accepted = counter("events_accepted", accepted, "domain")
        self._refused = counter("events_refused", "Events that were refused on ingestion.")
        duplicates = "Events that were sent again, as far as ingestion remembers."
        self._duplicate = counter("events_duplicate", duplicates)
        self.compaction = CompactionMetrics(self.registry)
        self.maintenance = MaintenanceMetrics(self.registry)
        self.flow = FlowMetrics(self.registry)
        self.health = HealthMetrics(self.registry)
        self.reconciler = ReconcilerMetrics(self.registry)
        self.query = QueryMetrics(self.registry)
        self.store_answers = 0  # requests that the store has answered, with a success or an error
        self.store_failures = 0  # requests that it has not answered
        self.store_pending = PendingRequests()

    def watch_in_flight(self, in_flight: InFlightCount) -> None:
        """Report the number of requests in flight at each scrape."""
        self._in_flight.set_function(lambda: in_flight.count)

    def record_request(self, operation: str, status: int, ms: float | None) -> None:
        """Count a request and its latency; None for a long poll, whose client chose how long it waits."""
        self._requests.record(operation, status, ms)

    def background_failed(self, what: str) -> None:
        """Count a failure of background work."""
        self._background.labels(what).inc()

    def count_report(self, report: str) -> None:
        """Count a report of a scan or a commit by an engine."""
        self._reports.labels(report).inc()

    def count_accepted_events(self, domain: str, count: int) -> None:
        """Count events that are durable in the ledger."""
        self._accepted.labels(domain).inc(count)

    def count_refused_events(self, count: int) -> None:
        """Count events that were refused."""
        self._refused.inc(count)

    def count_duplicate_events(self, count: int) -> None:
        """Count events that had been accepted before."""
        self._duplicate.inc(count)

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:  # noqa: ARG002
        """Count a request to the store; its key is not recorded."""
        if outcome in _UNANSWERED:
            self.store_failures += 1
        else:
            self.store_answers += 1
        self._store.record(verb, outcome, ms)

    def render(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
