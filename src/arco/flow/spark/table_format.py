"""The contract between attempts and table formats: what is written, staged, published and kept."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from arco.catalog.publication import DispatchedAttempt
from arco.flow.coordinator.run_state import attempt_ids_of
from arco.flow.define.options import Mode, OnMissingColumn
from arco.flow.partition import PartitionSet
from arco.flow.plan.table_state import ColumnChange
from arco.flow.spark.commit_queue import CommitQueues
from arco.flow.spark.jvm import java_session
from arco.flow.worker.ports import CatalogColumn, CatalogTable, NewCatalogTable, TaskCatalog

_MAX_ATTEMPTS = 1_000
_UUID_CHARS = 13


@dataclass(frozen=True, kw_only=True)
class WriteTarget:
    """One partition of one table, as an attempt is going to write it.

    `replaces`: in mode append, rows appended before are removed by the publishing commit.
    """

    table: str
    format: str
    partition: str
    values: dict[str, str]  # of the partition columns
    mode: Mode
    attempt: DispatchedAttempt
    on_missing_column: OnMissingColumn = "fail"
    replaces: bool = False
    comment: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()

    def table_definition(self, columns: tuple[CatalogColumn, ...] = ()) -> NewCatalogTable:
        """The table as the asset defines it."""
        return NewCatalogTable(
            name=self.table,
            format=self.format.upper(),
            columns=columns,
            partition_columns=tuple(self.values),
            comment=self.comment,
            owner=self.owner,
            tags=self.tags,
        )


class StagedData(Protocol):
    """What an attempt has written and readers do not see yet."""

    @property
    def bytes(self) -> int:
        """The size of its files."""

    @property
    def files(self) -> int:
        """The number of its files."""

    @property
    def location(self) -> str:
        """The path that was written to, '' where Spark knows the table by its name."""

    def rows(self, session: SparkSession) -> DataFrame:
        """The rows that were written, read back."""

    def frame(self, session: SparkSession) -> DataFrame:
        """The rows that this partition would have after publication, read back."""


@dataclass(frozen=True, kw_only=True)
class PublishedVersion:
    """The table version that publishes an output, and the totals of the table."""

    number: int
    snapshot_id: str | None = None
    table_rows: int | None = None
    table_bytes: int | None = None


class SparkTableFormat(Protocol):
    """Tables of one format, in the session of one task."""

    def read(self, table: CatalogTable, chosen: PartitionSet) -> DataFrame:
        """The chosen partitions of the current version of a table, whatever is committed later."""

    def open(self, target: WriteTarget, schema: StructType) -> StructType:
        """Create or widen the table of a target so that it has all columns of a frame; its columns."""

    def storable(self, schema: StructType) -> StructType:
        """A schema with the types that such a table has for those of a frame."""

    def stage(self, target: WriteTarget, frame: DataFrame) -> StagedData:
        """Write the rows of a frame without publishing them."""

    def rows_before(self, target: WriteTarget) -> int | None:
        """How many rows the partition has now; None if it has never been materialized."""

    def publish(self, target: WriteTarget, staged: StagedData) -> PublishedVersion:
        """Publish staged data. `AttemptFenced` if another attempt holds the partition."""

    def keep(self, target: WriteTarget, staged: StagedData) -> str:
        """Keep staged data unpublished for people to inspect; a name for it."""

    def close(self) -> None:
        """Release what was staged and neither published nor kept."""


@dataclass(frozen=True)
class TableContext:
    """What formats share within a task: the session, the catalog and what was found there.

    `opened` are the partitions of tables whose files were given to Spark one by one, so that Spark does not
    know them; `chosen` are the partitions that inputs were filtered to. `changes` are the columns in which
    results differ from their tables. `raise_if_stopped` ends waiting in `commit_queues`.
    """

    session: SparkSession
    catalog: TaskCatalog
    tables: dict[str, CatalogTable | None] = field(default_factory=dict)
    opened: dict[str, set[str]] = field(default_factory=dict)
    chosen: dict[str, list[PartitionSet]] = field(default_factory=dict)
    changes: list[ColumnChange] = field(default_factory=list)
    commit_queues: CommitQueues = field(default_factory=CommitQueues)
    raise_if_stopped: Callable[[], None] = lambda: None

    def find(self, table: str) -> CatalogTable | None:
        """A table of the catalog, looked up once for each task."""
        if self.tables.get(table) is None:
            self.tables[table] = self.catalog.find(table)
        return self.tables[table]


def attempt_folder(session: SparkSession, attempt_id: str) -> str:
    """The folder of an attempt's files; one that runs twice must not touch the files it has published."""
    return f"{attempt_id}/{str(java_session(session).sessionUUID())[:_UUID_CHARS]}"


def attempt_ids_until(attempt: DispatchedAttempt) -> frozenset[str]:
    """The ids of an attempt and of all earlier ones at the same task."""
    return frozenset({attempt.attempt_id, *earlier_attempt_ids(attempt)})


def earlier_attempt_ids(attempt: DispatchedAttempt) -> tuple[str, ...]:
    """The ids of the earlier attempts at the same task; they follow from its name and their numbers."""
    run_id, _, key = attempt.task.partition("/")
    earlier: list[str] = []
    for attempt_id in attempt_ids_of(run_id, key, _MAX_ATTEMPTS):
        if attempt_id == attempt.attempt_id:
            return tuple(earlier)
        earlier.append(attempt_id)
    return ()
