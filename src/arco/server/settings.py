"""The settings of a server's processes: retention, compaction, Spark and the service token.

Each class is a group of settings, its flags (cyclopts reads the annotations and the docstrings) and the
check of their values: methods raise `Invalid`, with the value that would be right, before anything is
opened. `arguments()` renders the same flags for a child process.
"""

import os
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from cyclopts import Parameter

from arco.core.duration import parse_duration
from arco.core.errors import Invalid, Unsupported
from arco.core.imports import is_spark_installed
from arco.core.java import WITHOUT_SPARK, check_java

if TYPE_CHECKING:
    from arco.compactor.event_compactor import CompactionPace

LOCAL_MASTER = "local[*]"
SERVICE_TOKEN = "ARCO_SERVICE_TOKEN"  # noqa: S105 - the name of the variable

_MIN_DAYS = 2
_MIN_RUN_DAYS = 1
_MAX_DAYS = 36_500
_MAX_COLLECT_HOURS = 8_760
_MAX_COMPACT_SECONDS = 3_600
_MASTER = re.compile(r"local(\[[0-9*]+(,[0-9]+)?\])?|(spark|k8s)://.+|yarn")
_REMOTE = re.compile(r"sc://[^/?#]+.*")


class CheckedSettings(Protocol):
    """A group of settings that can be checked before anything is opened."""

    def check(self) -> None:
        """Raise `Invalid` for a wrong value."""


def check_all(*settings: CheckedSettings) -> None:
    """Reject invalid settings, in this order, before anything is opened."""
    for each in settings:
        each.check()


def split_words(_type: Any, text: str, **_options: Any) -> list[str]:
    """The values of a repeatable flag in its variable, separated by spaces or commas."""
    return [word for word in re.split(r"[\s,]+", text) if word]


@Parameter(name="*")
@dataclass(frozen=True)
class MetadataRetention:
    """How long old versions and dropped objects are kept.

    Parameters
    ----------
    retention_days
        How many days old versions and dropped objects are kept: at least 2, and the same for every
        process of a workspace.
    """

    retention_days: Annotated[float, Parameter(metavar="N")] = 7

    def check(self) -> None:
        """Reject a retention outside the limits."""
        self.span()

    def span(self) -> timedelta:
        """The retention, or `Invalid`."""
        days = self.retention_days
        if not days >= _MIN_DAYS:  # written this way to reject nan too
            raise Invalid(
                f"--retention-days takes {_MIN_DAYS} or more, not {days:g}: an idempotency key lives "
                "a day, and the versions that it rests on have to outlive it"
            )
        if days > _MAX_DAYS:
            raise Invalid(f"--retention-days takes at most {_MAX_DAYS}, not {days:g}")
        return timedelta(days=days)

    def ms(self) -> int:
        """The retention in milliseconds, or `Invalid`."""
        return self.span() // timedelta(milliseconds=1)


@Parameter(name="*")
@dataclass(frozen=True)
class RunRetention:
    """How long plans and logs of completed runs are kept.

    Parameters
    ----------
    run_retention_days
        How many days plans and logs of finished runs are kept: at least 1.
    """

    run_retention_days: Annotated[float, Parameter(metavar="N")] = 30

    def check(self) -> None:
        """Reject a retention outside the limits."""
        self.ms()

    def ms(self) -> int:
        """The retention in milliseconds, or `Invalid`."""
        days = self.run_retention_days
        if not _MIN_RUN_DAYS <= days <= _MAX_DAYS:  # nan compares as False and is rejected too
            raise Invalid(
                f"--run-retention-days takes {_MIN_RUN_DAYS} to {_MAX_DAYS}, not {days:g}"
            )
        return timedelta(days=days) // timedelta(milliseconds=1)


@Parameter(name="*")
@dataclass(frozen=True)
class RowRetention:
    """How long rows of the event tables are kept.

    Parameters
    ----------
    keep
        How many days rows of a table are kept after their last change, such as executions=90; may be
        repeated. Other tables keep their rows for ever.
    """

    keep: Annotated[
        tuple[str, ...],
        Parameter(metavar="TABLE=DAYS", negative="", show_default=False, env_var_split=split_words),
    ] = ()

    def check(self) -> None:
        """Reject unknown tables and retentions outside the limits."""
        self.spans()

    def spans(self) -> dict[str, timedelta]:
        """The retention of each table named, or `Invalid`."""
        spans: dict[str, timedelta] = {}
        for text in self.keep:
            table, span = _parse_row_retention(text)
            if spans.setdefault(table, span) != span:
                raise Invalid(f"--keep names {table} twice: give one number of days")
        return spans

    def arguments(self) -> list[str]:
        """The flags for a child process."""
        return [word for each in self.keep for word in ("--keep", each)]


