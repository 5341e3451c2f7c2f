"""Iceberg tables: staged as data files in a folder of the attempt, and published by one commit.

Rows are written without a shuffle, as all of them go to one partition. Staging commits nothing, so attempts
at other partitions of the table do not conflict with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from arco.core.errors import ArcoError, Conflict, Invalid
from arco.flow.partition import PartitionSet
from arco.flow.spark.iceberg_merge import IcebergMerge
from arco.flow.spark.iceberg_publication import keep_unpublished, publish
from arco.flow.spark.iceberg_staging import StagingTable, expire_stale_snapshots
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable, storable_schema
from arco.flow.spark.jvm import JvmError, java_message, sql_name
from arco.flow.spark.partition_filter import filter_partitions, filter_values
from arco.flow.spark.schema_evolution import (
    ExistingTable,
    check_partitioning,
    columns_of_new_table,
    fit_columns,
)
from arco.flow.spark.table_format import PublishedVersion, StagedData, TableContext, WriteTarget
from arco.flow.spark.task_errors import infrastructure_error
from arco.flow.worker.ports import CatalogTable


@dataclass
class StagedIcebergFiles:
    """The data files of an attempt; `merge` is set where rows are merged."""

    target: WriteTarget
    staging: StagingTable
    java: tuple[Any, ...]
    merge: IcebergMerge | None = None
    _bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self._bytes = sum(int(each.fileSizeInBytes()) for each in self.java)

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def files(self) -> int:
        return len(self.java)

    @property
    def location(self) -> str:
        return ""

    def rows(self, session: SparkSession) -> DataFrame:
        return self.staging.read(session, self.java)

    def frame(self, session: SparkSession) -> DataFrame:
        rows = self.rows(session)
        if self.merge is None:
            return rows
        return filter_values(self.merge.merged(session, rows), self.target.values)


class IcebergFormat:
    """Iceberg tables of Arco's catalogs."""

    def __init__(self, table_context: TableContext) -> None:
        self._session = table_context.session
        self._table_context = table_context
        self._catalogs = IcebergCatalogs(table_context.session)
        self._opened: dict[str, IcebergTable] = {}
        self._dropped: dict[str, tuple[str, ...]] = {}
        self._pending: list[StagedIcebergFiles] = []

    def read(self, table: CatalogTable, chosen: PartitionSet) -> DataFrame:
        loaded = self._load(table.name)
        name, current = sql_name(table.name), loaded.current
        if current is None or loaded.has_other_columns:
            frame = self._session.table(name)
        else:
            frame = self._session.read.option("versionAsOf", str(current.snapshotId())).table(name)
        return filter_partitions(frame, chosen, table.name)

    def storable(self, schema: StructType) -> StructType:
        return storable_schema(schema)

    def open(self, target: WriteTarget, schema: StructType) -> StructType:
        with _translate_errors(target.table, "opened"):
            table = self._catalogs.load(target.table) or self._create_table(target, schema)
            if table.partition_columns and not table.is_empty:
                check_partitioning(table.partition_columns, target)
            expire_stale_snapshots(self._session, table, target)
            plan = fit_columns(schema, _existing_table(table), target, self._table_context.changes)
            if plan.added or plan.retyped or _needs_repartitioning(table, target):
                self._fit(target, table, schema)
            self._opened[target.table], self._dropped[target.table] = table, plan.dropped
            return table.columns()

    def stage(self, target: WriteTarget, frame: DataFrame) -> StagedIcebergFiles:
        table = self._opened[target.table]
        staging = StagingTable(self._session, table, target.attempt.attempt_id)
        try:
            files = staging.write(frame)
        except BaseException:
            with suppress(Exception):  # the first error is reported
                staging.delete_files()
            raise
        merge = IcebergMerge(table, target, staging) if target.mode.kind == "merge" else None
        staged = StagedIcebergFiles(target, staging, files, merge)
        self._pending.append(staged)
        return staged

    def rows_before(self, target: WriteTarget) -> int | None:
        current = self._opened[target.table].current
        if current is None:
            return None
        reader = self._session.read.option("versionAsOf", str(current.snapshotId()))
        rows = filter_values(reader.table(sql_name(target.table)), target.values).count()
        return rows or (None if target.values else 0)

    def publish(self, target: WriteTarget, staged: StagedData) -> PublishedVersion:
        files, table = self._take_pending(target, staged), self._opened[target.table]
        with self._changing(target, "published"):
            return publish(
                self._session,
                table,
                target,
                files.java,
                staging=files.staging,
                merge=files.merge,
                dropped=self._dropped[target.table],
                raise_if_stopped=self._table_context.raise_if_stopped,
            )

    def keep(self, target: WriteTarget, staged: StagedData) -> str:
        files, table = self._take_pending(target, staged), self._opened[target.table]
        with self._changing(target, "changed"):
            return f"snapshot {keep_unpublished(table, target, files.java)}"

    def close(self) -> None:
        for staged in self._pending:
            with suppress(Exception):  # the JVM may have ended, or the store be unavailable
                staged.staging.close()
                staged.staging.delete_files()
                if staged.staging.folder is None:
                    staged.staging.delete_files(staged.java)
        self._pending.clear()

    def _take_pending(self, target: WriteTarget, staged: StagedData) -> StagedIcebergFiles:
        """Staged files that `close` must not delete any more, as they may become part of the table."""
        if not isinstance(staged, StagedIcebergFiles):
            raise Invalid(f"{target.table}: only Iceberg data files can be published to it")
        self._pending.remove(staged)
        return staged

    def _create_table(self, target: WriteTarget, schema: StructType) -> IcebergTable:
        columns = columns_of_new_table(schema, target.table)
        with self._changing(target, "created"):
            table = self._catalogs.load(target.table)  # created by another attempt meanwhile
            return table or self._catalogs.create_table(target.table, columns, tuple(target.values))

    def _fit(self, target: WriteTarget, table: IcebergTable, schema: StructType) -> None:
        """Add the columns of a result to the table, unless another attempt has done so meanwhile."""
        with self._changing(target, "changed"):
            table.refresh()
            plan = fit_columns(schema, _existing_table(table), target, [])
            if plan.retyped:
                self._catalogs.drop_empty_columns(table, tuple(each.name for each in plan.retyped))
            if added := (*plan.added, *plan.retyped):
                self._catalogs.widen(table, added)
            if _needs_repartitioning(table, target):
                self._catalogs.repartition(table, tuple(target.values))

    @contextmanager
    def _changing(self, target: WriteTarget, action: str) -> Iterator[None]:
        """Hold the table's commit queue; `action` is for the error, if there is one."""
        context = self._table_context
        with (
            context.commit_queues.hold(target.table, context.raise_if_stopped),
            _translate_errors(target.table, action),
        ):
            yield

    def _load(self, table: str) -> IcebergTable:
        loaded = self._catalogs.load(table)
        if loaded is None:
            raise Invalid(f"there is no table {table}: run the asset that makes it first")
        return loaded


def _existing_table(table: IcebergTable) -> ExistingTable:
    return ExistingTable(table.columns(), table.was_published, table.is_empty)


def _needs_repartitioning(table: IcebergTable, target: WriteTarget) -> bool:
    """Whether a cleared table has to be partitioned by the columns of the target."""
    return (
        table.was_published
        and table.is_empty
        and table.is_partitioned_differently(tuple(target.values))
    )


@contextmanager
def _translate_errors(table: str, action: str) -> Iterator[None]:
    """Errors of the JVM in commits of Arco are not errors of the user's code."""
    try:
        yield
    except ArcoError:
        raise
    except (JvmError, PySparkException) as problem:
        reason = infrastructure_error(problem)
        if reason is not None:
            raise reason from problem
        raise Conflict(f"{table} could not be {action}: {java_message(problem)}") from problem
