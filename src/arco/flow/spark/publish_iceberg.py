"""Publishing in Iceberg: one commit that makes the files of a staged snapshot part of the table.

The catalog decides inside that commit whether the attempt still may (P35), so that asking again is safe: an
attempt that has published already is told so. The staged snapshot goes in the same commit. A merge is
published by pointing at its snapshot, which is right only as long as nobody has written since.
"""

from typing import Any

import msgspec
from pyspark.sql import SparkSession

from arco.catalog.publication import ATTEMPT_PROPERTY
from arco.core.errors import AttemptFenced, Conflict, Invalid, Unknown
from arco.flow.plan.blocks import files_shown
from arco.flow.spark.attempt_ids import attempts_before
from arco.flow.spark.iceberg_table import IcebergTable
from arco.flow.spark.jvm import is_raised_by, java_message, jvm_of
from arco.flow.spark.target import Published, Target

_TRIES = 3
_MAIN = "main"
_WHOLE_NUMBERS = ("INTEGER", "LONG")
# How Iceberg says that a file holds rows of the partition and others, so that it cannot be replaced.
_FILES_OF_SEVERAL = "some, but not all, rows match filter"
# After these a commit may have landed: no answer came, or one that does not say.
_UNSURE = (
    "CommitStateUnknownException",
    "RESTException",
    "RuntimeIOException",
    "ServiceFailureException",
    "ServiceUnavailableException",
    "UncheckedIOException",
)


def publish(
    session: SparkSession,
    table: IcebergTable,
    target: Target,
    staged: Any,
    dropped: tuple[str, ...] = (),
) -> Published:
    """Let everybody see what was staged; columns that are `dropped` go in the same commit.

    `AttemptFenced` if another attempt has the partition, `Conflict` if the table has changed in a way that
    cannot be put together with it, `Unknown` if it could not be found out whether it was published.
    """
    publishing = _Publishing(session, table, target, staged, dropped)
    for _ in range(_TRIES):
        try:
            publishing.commit()
        except Exception as problem:
            if (done := publishing.look(problem)) is not None:
                return done
        else:
            # The answer to the commit, and not what others may have made of the table since.
            return publishing.done(table.current)
    if publishing.lost is not None:
        raise publishing.lost
    raise Unknown(f"{target.table}: the catalog did not tell whether it was published")


