"""What is to be written, and what becomes of it: the words that all table formats share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from arco.catalog.publication import Attempt
from arco.flow.define.options import Mode, OnMissingColumn
from arco.flow.partition import PartitionSet
from arco.flow.spark.table_turns import TableTurns
from arco.flow.state import ColumnChange
from arco.flow.work.port import Lake, LakeColumn, LakeTable, NewLakeTable


@dataclass(frozen=True, kw_only=True)
class Target:
    """One partition of one table, as an attempt is going to write it.

    `replaces`: of mode append, the rows that were appended before are removed in the publishing commit.
    """

    table: str
    format: str
    partition: str
    values: dict[str, str]  # of the columns that the table is cut by
    mode: Mode
    attempt: Attempt
    on_missing_column: OnMissingColumn = "fail"
    replaces: bool = False
    comment: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()

    def wanted(self, columns: tuple[LakeColumn, ...] = ()) -> NewLakeTable:
        """What the definition says of the table."""
        return NewLakeTable(
            name=self.table,
            format=self.format.upper(),
            columns=columns,
            partition_columns=tuple(self.values),
            comment=self.comment,
            owner=self.owner,
            tags=self.tags,
        )


class Staged(Protocol):
    """What an attempt has written and nobody sees."""

    @property
    def bytes(self) -> int:
        """How large its files are."""

    @property
    def files(self) -> int:
        """How many files it has."""

    @property
    def place(self) -> str:
        """The path that was written to, '' where Spark knows the table by its name."""

    def rows(self, session: SparkSession) -> DataFrame:
        """The rows that were written, read back."""

    def frame(self, session: SparkSession) -> DataFrame:
        """The rows as they would be seen in this partition, read back."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What everybody sees now: the version that publishes it, and what the whole table has."""

    number: int
    snapshot_id: str | None = None
    table_rows: int | None = None
    table_bytes: int | None = None


class TableFormat(Protocol):
    """Tables of one format, in the session of one task."""

    def read(self, table: LakeTable, chosen: PartitionSet) -> DataFrame:
        """The chosen partitions of a table as it stands now, whatever becomes of it later."""

    def open(self, target: Target, schema: StructType) -> StructType:
        """The columns of a target's table, made or widened so that it has all those of a frame."""

    def storable(self, schema: StructType) -> StructType:
        """A schema with the types that such a table has for those of a frame."""

    def stage(self, target: Target, frame: DataFrame) -> Staged:
        """Write the rows of a frame where nobody sees them."""

    def rows_before(self, target: Target) -> int | None:
        """How many rows the partition has now; None if it has never been made."""

    def publish(self, target: Target, staged: Staged) -> Published:
        """Let everybody see it. `AttemptFenced` if another attempt has the partition."""

    def keep(self, target: Target, staged: Staged) -> str:
        """Leave it unpublished for people to look at; how to name it to them."""

    def close(self) -> None:
        """Let go of what was staged and neither published nor kept."""


@dataclass(frozen=True)
class Room:
    """What a format may use: the session of the task, and the catalog.

    `opened` are the partitions of tables whose files were given to Spark one by one, so that Spark itself
    does not know them; `chosen` are those that inputs were cut down to. `changes` are the columns in which
    results differ from their tables, as far as these were looked at. `turns` are for changes of tables, and
    `heed` raises once the attempt was stopped, so that it waits for none of them any longer.
    """

    session: SparkSession
    lake: Lake
    found: dict[str, LakeTable | None] = field(default_factory=dict)
    opened: dict[str, set[str]] = field(default_factory=dict)
    chosen: dict[str, list[PartitionSet]] = field(default_factory=dict)
    changes: list[ColumnChange] = field(default_factory=list)
    turns: TableTurns = field(default_factory=TableTurns)
    heed: Callable[[], None] = lambda: None

    def find(self, table: str) -> LakeTable | None:
        """A table of the catalog, asked once for each task."""
        if self.found.get(table) is None:
            self.found[table] = self.lake.find(table)
        return self.found[table]
