"""The flags that say where Tier 2 is compacted, and whether this machine can do it."""

import re
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag
from arco.core.errors import Invalid, Unsupported

LOCAL = "local[*]"

_LONGEST_MINUTES = 100_000
_MASTER = re.compile(r"local(\[[0-9*]+(,[0-9]+)?\])?|(spark|k8s)://.+|yarn")
_REMOTE = re.compile(r"sc://[^/?#]+.*")


@Parameter(name="*")
@dataclass(frozen=True)
class Spark:
    """Flags that say where Tier 2 is compacted.

    Parameters
    ----------
    master
        Spark's master: local[*] for this machine, or spark://host:7077, yarn, k8s://https://host.
    remote
        A Spark Connect server instead, as sc://host:15002; then no Java is needed here.
    no_spark
        Compact no events: they wait in the ledger, and fresh reads show them. So it is also where
        Spark is not installed.
    """

    master: str = LOCAL
    remote: Annotated[str | None, Parameter(metavar="URL")] = None
    no_spark: Flag = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is opened: flags, a missing Java, a missing Spark."""
        if not _MASTER.fullmatch(self.master):
            raise Invalid(
                f"--master takes local[*], local[4], spark://host:7077, yarn or k8s://https://host, "
                f"not {self.master[:80]!r}"
            )
        if self.remote is not None and not _REMOTE.fullmatch(self.remote):
            raise Invalid(f"--remote takes sc://host:15002, not {self.remote[:80]!r}")
        if self.remote is not None and self.master != LOCAL:
            raise Invalid("--master and --remote both say where Spark is: give one of them")
        if self.is_wanted() and self.remote is None:
            from arco.compactor.spark.java import check_java

            check_java()

    def is_wanted(self) -> bool:
        """Whether events are to be compacted here."""
        return not self.no_spark and is_installed()

    def arguments(self) -> list[str]:
        """The same flags for a process of ours."""
        return ["--master", self.master] if self.remote is None else ["--remote", self.remote]


def idle_ms(minutes: float) -> float | None:
    """How long Spark may idle, or None for as long as it likes, or `Invalid`."""
    if not 0 <= minutes <= _LONGEST_MINUTES:
        raise Invalid(
            f"--spark-idle takes 0 (never) to {_LONGEST_MINUTES} minutes, not {minutes:g}"
        )
    return minutes * 60_000 or None


def is_installed() -> bool:
    """Whether Spark is there; a catalog-only install does without."""
    from arco.compactor.spark.java import spark_installed

    return spark_installed()


def demand_installed() -> None:
    """`Unsupported` if Spark is not there, for a command that has nothing else to do."""
    if not is_installed():
        missing = Unsupported("Spark is not installed")
        missing.add_note("Install it with `pip install 'arco-lakehouse[spark]'`.")
        raise missing