class _Publishing:
    def __init__(
        self,
        session: SparkSession,
        table: IcebergTable,
        target: Target,
        staged: Any,
        dropped: tuple[str, ...],
    ) -> None:
        self._jvm = jvm_of(session)
        self._table = table
        self._target = target
        self._staged = staged
        self._dropped = dropped
        self.lost: Conflict | None = None  # why the last commit has certainly not landed

    def commit(self) -> None:
        if self._target.mode.kind == "merge":
            self._fast_forward()
        else:
            self._bring_in()

    def look(self, problem: Exception) -> Published | None:
        """What became of a commit that failed: published after all, or to be tried again, or an error."""
        if is_raised_by(problem, "ForbiddenException"):
            self._table.refresh()
            winner = self._table.published(attempts_before(self._target.attempt))
            if winner is None:
                raise AttemptFenced(f"{self._target.table}: {java_message(problem)}") from problem
            return self.done(winner)
        self.lost = None
        if is_raised_by(problem, *_UNSURE):
            return self._found()
        if not is_raised_by(problem, "CommitFailedException", "ValidationException"):
            raise problem
        if _FILES_OF_SEVERAL in java_message(problem):
            raise Invalid(
                f"{self._target.table} has files with rows of this partition and of others, as it was cut "
                "otherwise when they were written: write to another table, or drop this one first, with "
                f"its rows: `arco table drop {self._target.table}`"
            ) from problem
        lost = Conflict(
            f"{self._target.table} was changed by somebody else meanwhile: {java_message(problem)}"
        )
        if self._target.mode.kind == "merge" or is_raised_by(problem, "ValidationException"):
            raise lost from problem
        # Others publish to this table too, and were faster each time: theirs and ours go together.
        lost.__cause__, self.lost = problem, lost
        self._table.refresh()
        return None

    def _found(self) -> Published | None:
        """What is published, if the commit has landed after all and somebody can tell."""
        try:
            self._table.refresh()
        except Exception as problem:
            if is_raised_by(problem, *_UNSURE):
                return None
            raise
        winner = self._table.published(attempts_before(self._target.attempt))
        return None if winner is None else self.done(winner)

    def done(self, snapshot: Any) -> Published:
        summary = snapshot.summary()
        return Published(
            number=self._table.number,
            snapshot_id=str(snapshot.snapshotId()),
            table_rows=_count(summary.get("total-records")),
            table_bytes=_count(summary.get("total-files-size")),
        )

    def _bring_in(self) -> None:
        """Append or overwrite with the staged files, and drop the snapshot that they were staged in."""
        transaction = self._table.java.newTransaction()
        append = self._target.mode.kind == "append" and not self._target.replaces
        change = transaction.newAppend() if append else self._overwrite(transaction)
        for file in self._staged.addedDataFiles(self._table.java.io()):
            change = change.appendFile(file) if append else change.addFile(file)
        change.set(ATTEMPT_PROPERTY, said_of(self._target)).commit()
        # This one alone: without a time, Iceberg lets go of all that is older than some days.
        expiry = transaction.expireSnapshots().expireOlderThan(0)
        expiry = expiry.expireSnapshotId(self._staged.snapshotId())
        expiry.cleanExpiredFiles(False).commit()
        if gone := self._columns_to_drop():
            self._without(gone, transaction.updateSchema()).commit()
        transaction.commitTransaction()

    def _columns_to_drop(self) -> list[str]:
        """Those of the dropped columns that no other task of the asset has dropped before."""
        return [name for name in self._dropped if self._table.type_of(name) is not None]

    def _without(self, columns: list[str], update: Any) -> Any:
        for name in columns:
            update = update.deleteColumn(name)
        return update

    def _overwrite(self, transaction: Any) -> Any:
        expressions = self._jvm.org.apache.iceberg.expressions.Expressions
        gone, replaces = expressions.alwaysTrue(), self._target.replaces
        if replaces or self._target.mode.kind == "replace_partition":
            for name, value in self._target.values.items():
                same = expressions.equal(name, self._literal(name, value))
                gone = getattr(expressions, "and")(gone, same)
        change = transaction.newOverwrite().overwriteByRowFilter(gone)
        return self._keeping_foreign_files(change, gone) if replaces else change

    def _keeping_foreign_files(self, change: Any, gone: Any) -> Any:
        """An overwrite that fails if the partition holds rows that no attempt has appended.

        What is there now is looked at here, what comes before the commit lands is found by Iceberg.
        """
        if foreign := self._table.foreign_files(gone):
            raise Invalid(
                f"{self._target.table}: the rows of {self._target.partition} should be replaced, but the "
                f"partition also holds files that no run of this pipeline added: {files_shown(foreign)}. "
                "Remove the rows of these files, or pass --append-again to add the new rows as well"
            )
        if (current := self._table.current) is not None:
            change = change.validateFromSnapshot(current.snapshotId())
        change = change.conflictDetectionFilter(gone)
        return change.validateNoConflictingData().validateNoConflictingDeletes()

    def _literal(self, name: str, value: str) -> bool | int | str:
        """A value as Iceberg compares it with a column: of texts it makes dates, and no numbers."""
        column = self._table.java.schema().findField(name)
        kind = "" if column is None else str(column.type().typeId())
        if kind in _WHOLE_NUMBERS:
            return int(value)
        return value == "true" if kind == "BOOLEAN" else value

    def _fast_forward(self) -> None:
        """Point at the staged snapshot, if it was made on top of what everybody sees."""
        self._table.refresh()
        current, parent = self._table.current, self._staged.parentId()
        if (None if current is None else current.snapshotId()) != parent:
            raise Conflict(
                f"{self._target.table} was changed by somebody else while rows were merged into it"
            )
        operations = self._table.java.operations()
        base = operations.current()
        metadata = self._jvm.org.apache.iceberg.TableMetadata
        ahead = metadata.buildFrom(base).setBranchSnapshot(self._staged.snapshotId(), _MAIN)
        if gone := self._columns_to_drop():
            narrow = self._without(gone, self._table.java.updateSchema()).apply()
            ahead = ahead.setCurrentSchema(narrow, base.lastColumnId())
        # Without a retry: what was merged is right for this base alone.
        operations.commit(base, ahead.build())


def said_of(target: Target) -> str:
    """The attempt as a snapshot names it."""
    return msgspec.json.encode(target.attempt).decode()


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)
