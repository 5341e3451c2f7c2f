"""What the process tells Prometheus of runs, as the book of runs counts it."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from arco.flow.coordinator.state import CoordinatorCounters


class CountsRuns(Protocol):
    """A book of runs, as far as it counts."""

    @property
    def figures(self) -> CoordinatorCounters:
        """What has happened so far."""

    @property
    def at_work(self) -> int:
        """How many attempts are under way."""


class FlowMetrics(Collector):
    """Asks the book whenever somebody looks; there is nothing to tell where nobody keeps one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._book: CountsRuns | None = None
        registry.register(self)

    def watch(self, book: CountsRuns) -> None:
        """Tell of this book from now on."""
        self._book = book

    def collect(self) -> Iterator[Metric]:
        if self._book is None:
            return
        figures = self._book.figures
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
            "arco_flow_attempts_at_work", "Attempts under way.", value=self._book.at_work
        )
