"""The run context that a function receives as its parameter `ctx`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class TaskReporter(Protocol):
    """Receives what a function reports: the worker that executes it."""

    def metric(self, name: str, value: float) -> None:
        """Record a number with the run."""

    def progress(self, done: float, message: str) -> None:
        """Report the progress, from 0 to 1."""


@dataclass
class RecordingReporter:
    """Keeps what was reported, for a unit test to inspect."""

    metrics: dict[str, float] = field(default_factory=dict)
    steps: list[tuple[float, str]] = field(default_factory=list)

    def metric(self, name: str, value: float) -> None:
        self.metrics[name] = value

    def progress(self, done: float, message: str) -> None:
        self.steps.append((done, message))


@dataclass(frozen=True)
class Context:
    """One attempt at one partition; `Context()` is enough for a unit test."""

    partition: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 1
    params: Mapping[str, object] = field(default_factory=dict)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("arco.task"))
    report: TaskReporter = field(default_factory=RecordingReporter)

    def metric(self, name: str, value: float) -> None:
        """Record a number with the run."""
        self.report.metric(name, value)

    def progress(self, done: float, message: str = "") -> None:
        """Report the progress, from 0 to 1."""
        self.report.progress(done, message)
