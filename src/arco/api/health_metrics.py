"""Gauges of what health depends on, of the process and of those below it, computed at each scrape."""

import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from msgspec import UNSET
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from arco import __version__
from arco.api.health_monitor import HealthSources, Observation
from arco.api.health_report import reasons_of
from arco.api.lag import DomainLag, age_ms

_BY_DOMAIN = ("domain",)


class TimesOfCare(Protocol):
    """Whoever collects garbage and inspects: when each domain was last done, in ms since 1970."""

    @property
    def collected_ms(self) -> Mapping[str, int]:
        """When garbage was last collected."""

    @property
    def inspected_ms(self) -> Mapping[str, int]:
        """When what is stored was last inspected."""


class HealthMetrics(Collector):
    """Gauges; one that nothing is known about is left out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sources: HealthSources | None = None
        self._observation: Observation | None = None
        self._care: TimesOfCare | None = None
        self._spark_memory: Callable[[], Mapping[str, int]] | None = None
        self._connections = Gauge(
            "arco_http_connections", "Connections that are open.", registry=registry
        )
        build = Gauge(
            "arco_build_info", "1, with the version.", ("version", "python"), registry=registry
        )
        build.labels(__version__, platform.python_version()).set(1)
        ProcessCollector(registry=registry)
        registry.register(self)

    def watch(self, sources: HealthSources) -> None:
        """Judge observations by these sources."""
        self._sources = sources

    def watch_connections(self, count: Callable[[], int]) -> None:
        """Ask how many connections are open at each scrape."""
        self._connections.set_function(count)

    def watch_care(self, care: TimesOfCare) -> None:
        """Ask when garbage was last collected and the store inspected at each scrape."""
        self._care = care

    def watch_spark(self, memory: Callable[[], Mapping[str, int]]) -> None:
        """Ask for the memory of Spark's processes, by kind, at each scrape."""
        self._spark_memory = memory

    def observed(self, observation: Observation) -> None:
        """Tell of this observation from now on."""
        self._observation = observation

    def collect(self) -> Iterator[Metric]:
        if self._observation is not None and self._sources is not None:
            yield from self._of_health(self._observation, self._sources)
        if self._care is not None:
            yield _times("arco_collection", "Garbage was last collected.", self._care.collected_ms)
            yield _times("arco_inspection", "The store was last verified.", self._care.inspected_ms)
        if self._spark_memory is not None:
            memory = GaugeMetricFamily(
                "arco_spark_memory_bytes",
                "Resident memory of the processes that compact events, by kind.",
                labels=("process",),
            )
            for kind, size in sorted(self._spark_memory().items()):
                memory.add_metric((kind,), size)
            yield memory

    def _of_health(self, observation: Observation, sources: HealthSources) -> Iterator[Metric]:
        degraded = GaugeMetricFamily(
            "arco_degraded",
            "1 for each reason to be degraded; none if there is none.",
            labels=("code",),
        )
        reasons = reasons_of(observation, sources.compaction, sources.runtime.clock)
        for code in sorted({each.code for each in reasons}):
            degraded.add_metric((code,), 1)
        yield degraded
        writable = observation.refusal is None
        yield GaugeMetricFamily("arco_store_writable", "1 if the store takes writes.", writable)
        if observation.disk is not None:
            free = observation.disk.free_bytes
            yield GaugeMetricFamily("arco_store_free_bytes", "Room left on the store's disk.", free)
        if observation.compactor is not None:
            reachable = observation.compactor.is_reachable
            yield GaugeMetricFamily(
                "arco_compactor_reachable", "1 if the compactor's process answers.", reachable
            )
        if observation.domains is not None:
            yield from _of_domains(observation.domains, sources)


def _of_domains(domains: tuple[DomainLag, ...], sources: HealthSources) -> Iterator[Metric]:
    events = _by_domain("arco_waiting_events", "Events that are not published yet, estimated.")
    segments = _by_domain("arco_waiting_segments", "Segments of the ledger with such events.")
    seconds = _by_domain("arco_waiting_seconds", "How long the oldest has waited; 0 for none.")
    published_ms = dict[str, int]()
    for each in domains:
        oldest, name = each.oldest_received_at, (each.domain,)
        waited_ms = 0 if oldest is UNSET else age_ms(oldest, sources.runtime.clock)
        events.add_metric(name, each.waiting_events)
        segments.add_metric(name, each.waiting_segments)
        seconds.add_metric(name, waited_ms / 1000)
        if each.published_at is not UNSET:
            published_ms[each.domain] = round(each.published_at.timestamp() * 1000)
    yield from (events, segments, seconds)
    yield _times("arco_compaction", "Events were last compacted.", published_ms)


def _by_domain(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, labels=_BY_DOMAIN)


def _times(name: str, what: str, moments_ms: Mapping[str, int]) -> GaugeMetricFamily:
    """When something last succeeded, by domain, in seconds since 1970."""
    gauge = _by_domain(f"{name}_last_success_timestamp_seconds", what)
    for domain, ms in sorted(moments_ms.items()):
        gauge.add_metric((domain,), ms / 1000)
    return gauge
