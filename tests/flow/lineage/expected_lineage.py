"""The truth about queries, written by hand, as data.

A case makes a frame, or writes by itself. Its truth names for each column of the result the columns that it
was made from, each with the type of what was done to it; and what decided which rows there are.
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
Found = tuple[dict[str, dict[str, str]], set[tuple[str, str]], str]


@dataclass(frozen=True)
class Case:
    """A query and the truth about it."""

    name: str
    columns: Mapping[str, Sources]
    influences: frozenset[tuple[str, str]] = frozenset()
    soundness: str = "exact"
    frame: "Callable[[SparkSession], DataFrame] | None" = None
    write: "Callable[[SparkSession], Dataset] | None" = None
    needs_iceberg: bool = False
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of tables, as read
    snapshots: frozenset[str] = frozenset()  # tables of which the version must be told
    tags: frozenset[str] = field(default_factory=frozenset)

    def truth(self) -> Found:
        """What an observation must say."""
        columns = {name: dict(sources) for name, sources in self.columns.items() if sources}
        return columns, set(self.influences), self.soundness

    def reads_differ(self, observation: LineageObservation) -> str:
        """What of the reads is not as it should be, or nothing."""
        reads = {short(read.dataset): read for read in observation.reads}
        told = {name: reads[name].partitions for name in self.partitions}
        if told != dict(self.partitions):
            return f"partitions {told} instead of {self.partitions}"
        unsaid = {name for name in self.snapshots if not reads[name].version}
        uncounted = {name for name in self.partitions if not reads[name].rows}
        return f"no version of {unsaid}, no rows of {uncounted}" if unsaid | uncounted else ""


def told(observation: LineageObservation) -> Found:
    """What an observation says, in the form of the truth."""
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


def by(how: str, *columns: str) -> frozenset[tuple[str, str]]:
    """Influences of one type."""
    return frozenset((column, how) for column in columns)
