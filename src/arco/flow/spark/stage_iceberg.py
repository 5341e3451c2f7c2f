"""Staging in Iceberg: a snapshot that no branch leads to, under the id of its attempt.

Rows are written without a shuffle, as all of them go to one partition. A merge is a snapshot too: of the
whole table as it would be, which is why it is published as it is or not at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from arco.catalog.publication import ATTEMPT_PROPERTY
from arco.core.errors import Corrupt, Invalid
from arco.flow.partition import PartitionSet
from arco.flow.spark.choice import chosen_rows, quoted, rows_of_values
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable, storable_schema
from arco.flow.spark.jvm import sql_name
from arco.flow.spark.publish_iceberg import publish, said_of
from arco.flow.spark.shape import TableNow, check_cut, columns_of_new_table, fit_columns
from arco.flow.spark.stale import drop_stale
from arco.flow.spark.target import Published, Room, Staged, Target
from arco.flow.work.port import LakeTable

_WAP_ID = "spark.wap.id"
_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
_SOURCE = "arco_merged"


@dataclass(frozen=True)
class StagedSnapshot:
    """A snapshot that was staged; `is_merge`: it is the whole table, not the new rows alone."""

    target: Target
    java: Any
    is_merge: bool = False

    @property
    def bytes(self) -> int:
        return self._total("added-files-size")

    @property
    def files(self) -> int:
        return self._total("added-data-files")

    @property
    def label(self) -> str:
        return f"snapshot {self.java.snapshotId()}"

    @property
    def place(self) -> str:
        return ""

    def frame(self, session: SparkSession) -> DataFrame:
        name, staged, parent = sql_name(self.target.table), self.java, self.java.parentId()
        if self.is_merge or parent is None:
            whole = session.read.option("versionAsOf", str(staged.snapshotId())).table(name)
            return rows_of_values(whole, self.target.values) if self.is_merge else whole
        added = session.read.option("start-snapshot-id", str(parent))
        return added.option("end-snapshot-id", str(staged.snapshotId())).table(name)

    def _total(self, name: str) -> int:
        return int(self.java.summary().get(name) or 0)


class IcebergTables:
    """Tables of Iceberg, by Arco's catalogs."""

    def __init__(self, room: Room) -> None:
        self._session = room.session
        self._catalogs = IcebergCatalogs(room.session)
        self._opened: dict[str, IcebergTable] = {}
        self._room = room
        self._dropped: dict[str, tuple[str, ...]] = {}

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
        table = self._catalogs.load(target.table)
        if table is None:
            columns = columns_of_new_table(schema, target.table)
            table = self._catalogs.make(target.table, columns, tuple(target.values))
        elif table.cut_by and not table.is_empty:
            check_cut(table.cut_by, target)
        table.ensure_staging()
        drop_stale(self._session, table, target)
        known = self._session.table(sql_name(target.table)).schema
        now = TableNow(known, table.was_made, table.is_empty)
        plan = fit_columns(schema, now, target, self._room.changes)
        if plan.retyped:
            self._catalogs.drop_empty_columns(table, tuple(each.name for each in plan.retyped))
        if added := (*plan.added, *plan.retyped):
            self._catalogs.widen(table, added)
            known = self._session.table(sql_name(target.table)).schema
        if now.was_made and now.is_empty and table.is_cut_otherwise(tuple(target.values)):
            self._catalogs.recut(table, tuple(target.values))
        self._opened[target.table], self._dropped[target.table] = table, plan.dropped
        return known

    def stage(self, target: Target, frame: DataFrame) -> StagedSnapshot:
        is_merge = target.mode.kind == "merge"
        with self._staging(target):
            if is_merge:
                self._merge(target, frame)
            else:
                writer = frame.writeTo(sql_name(target.table))
                writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
                writer.option(f"snapshot-property.{ATTEMPT_PROPERTY}", said_of(target)).append()
        table = self._opened[target.table]
        table.refresh()
        snapshot = table.staged(target.attempt.attempt_id)
        if snapshot is None:
            raise Corrupt(f"{target.table}: what was staged is not in the table")
        return StagedSnapshot(target, snapshot, is_merge)

    def rows_before(self, target: Target) -> int | None:
        current = self._opened[target.table].current
        if current is None:
            return None
        whole = self._session.read.option("versionAsOf", str(current.snapshotId()))
        rows = rows_of_values(whole.table(sql_name(target.table)), target.values).count()
        return rows or (None if target.values else 0)

    def publish(self, target: Target, staged: Staged) -> Published:
        if not isinstance(staged, StagedSnapshot):
            raise Invalid(f"{target.table}: only a snapshot of Iceberg can be published here")
        table, dropped = self._opened[target.table], self._dropped.get(target.table, ())
        return publish(self._session, table, target, staged.java, dropped)

    def _merge(self, target: Target, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(_SOURCE)
        same = " AND ".join(f"t.{quoted(each)} = s.{quoted(each)}" for each in target.mode.on)
        self._session.sql(
            f"MERGE INTO {sql_name(target.table)} t USING {_SOURCE} s ON {same} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    @contextmanager
    def _staging(self, target: Target) -> Iterator[None]:
        """For this time, what the session writes to this table is seen by nobody."""
        conf, attempt = self._session.conf, f"{_SNAPSHOT_PROPERTY}{ATTEMPT_PROPERTY}"
        conf.set(_WAP_ID, target.attempt.attempt_id)
        conf.set(attempt, said_of(target))
        try:
            yield
        finally:
            conf.unset(_WAP_ID)
            conf.unset(attempt)

    def _load(self, table: str) -> IcebergTable:
        found = self._catalogs.load(table)
        if found is None:
            raise Invalid(f"there is no table {table}: run what makes it first")
        return found
