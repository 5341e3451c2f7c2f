"""What the process tells Prometheus: requests by operation and status, and what the store was asked."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from arco.api.care_metrics import CareMetrics
from arco.api.compaction_metrics import CompactionMetrics
from arco.api.flow_metrics import FlowMetrics
from arco.api.health_metrics import HealthMetrics
from arco.api.query_metrics import QueryMetrics
from arco.api.reconciler_metrics import ReconcilerMetrics
from arco.storage.observed import PendingRequests

CONTENT_TYPE = CONTENT_TYPE_LATEST

_UNANSWERED = frozenset({"cancelled", "unavailable", "unknown_outcome"})
_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STORE_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """The counters of one process. It is the `Observer` of an `ObservedBackend` too."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "arco_http_requests",
            "Requests answered.",
            ("operation", "status"),
            registry=self.registry,
        )
        self._time = Histogram(
            "arco_http_request_seconds",
            "From a request's headers to the end of its answer.",
            ("operation",),
            buckets=_REQUEST_S,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "arco_http_requests_in_flight",
            "Requests that are worked on.",
            registry=self.registry,
        )
        self._store = Counter(
            "arco_store_requests",
            "Requests to the object store.",
            ("verb", "outcome"),
            registry=self.registry,
        )
        self._store_time = Histogram(
            "arco_store_request_seconds",
            "Time of requests to the object store.",
            ("verb",),
            buckets=_STORE_S,
            registry=self.registry,
        )
        self._background = Counter(
            "arco_background_failures",
            "Work in the background that has failed: merges, collections.",
            ("what",),
            registry=self.registry,
        )
        self._reports = Counter(
            "arco_iceberg_metrics_reports",
            "Reports of scans and commits that engines have sent.",
            ("report",),
            registry=self.registry,
        )
        self._taken = Counter(
            "arco_events_accepted",
            "Events that are durable in the ledger.",
            ("domain",),
            registry=self.registry,
        )
        self._refused = Counter(
            "arco_events_refused", "Events refused at the door.", registry=self.registry
        )
        self._duplicate = Counter(
            "arco_events_duplicate",
            "Events that were sent again, as far as the door can tell.",
            registry=self.registry,
        )
        self.compaction = CompactionMetrics(self.registry)
        self.care = CareMetrics(self.registry)
        self.flow = FlowMetrics(self.registry)
        self.health = HealthMetrics(self.registry)
        self.reconciler = ReconcilerMetrics(self.registry)
        self.query = QueryMetrics(self.registry)
        self.store_answers = 0  # requests that the store has answered, whatever it said
        self.store_failures = 0  # requests that it has not answered
        self.store_pending = PendingRequests()
        # Labels are looked up under a lock and by text; each pair is looked up once.
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._asked: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def watch_in_flight(self, count: "InFlight") -> None:
        """Ask `count` for the number in flight whenever somebody looks."""
        self._in_flight.set_function(count.number)

    def answered(self, operation: str, status: int, ms: float | None) -> None:
        """One request was answered; None for one that waited as long as its caller wished."""
        pair = self._answered.get((operation, status))
        if pair is None:
            pair = (
                self._requests.labels(operation, str(status)),
                self._time.labels(operation),
            )
            self._answered[operation, status] = pair
        pair[0].inc()
        if ms is not None:
            pair[1].observe(ms / 1000)

    def background_failed(self, what: str) -> None:
        """Something that nobody waits for has failed."""
        self._background.labels(what).inc()

    def reported(self, report: str) -> None:
        """An engine has reported a scan or a commit."""
        self._reports.labels(report).inc()

    def events_taken(self, domain: str, count: int) -> None:
        """So many events are durable."""
        self._taken.labels(domain).inc(count)

    def events_refused(self, count: int) -> None:
        """So many events were not taken."""
        self._refused.inc(count)

    def events_duplicate(self, count: int) -> None:
        """So many events had been taken before."""
        self._duplicate.inc(count)

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:  # noqa: ARG002
        """One request to the store ended; its key is nobody's business."""
        if outcome in _UNANSWERED:
            self.store_failures += 1
        else:
            self.store_answers += 1
        pair = self._asked.get((verb, outcome))
        if pair is None:
            pair = (self._store.labels(verb, outcome), self._store_time.labels(verb))
            self._asked[verb, outcome] = pair
        pair[0].inc()
        pair[1].observe(ms / 1000)

    def render(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)


class InFlight:
    """How many requests are worked on."""

    def __init__(self) -> None:
        self.count = 0

    def number(self) -> float:
        """The count, for a gauge."""
        return float(self.count)
