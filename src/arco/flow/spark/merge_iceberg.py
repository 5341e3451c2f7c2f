"""Merging in Iceberg: staged rows replace those with the same keys, and the others are added.

The files that hold a row with a key of the staged rows are written once more without those rows. All that
depends on the table as it is, so it is done while the attempt has its turn, and again if another process
was faster. Where the partition columns are among the keys, only the files of the partition are looked at.
"""

from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so

from arco.core.errors import Unavailable
from arco.flow.spark.choice import quoted, rows_of_values
from arco.flow.spark.iceberg_table import IcebergTable
from arco.flow.spark.jvm import jvm_of, sql_name
from arco.flow.spark.staging_table import StagingTable
from arco.flow.spark.target import Target

_FILE = "_file"  # a column of every table of Iceberg: the path of the file that a row is in
_PATH = "arco_file"
_NEVER = object()


@dataclass
class Merge:
    """What the rows of one attempt make of their table."""

    table: IcebergTable
    target: Target
    staging: StagingTable
    _judged_at: Any = field(default=_NEVER, init=False)

    def merged(self, session: SparkSession, rows: DataFrame) -> DataFrame:
        """The table as it would be with the staged rows, for checks."""
        self._judged_at = _id(self.table.current)
        tasks = _plan(session, self.table, self._everything(session))
        if tasks.isEmpty():
            return rows
        there = self.staging.read_tasks(session, tasks)
        kept = there.join(self._keys(rows), self._same(there), "left_anti")
        return kept.select(*self.staging.columns()).unionAll(rows)

    def change(self, session: SparkSession, files: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The change that publishes staged files, and what was written for it beside them."""
        iceberg = jvm_of(session).org.apache.iceberg
        expression, current = self._expression(session), self.table.current
        if self._judged_at not in (_NEVER, _id(current)):
            raise Unavailable(
                f"{self.target.table} was changed by another process while its checks ran: the attempt "
                "is made again"
            )
        change = self.table.java.newOverwrite()
        if current is not None:
            change = change.validateFromSnapshot(current.snapshotId())
        change = change.conflictDetectionFilter(expression)
        change = change.validateNoConflictingData().validateNoConflictingDeletes()
        tasks = _plan(session, self.table, expression)
        touched = [] if tasks.isEmpty() or not files else self._touched(session, tasks, files)
        written: tuple[Any, ...] = ()
        if touched:
            written = self._rewritten(session, touched, files)
            gone = iceberg.util.DataFileSet.create()
            vectors = iceberg.util.DeleteFileSet.create()
            for task in touched:
                gone.add(task.file())
                for deleted in task.deletes():
                    if iceberg.util.ContentFileUtil.isDV(deleted):
                        vectors.add(deleted)
            change = change.deleteFiles(gone, vectors)
        for file in (*written, *files):
            change = change.addFile(file)
        return change, written

    def _touched(self, session: SparkSession, tasks: Any, files: tuple[Any, ...]) -> list[Any]:
        """The scan tasks of the files that hold a row with a key of the staged rows.

        They are looked for in the table as it is now. Should it have changed since `tasks` were planned,
        the commit is refused, and all of this is done again.
        """
        whole = session.table(sql_name(self.target.table))
        there = rows_of_values(whole, self._values_among_keys())
        rows = self.staging.read(session, files)
        there = there.select("*", F.col(_FILE).alias(_PATH))
        found = there.join(self._keys(rows), self._same(there), "left_semi")
        paths = {str(row[0]) for row in found.select(_PATH).distinct().collect()}
        return [each for each in tasks if str(each.file().location()) in paths] if paths else []

    def _rewritten(
        self, session: SparkSession, touched: list[Any], files: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """New files with the rows that stay of those that are touched."""
        tasks = jvm_of(session).java.util.ArrayList()
        for each in touched:
            tasks.add(each)
        there = self.staging.read_tasks(session, tasks)
        rows = self.staging.read(session, files)
        kept = there.join(self._keys(rows), self._same(there), "left_anti")
        return self.staging.write(kept, distribution="hash")

    def _keys(self, rows: DataFrame) -> DataFrame:
        return rows.select(
            *(F.col(quoted(each)).alias(_key(at)) for at, each in enumerate(self.target.mode.on))
        )

    def _same(self, there: DataFrame) -> Any:
        names = {each.lower(): each for each in there.columns}
        pairs = enumerate(self.target.mode.on)
        return reduce(
            and_,
            (F.col(quoted(names[each.lower()])) == F.col(_key(at)) for at, each in pairs),
        )

    def _everything(self, session: SparkSession) -> Any:
        return jvm_of(session).org.apache.iceberg.expressions.Expressions.alwaysTrue()

    def _expression(self, session: SparkSession) -> Any:
        """What the rows are known to be among that may have one of the keys."""
        return equal_to(session, self.table, self._values_among_keys())

    def _values_among_keys(self) -> dict[str, str]:
        """The values of the partition, as far as its columns are among the keys."""
        on = {each.lower() for each in self.target.mode.on}
        return {name: value for name, value in self.target.values.items() if name.lower() in on}


def equal_to(session: SparkSession, table: IcebergTable, values: dict[str, str]) -> Any:
    """The expression of Iceberg that columns have these values."""
    expressions = jvm_of(session).org.apache.iceberg.expressions.Expressions
    found = expressions.alwaysTrue()
    for name, value in values.items():
        same = expressions.equal(name, _literal(table, name, value))
        found = getattr(expressions, "and")(found, same)
    return found


def _literal(table: IcebergTable, name: str, value: str) -> bool | int | str:
    """A value as Iceberg compares it with a column: of texts it makes dates, and no numbers."""
    column = table.java.schema().findField(name)
    kind = "" if column is None else str(column.type().typeId())
    if kind in ("INTEGER", "LONG"):
        return int(value)
    return value == "true" if kind == "BOOLEAN" else value


def _plan(session: SparkSession, table: IcebergTable, expression: Any) -> Any:
    """The scan tasks of the current snapshot, as a Java list."""
    lists = jvm_of(session).org.apache.iceberg.relocated.com.google.common.collect.Lists
    planned = table.java.newScan().filter(expression).planFiles()
    try:
        return lists.newArrayList(planned.iterator())
    finally:
        planned.close()


def _id(snapshot: Any | None) -> int | None:
    return None if snapshot is None else int(snapshot.snapshotId())


def _key(at: int) -> str:
    return f"arco_key_{at}"
