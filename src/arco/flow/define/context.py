"""What a function learns of its own run, by a parameter called `ctx`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Report(Protocol):
    """Where a run's own words go: to the worker that carries it out."""

    def metric(self, name: str, value: float) -> None:
        """A number that the function wants to be kept with the run."""

    def progress(self, done: float, message: str) -> None:
        """How far it is, from 0 to 1."""


@dataclass
class Kept:
    """A report that keeps what it is told: what a unit test asks afterwards."""

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
    report: Report = field(default_factory=Kept)

    def metric(self, name: str, value: float) -> None:
        """Keep a number with the run."""
        self.report.metric(name, value)

    def progress(self, done: float, message: str = "") -> None:
        """Tell how far the work is, from 0 to 1."""
        self.report.progress(done, message)
