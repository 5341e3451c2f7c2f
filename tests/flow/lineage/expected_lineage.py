"""Test cases for lineage: queries with their expected lineage, written by hand, as data.

A case makes a frame, or writes by itself. It names for each column of the result its source columns, each
with the type of the transformation, and the columns that decide which rows exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arco.flow.lineage import Dataset, LineageObservation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


DIRECT = "DIRECT"
CAST = "CAST"
EXPR = "EXPRESSION"
CASE = "CASE"
AGG = "AGGREGATE"
WIN = "WINDOW"
UNKNOWN = "UNKNOWN"

Sources = Mapping[str, str]  # `table.column` and a type
Lineage = tuple[dict[str, dict[str, str]], set[tuple[str, str]], str]


@dataclass(frozen=True)
class Case:
    """A query and its expected lineage."""

    name: str
    columns: Mapping[str, Sources]
    influences: frozenset[tuple[str, str]] = frozenset()
    soundness: str = "exact"
    frame: "Callable[[SparkSession], DataFrame] | None" = None
    write: "Callable[[SparkSession], Dataset] | None" = None
    needs_iceberg: bool = False
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of tables, as read
    snapshots: frozenset[str] = frozenset()  # tables whose version must be reported
    tags: frozenset[str] = field(default_factory=frozenset)

    def expected(self) -> Lineage:
        """The lineage that must be observed."""
        columns = {name: dict(sources) for name, sources in self.columns.items() if sources}
        return columns, set(self.influences), self.soundness

    def reads_differ(self, observation: LineageObservation) -> str:
        """How the reads differ from what is expected, or nothing."""
        reads = {short(read.dataset): read for read in observation.reads}
        partitions = {name: reads[name].partitions for name in self.partitions}
        if partitions != dict(self.partitions):
            return f"partitions {partitions} instead of {self.partitions}"
        unversioned = {name for name in self.snapshots if not reads[name].version}
        uncounted = {name for name in self.partitions if not reads[name].rows}
        return (
            f"no version of {unversioned}, no rows of {uncounted}"
            if unversioned | uncounted
            else ""
        )


def lineage_of(observation: LineageObservation) -> Lineage:
    """The lineage of an observation, in the form of `Case.expected`."""
    columns: dict[str, dict[str, str]] = {}
    influences: set[tuple[str, str]] = set()
    for edge in observation.edges:
        source = f"{short(edge.source)}.{edge.source_column}"
        if edge.target_column == "*":
            influences.add((source, edge.transformation))
        else:
            columns.setdefault(edge.target_column, {})[source] = edge.transformation
    return columns, influences, observation.soundness


def short(dataset: Dataset) -> str:
    """The last part of a name or a path."""
    return str(dataset).replace("/", ".").rpartition(".")[2]


def by(transformation: str, *columns: str) -> frozenset[tuple[str, str]]:
    """Influences of one type."""
    return frozenset((column, transformation) for column in columns)
