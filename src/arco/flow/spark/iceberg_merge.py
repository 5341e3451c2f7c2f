"""Merges staged rows into an Iceberg table: they replace rows with the same keys, the others are added.

Files that hold a row with a key of the staged rows are rewritten without those rows. That depends on the
current snapshot, so it is done while the attempt holds the commit queue, and again if another process
commits first. Where the partition columns are among the keys, only the files of the partition are read.
"""

from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from arco.core.errors import Unavailable
from arco.flow.spark.iceberg_staging import StagingTable
from arco.flow.spark.iceberg_table import IcebergTable
from arco.flow.spark.jvm import jvm_of, quote_name, sql_name
from arco.flow.spark.partition_filter import filter_values
from arco.flow.spark.table_format import WriteTarget

_FILE = "_file"  # a column of every table of Iceberg: the path of the file that a row is in
_PATH = "arco_file"
_NEVER = object()


@dataclass
class IcebergMerge:
    """The merge of one attempt's rows into their table."""

    table: IcebergTable
    target: WriteTarget
    staging: StagingTable
    _checked_at: Any = field(default=_NEVER, init=False)

    def merged(self, session: SparkSession, rows: DataFrame) -> DataFrame:
        """The table as it would be with the staged rows, for checks."""
        self._checked_at = _snapshot_id(self.table.current)
        tasks = _plan_tasks(session, self.table, self._always_true(session))
        if tasks.isEmpty():
            return rows
        existing = self.staging.read_tasks(session, tasks)
        unchanged = existing.join(
            self._key_columns(rows), self._key_condition(existing), "left_anti"
        )
        return unchanged.select(*self.staging.columns()).unionAll(rows)

    def change(self, session: SparkSession, files: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The change that publishes staged files, and the rewritten files that were written for it."""
        iceberg = jvm_of(session).org.apache.iceberg
        expression, current = self._key_filter(session), self.table.current
        if self._checked_at not in (_NEVER, _snapshot_id(current)):
            raise Unavailable(
                f"{self.target.table} was changed by another process while its checks ran: the task runs "
                "again"
            )
        change = self.table.java.newOverwrite()
        if current is not None:
            change = change.validateFromSnapshot(current.snapshotId())
        change = change.conflictDetectionFilter(expression)
        change = change.validateNoConflictingData().validateNoConflictingDeletes()
        tasks = _plan_tasks(session, self.table, expression)
        touched = [] if tasks.isEmpty() or not files else self._find_touched(session, tasks, files)
        written: tuple[Any, ...] = ()
        if touched:
            written = self._rewrite(session, touched, files)
            replaced = iceberg.util.DataFileSet.create()
            vectors = iceberg.util.DeleteFileSet.create()
            for task in touched:
                replaced.add(task.file())
                for delete_file in task.deletes():
                    if iceberg.util.ContentFileUtil.isDV(delete_file):
                        vectors.add(delete_file)
            change = change.deleteFiles(replaced, vectors)
        for file in (*written, *files):
            change = change.addFile(file)
        return change, written

    def _find_touched(self, session: SparkSession, tasks: Any, files: tuple[Any, ...]) -> list[Any]:
        """The scan tasks of the files that hold a row with a key of the staged rows.

        They are searched in the current table. If it has changed since `tasks` were planned, the commit is
        rejected, and the merge starts again.
        """
        table = session.table(sql_name(self.target.table))
        existing = filter_values(table, self._values_among_keys())
        rows = self.staging.read(session, files)
        existing = existing.select("*", F.col(_FILE).alias(_PATH))
        same = existing.join(self._key_columns(rows), self._key_condition(existing), "left_semi")
        paths = {str(row[0]) for row in same.select(_PATH).distinct().collect()}
        return [each for each in tasks if str(each.file().location()) in paths] if paths else []

    def _rewrite(
        self, session: SparkSession, touched: list[Any], files: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """New files with the rows of the touched files that stay."""
        tasks = jvm_of(session).java.util.ArrayList()
        for each in touched:
            tasks.add(each)
        existing = self.staging.read_tasks(session, tasks)
        rows = self.staging.read(session, files)
        unchanged = existing.join(
            self._key_columns(rows), self._key_condition(existing), "left_anti"
        )
        return self.staging.write(unchanged, distribution="hash")

    def _key_columns(self, rows: DataFrame) -> DataFrame:
        return rows.select(
            *(
                F.col(quote_name(each)).alias(_key_name(at))
                for at, each in enumerate(self.target.mode.on)
            )
        )

    def _key_condition(self, existing: DataFrame) -> Any:
        names = {each.lower(): each for each in existing.columns}
        pairs = enumerate(self.target.mode.on)
        return reduce(
            and_,
            (F.col(quote_name(names[each.lower()])) == F.col(_key_name(at)) for at, each in pairs),
        )

    def _always_true(self, session: SparkSession) -> Any:
        return jvm_of(session).org.apache.iceberg.expressions.Expressions.alwaysTrue()

    def _key_filter(self, session: SparkSession) -> Any:
        """An expression that all rows with one of the keys fulfil."""
        return values_expression(session, self.table, self._values_among_keys())

    def _values_among_keys(self) -> dict[str, str]:
        """The values of the partition, as far as its columns are among the keys."""
        on = {each.lower() for each in self.target.mode.on}
        return {name: value for name, value in self.target.values.items() if name.lower() in on}


def values_expression(session: SparkSession, table: IcebergTable, values: dict[str, str]) -> Any:
    """Iceberg's expression that columns have these values."""
    expressions = jvm_of(session).org.apache.iceberg.expressions.Expressions
    expression = expressions.alwaysTrue()
    for name, value in values.items():
        is_equal = expressions.equal(name, _literal(table, name, value))
        expression = getattr(expressions, "and")(expression, is_equal)
    return expression


def _literal(table: IcebergTable, name: str, value: str) -> bool | int | str:
    """A value for a comparison with a column: Iceberg converts text to dates, but not to numbers."""
    column = table.java.schema().findField(name)
    kind = "" if column is None else str(column.type().typeId())
    if kind in ("INTEGER", "LONG"):
        return int(value)
    return value == "true" if kind == "BOOLEAN" else value


def _plan_tasks(session: SparkSession, table: IcebergTable, expression: Any) -> Any:
    """The scan tasks of the current snapshot, as a Java list."""
    lists = jvm_of(session).org.apache.iceberg.relocated.com.google.common.collect.Lists
    planned = table.java.newScan().filter(expression).planFiles()
    try:
        return lists.newArrayList(planned.iterator())
    finally:
        planned.close()


def _snapshot_id(snapshot: Any | None) -> int | None:
    return None if snapshot is None else int(snapshot.snapshotId())


def _key_name(at: int) -> str:
    return f"arco_key_{at}"
