"""Gauges of health, of the process and of its Spark processes, computed at each scrape."""

import platform
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import UNSET
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from arco import __version__
from arco.api.health_monitor import DomainLag, HealthObservation, HealthSources, age_ms
from arco.api.health_report import reasons_of

_BY_DOMAIN = ("domain",)


class MaintenanceTimes(Protocol):
    """When the maintenance of each domain last succeeded, in ms since 1970."""

    @property
    def collected_ms(self) -> Mapping[str, int]:
        """Of garbage collection."""

    @property
    def inspected_ms(self) -> Mapping[str, int]:
        """Of the inspection of the store."""


class HealthMetrics(Collector):
    """Gauges; those without a value are left out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sources: HealthSources | None = None
        self._observation: HealthObservation | None = None
        self._maintenance: MaintenanceTimes | None = None
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
        """Use these sources to find the reasons to be degraded."""
        self._sources = sources

    def watch_connections(self, count: Callable[[], int]) -> None:
        """Count the open connections at each scrape."""
        self._connections.set_function(count)

    def watch_maintenance(self, maintenance: MaintenanceTimes) -> None:
        """Report the times of maintenance at each scrape."""
        self._maintenance = maintenance

    def watch_spark(self, memory: Callable[[], Mapping[str, int]]) -> None:
        """Measure the memory of Spark's processes, by kind, at each scrape."""
        self._spark_memory = memory

    def set_observation(self, observation: HealthObservation) -> None:
        """Report this observation at the next scrapes."""
        self._observation = observation

    def collect(self) -> Iterator[Metric]:
        if self._observation is not None and self._sources is not None:
            yield from self._health_gauges(self._observation, self._sources)
        if self._maintenance is not None:
            yield _times(
                "arco_collection", "Garbage was last collected.", self._maintenance.collected_ms
            )
            yield _times(
                "arco_inspection", "The store was last verified.", self._maintenance.inspected_ms
            )
        if self._spark_memory is not None:
            memory = GaugeMetricFamily(
                "arco_spark_memory_bytes",
                "Resident memory of the processes that compact events, by kind.",
                labels=("process",),
            )
            for kind, size in sorted(self._spark_memory().items()):
                memory.add_metric((kind,), size)
            yield memory

    def _health_gauges(
        self, observation: HealthObservation, sources: HealthSources
    ) -> Iterator[Metric]:
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
            yield GaugeMetricFamily(
                "arco_store_free_bytes", "Free space on the store's disk.", free
            )
        if observation.compactor is not None:
            reachable = observation.compactor.is_reachable
            yield GaugeMetricFamily(
                "arco_compactor_reachable", "1 if the compactor's process answers.", reachable
            )
        if observation.domains is not None:
            yield from _domain_gauges(observation.domains, sources)
        folded_ms = {name: _ms(at) for name, at in observation.last_folds.items()}
        yield _times("arco_compaction", "Events were last compacted.", folded_ms)


def _domain_gauges(domains: tuple[DomainLag, ...], sources: HealthSources) -> Iterator[Metric]:
    events = _by_domain("arco_waiting_events", "Events that are not published yet, estimated.")
    segments = _by_domain("arco_waiting_segments", "Segments of the ledger with such events.")
    seconds = _by_domain("arco_waiting_seconds", "How long the oldest has waited; 0 for none.")
    for each in domains:
        oldest, name = each.oldest_received_at, (each.domain,)
        waited_ms = 0 if oldest is UNSET else age_ms(oldest, sources.runtime.clock)
        events.add_metric(name, each.waiting_events)
        segments.add_metric(name, each.waiting_segments)
        seconds.add_metric(name, waited_ms / 1000)
    yield from (events, segments, seconds)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _by_domain(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, labels=_BY_DOMAIN)


def _times(name: str, help_text: str, moments_ms: Mapping[str, int]) -> GaugeMetricFamily:
    """A gauge of the last success by domain, in seconds since 1970."""
    gauge = _by_domain(f"{name}_last_success_timestamp_seconds", help_text)
    for domain, ms in sorted(moments_ms.items()):
        gauge.add_metric((domain,), ms / 1000)
    return gauge
