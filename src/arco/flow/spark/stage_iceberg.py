"""Staging in Iceberg: data files in the folder of their attempt, that no snapshot names yet.

Rows are written without a shuffle, as all of them go to one partition. Staging commits nothing, so attempts
at other partitions of the table neither wait for it nor lose a race against it.
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
from arco.flow.spark.away import away
from arco.flow.spark.choice import chosen_rows, rows_of_values
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable, storable_schema
from arco.flow.spark.jvm import JvmError, java_message, sql_name
from arco.flow.spark.merge_iceberg import Merge
from arco.flow.spark.publish_iceberg import keep_unpublished, publish
from arco.flow.spark.shape import TableNow, check_cut, columns_of_new_table, fit_columns
from arco.flow.spark.staging_table import StagingTable
from arco.flow.spark.stale import drop_stale
from arco.flow.spark.target import Published, Room, Staged, Target
from arco.flow.worker.ports import LakeTable


@dataclass
class StagedDataFiles:
    """The data files of an attempt. `merge` says what they make of the table where rows are merged."""

    target: Target
    staging: StagingTable
    java: tuple[Any, ...]
    merge: Merge | None = None
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
    def place(self) -> str:
        return ""

    def rows(self, session: SparkSession) -> DataFrame:
        return self.staging.read(session, self.java)

    def frame(self, session: SparkSession) -> DataFrame:
        rows = self.rows(session)
        if self.merge is None:
            return rows
        return rows_of_values(self.merge.merged(session, rows), self.target.values)


class IcebergTables:
    """Tables of Iceberg, by Arco's catalogs."""

    def __init__(self, room: Room) -> None:
        self._session = room.session
        self._room = room
        self._catalogs = IcebergCatalogs(room.session)
        self._opened: dict[str, IcebergTable] = {}
        self._dropped: dict[str, tuple[str, ...]] = {}
        self._unsettled: list[StagedDataFiles] = []

    def read(self, table: LakeTable, chosen: PartitionSet) -> DataFrame:
        loaded = self._load(table.name)
        name, current = sql_name(table.name), loaded.current
        if current is None or loaded.has_other_columns:
            frame = self._session.table(name)
        else:
            frame = self._session.read.option("versionAsOf", str(current.snapshotId())).table(name)
        return chosen_rows(frame, chosen, table.name)

    def storable(self, schema: StructType) -> StructType:
        return storable_schema(schema)

    def open(self, target: Target, schema: StructType) -> StructType:
        with _errors_of(target.table, "opened"):
            table = self._catalogs.load(target.table) or self._make(target, schema)
            if table.cut_by and not table.is_empty:
                check_cut(table.cut_by, target)
            drop_stale(self._session, table, target)
            plan = fit_columns(schema, _now(table), target, self._room.changes)
            if plan.added or plan.retyped or _is_to_be_recut(table, target):
                self._fit(target, table, schema)
            self._opened[target.table], self._dropped[target.table] = table, plan.dropped
            return table.columns()

    def stage(self, target: Target, frame: DataFrame) -> StagedDataFiles:
        table = self._opened[target.table]
        staging = StagingTable(self._session, table, target.attempt.attempt_id)
        try:
            files = staging.write(frame)
        except BaseException:
            with suppress(Exception):  # why it failed is what counts
                staging.delete_files()
            raise
        merge = Merge(table, target, staging) if target.mode.kind == "merge" else None
        staged = StagedDataFiles(target, staging, files, merge)
        self._unsettled.append(staged)
        return staged

    def rows_before(self, target: Target) -> int | None:
        current = self._opened[target.table].current
        if current is None:
            return None
        whole = self._session.read.option("versionAsOf", str(current.snapshotId()))
        rows = rows_of_values(whole.table(sql_name(target.table)), target.values).count()
        return rows or (None if target.values else 0)

    def publish(self, target: Target, staged: Staged) -> Published:
        files, table = self._settle(target, staged), self._opened[target.table]
        with self._turn(target, "published"):
            return publish(
                self._session,
                table,
                target,
                files.java,
                staging=files.staging,
                merge=files.merge,
                dropped=self._dropped[target.table],
                heed=self._room.heed,
            )

    def keep(self, target: Target, staged: Staged) -> str:
        files, table = self._settle(target, staged), self._opened[target.table]
        with self._turn(target, "changed"):
            return f"snapshot {keep_unpublished(table, target, files.java)}"

    def close(self) -> None:
        for staged in self._unsettled:
            with suppress(Exception):  # the JVM may be gone, or the store be away
                staged.staging.close()
                staged.staging.delete_files()
                if staged.staging.folder is None:
                    staged.staging.delete_files(staged.java)
        self._unsettled.clear()

    def _settle(self, target: Target, staged: Staged) -> StagedDataFiles:
        """From now on the files may be part of the table, and are not deleted for having been left."""
        if not isinstance(staged, StagedDataFiles):
            raise Invalid(f"{target.table}: only data files of Iceberg can be published here")
        self._unsettled.remove(staged)
        return staged

    def _make(self, target: Target, schema: StructType) -> IcebergTable:
        columns = columns_of_new_table(schema, target.table)
        with self._turn(target, "made"):
            found = self._catalogs.load(target.table)  # by another attempt, meanwhile
            return found or self._catalogs.make(target.table, columns, tuple(target.values))

    def _fit(self, target: Target, table: IcebergTable, schema: StructType) -> None:
        """Give the table the columns of a result, unless another attempt has done so meanwhile."""
        with self._turn(target, "changed"):
            table.refresh()
            plan = fit_columns(schema, _now(table), target, [])
            if plan.retyped:
                self._catalogs.drop_empty_columns(table, tuple(each.name for each in plan.retyped))
            if added := (*plan.added, *plan.retyped):
                self._catalogs.widen(table, added)
            if _is_to_be_recut(table, target):
                self._catalogs.recut(table, tuple(target.values))

    @contextmanager
    def _turn(self, target: Target, doing: str) -> Iterator[None]:
        with (
            self._room.turns.take(target.table, self._room.heed),
            _errors_of(target.table, doing),
        ):
            yield

    def _load(self, table: str) -> IcebergTable:
        found = self._catalogs.load(table)
        if found is None:
            raise Invalid(f"there is no table {table}: run what makes it first")
        return found


def _now(table: IcebergTable) -> TableNow:
    return TableNow(table.columns(), table.was_made, table.is_empty)


def _is_to_be_recut(table: IcebergTable, target: Target) -> bool:
    """Whether a table that was cleared is to be cut by other columns from now on."""
    return table.was_made and table.is_empty and table.is_cut_otherwise(tuple(target.values))


@contextmanager
def _errors_of(table: str, doing: str) -> Iterator[None]:
    """What the JVM says of a commit of Arco's own is no error of the user's code."""
    try:
        yield
    except ArcoError:
        raise
    except (JvmError, PySparkException) as problem:
        gone = away(problem)
        if gone is not None:
            raise gone from problem
        raise Conflict(f"{table} could not be {doing}: {java_message(problem)}") from problem