@Parameter(name="*")
@dataclass(frozen=True)
class CompactionInterval:
    """How long small batches of events wait to be compacted.

    Parameters
    ----------
    compact_every
        How long a few events wait for others before they are compacted together; 0 compacts at once.
        While a cycle has 1,000 events or more, cycles are a second apart; a backlog does not wait.
        Fresh reads include events that wait.
    """

    compact_every: Annotated[float, Parameter(metavar="SECONDS")] = 5

    def check(self) -> None:
        """Reject an interval outside the limits."""
        self.pace()

    def pace(self) -> "CompactionPace":
        """The pace of compaction, or `Invalid`."""
        from arco.compactor.event_compactor import CompactionPace

        if not 0 <= self.compact_every <= _MAX_COMPACT_SECONDS:
            raise Invalid(
                f"--compact-every takes 0 to {_MAX_COMPACT_SECONDS} seconds, "
                f"not {self.compact_every:g}"
            )
        return CompactionPace(self.compact_every * 1000)

    def arguments(self) -> list[str]:
        """The flags for a child process."""
        return ["--compact-every", f"{self.compact_every:g}"]


@Parameter(name="*")
@dataclass(frozen=True)
class SparkSettings:
    """The Spark on which events are compacted.

    Parameters
    ----------
    master
        Spark's master: local[*] for this machine, or spark://host:7077, yarn, k8s://https://host.
    remote
        A Spark Connect server instead, such as sc://host:15002; then no Java is needed here.
    no_spark
        Do not compact events: they wait in the ledger, and fresh reads include them. This is also what
        happens if Spark is not installed.
    """

    master: str = LOCAL_MASTER
    remote: Annotated[str | None, Parameter(metavar="URL")] = None
    no_spark: Annotated[bool, Parameter(negative="", show_default=False)] = False

    def check(self) -> None:
        """Reject invalid flags and a missing or old Java before anything is opened."""
        if not _MASTER.fullmatch(self.master):
            raise Invalid(
                f"--master takes local[*], local[4], spark://host:7077, yarn or k8s://https://host, "
                f"not {self.master[:80]!r}"
            )
        if self.remote is not None and not _REMOTE.fullmatch(self.remote):
            raise Invalid(f"--remote takes sc://host:15002, not {self.remote[:80]!r}")
        if self.remote is not None and self.master != LOCAL_MASTER:
            raise Invalid("--master and --remote both name a Spark: pass one of them")
        if self.is_wanted() and self.remote is None:
            check_java(WITHOUT_SPARK)

    def is_wanted(self) -> bool:
        """Whether this process compacts events."""
        return not self.no_spark and is_spark_installed()

    def arguments(self) -> list[str]:
        """The flags for a child process."""
        return ["--master", self.master] if self.remote is None else ["--remote", self.remote]


@Parameter(name="*")
@dataclass(frozen=True)
class SparkIdleTimeout:
    """How long Spark runs without events.

    Parameters
    ----------
    spark_idle
        Stop Spark after this long without events, such as 60s or 10m, to free its memory; the next event
        starts it again. 0 keeps it running.
    """

    spark_idle: Annotated[str, Parameter(metavar="DURATION")] = "2m"

    def check(self) -> None:
        """Reject what is no duration."""
        self.ms()

    def ms(self) -> int | None:
        """The time in milliseconds, None for ever, or `Invalid`."""
        if self.spark_idle == "0":
            return None
        try:
            return parse_duration(self.spark_idle[:80]) or None
        except Invalid as problem:
            raise Invalid(f"--spark-idle {problem}, or 0 to keep Spark running") from problem


@dataclass(frozen=True)
class CompactionSettings:
    """How events are compacted: on which Spark, how often, and how long their rows are kept."""

    spark: SparkSettings = field(default_factory=SparkSettings)
    rows: RowRetention = field(default_factory=RowRetention)
    interval: CompactionInterval = field(default_factory=CompactionInterval)

    def arguments(self) -> list[str]:
        """The flags for a child process."""
        return [*self.spark.arguments(), *self.rows.arguments(), *self.interval.arguments()]


def service_token() -> str:
    """The secret by which Arco's processes authenticate each other, or `Invalid`."""
    token = os.environ.get(SERVICE_TOKEN, "")
    if not token:
        raise Invalid(
            f"set {SERVICE_TOKEN} to one secret for API and compactor, such as the output of "
            "`openssl rand -hex 32`"
        )
    return token


def parse_collect_every(hours: float) -> int | None:
    """The time between two garbage collections in milliseconds, None for never, or `Invalid`."""
    if not 0 <= hours <= _MAX_COLLECT_HOURS:
        raise Invalid(
            f"--collect-every takes 0 (never) to {_MAX_COLLECT_HOURS} hours, not {hours:g}: "
            "6 is a good one"
        )
    return max(1, round(hours * 3_600_000)) if hours else None


def require_spark() -> None:
    """`Unsupported` if Spark is not installed, for a command that cannot work without it."""
    if not is_spark_installed():
        missing = Unsupported("Spark is not installed")
        missing.add_note("Install it with `pip install 'arco-lakehouse[spark]'`.")
        raise missing


def _parse_row_retention(text: str) -> tuple[str, timedelta]:
    from arco.fold.tier2 import TIER2

    table, _, number = text.partition("=")
    try:
        days = float(number)
    except ValueError:
        days = 0.0
    if not 0 < days <= _MAX_DAYS:  # nan compares as False and is rejected too
        raise Invalid(f"--keep takes TABLE=DAYS, such as executions=90, not {text[:80]!r}")
    event_tables = sorted({name for tables in TIER2.values() for name in tables})
    if table not in event_tables:
        raise Invalid(f"--keep knows no table {table[:80]!r}: there are {', '.join(event_tables)}")
    return table, timedelta(days=days)
