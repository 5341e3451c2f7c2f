"""Publishing in Iceberg: one commit that makes the staged files of an attempt part of its table.

The catalog decides inside that commit whether the attempt still may (P35), so that asking again is safe: an
attempt that has published already is told so. A commit that another process was faster than is made again
on top of the new table, after a pause, until it is through; only a merge has to look at the rows again.

Requests to the catalog, one after the other: the table as it is now, the commit. More only after a loss.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from arco.catalog.publication import ATTEMPT_PROPERTY, Attempt
from arco.core.errors import AttemptFenced, Conflict, Invalid, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.flow.plan.blocks import describe_files
from arco.flow.spark.attempt_ids import attempts_before, earlier_attempts
from arco.flow.spark.iceberg_table import WAP_ID, IcebergTable
from arco.flow.spark.jvm import is_raised_by, java_message, jvm_of
from arco.flow.spark.merge_iceberg import Merge, equal_to
from arco.flow.spark.staging_table import StagingTable, delete_attempts
from arco.flow.spark.table_turns import pause
from arco.flow.spark.target import Published, Target

_MAIN = "main"
_UNSURE_TRIES = 3
_TRIES = 300  # ten minutes of losing against others: then the attempt is made again
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.5
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
_LOST = ("CommitFailedException", "ValidationException")


def publish(
    session: SparkSession,
    table: IcebergTable,
    target: Target,
    files: tuple[Any, ...],
    *,
    staging: StagingTable,
    merge: Merge | None = None,
    dropped: tuple[str, ...] = (),
    heed: Callable[[], None] = lambda: None,
) -> Published:
    """Let everybody see what was staged; columns that are `dropped` go in the same commit.

    `AttemptFenced` if another attempt has the partition, `Unknown` if it could not be found out whether it
    was published, `Unavailable` if others were faster for minutes on end. `heed` ends it between two tries
    by raising what it likes.
    """
    publishing = _Publishing(session, table, target, files, merge=merge, dropped=dropped)
    try:
        snapshot = publishing.run(heed)
    except (AttemptFenced, Conflict, Invalid, Unavailable):
        if not publishing.is_unsure:  # it is certainly not published, and will not be
            with suppress(Exception):  # why it is not is what counts
                staging.delete_files()
        raise
    finally:
        staging.close()
    with suppress(Exception):  # it is published, whatever is left to tidy up
        if publishing.has_landed:
            _tidy_earlier(table, target.attempt)
        else:
            _tidy(table, files, staging, snapshot)
    return _done(table, snapshot)


def keep_unpublished(table: IcebergTable, target: Target, files: Iterable[Any]) -> int:
    """Make a snapshot of staged files that no branch leads to, for people to look at; its id."""
    for pause_s in _pauses(target.attempt.attempt_id):
        change = table.java.newAppend()
        for file in files:
            change = change.appendFile(file)
        change = change.set(ATTEMPT_PROPERTY, said_of(target))
        try:
            change.set(WAP_ID, target.attempt.attempt_id).stageOnly().commit()
        except Exception as problem:
            if not is_raised_by(problem, *_LOST):
                raise
            pause(pause_s)
        else:
            break
        table.refresh()
    table.refresh()
    kept = table.staged(target.attempt.attempt_id)
    if kept is None:
        raise Unavailable(f"{target.table}: what was staged could not be kept; retry")
    return int(kept.snapshotId())


def _tidy(table: IcebergTable, files: tuple[Any, ...], staging: StagingTable, found: Any) -> None:
    """The snapshot of another try publishes the attempt: delete these files, unless they are in it."""
    added = {str(each.location()) for each in found.addedDataFiles(table.java.io())}
    if added.isdisjoint(str(each.location()) for each in files):
        staging.delete_files()


def _tidy_earlier(table: IcebergTable, attempt: Attempt) -> None:
    """Delete what earlier attempts at the task have written: none of them can publish any more."""
    earlier = earlier_attempts(attempt)
    if earlier and table.published(earlier) is None:
        delete_attempts(table, earlier)


class _Publishing:
    def __init__(
        self,
        session: SparkSession,
        table: IcebergTable,
        target: Target,
        files: tuple[Any, ...],
        *,
        merge: Merge | None,
        dropped: tuple[str, ...],
    ) -> None:
        # What is read for a merge is no part of the asset's lineage: it has a session of its own.
        self._session = session if merge is None else session.newSession()
        self._table = table
        self._target = target
        self._files = files
        self._merge = merge
        self._dropped = dropped
        self._unsure = 0
        self.has_landed = False  # the last commit, which is the one that publishes the attempt

    @property
    def is_unsure(self) -> bool:
        """Whether a commit was not answered, and may have landed."""
        return self._unsure > 0

    def run(self, heed: Callable[[], None]) -> Any:
        """The snapshot by which the attempt is published."""
        if self._merge is not None:
            self._table.refresh()
        for pause_s in _pauses(self._target.attempt.attempt_id):
            try:
                snapshot = self._commit()
            except Exception as problem:
                if (snapshot := self._look(problem)) is not None:
                    return snapshot
                heed()
                pause(pause_s)
                if self._merge is not None:
                    self._table.refresh()
            else:
                return snapshot
        raise Unavailable(
            f"{self._target.table}: other processes were faster {_TRIES} times; the attempt is made again"
        )

    def _commit(self) -> Any:
        """Commit, and the snapshot by which the attempt is published, perhaps since before."""
        change, written = self._change()
        change = change.set(ATTEMPT_PROPERTY, said_of(self._target))
        made: Any = None
        operations = self._table.java.operations()
        try:
            made = change.apply()  # on top of the table as it is now
            base = operations.current()
            # Without the library's own commit, which asks for the whole table twice more afterwards.
            operations.commit(base, self._metadata(base, made))
        except Exception as problem:
            if is_raised_by(problem, *_LOST):
                self._delete_unused(made, written)
            raise
        own = operations.current().snapshot(made.snapshotId())
        if own is not None:
            self.has_landed = True
            return own
        self._delete_unused(made, written)
        earlier = self._table.published({self._target.attempt.attempt_id})
        return self._table.current if earlier is None else earlier

    def _metadata(self, base: Any, made: Any) -> Any:
        """The table with the new snapshot, and without columns that no task has dropped before."""
        metadata = jvm_of(self._session).org.apache.iceberg.TableMetadata
        ahead = metadata.buildFrom(base).setBranchSnapshot(made, _MAIN)
        if gone := [name for name in self._dropped if self._table.type_of(name) is not None]:
            update = self._table.java.updateSchema()
            for name in gone:
                update = update.deleteColumn(name)
            ahead = ahead.setCurrentSchema(update.apply(), base.lastColumnId())
        return ahead.build()

    def _change(self) -> tuple[Any, tuple[Any, ...]]:
        if self._merge is not None:
            return self._merge.change(self._session, self._files)
        append = self._target.mode.kind == "append" and not self._target.replaces
        change = self._table.java.newAppend() if append else self._overwrite()
        for file in self._files:
            change = change.appendFile(file) if append else change.addFile(file)
        return change, ()

    def _overwrite(self) -> Any:
        replaces = self._target.replaces
        by_partition = replaces or self._target.mode.kind == "replace_partition"
        values = self._target.values if by_partition else {}
        gone = equal_to(self._session, self._table, values)
        change = self._table.java.newOverwrite().overwriteByRowFilter(gone)
        return self._keeping_foreign_files(change, gone) if replaces else change

    def _keeping_foreign_files(self, change: Any, gone: Any) -> Any:
        """An overwrite that fails if the partition holds rows that no attempt has appended.

        What is there now is looked at here, what comes before the commit lands is found by Iceberg.
        """
        if foreign := self._table.foreign_files(gone):
            raise Invalid(
                f"{self._target.table}: the rows of {self._target.partition} should be replaced, but the "
                f"partition also holds files that no run of this pipeline added: "
                f"{describe_files(foreign)}. "
                "Remove the rows of these files, or pass --append-again to add the new rows as well"
            )
        if (current := self._table.current) is not None:
            change = change.validateFromSnapshot(current.snapshotId())
        change = change.conflictDetectionFilter(gone)
        return change.validateNoConflictingData().validateNoConflictingDeletes()

    def _look(self, problem: Exception) -> Any | None:
        """After a commit that failed: the snapshot if it is published after all, None to try again."""
        if is_raised_by(problem, "ForbiddenException"):
            self._table.refresh()
            winner = self._table.published(attempts_before(self._target.attempt))
            if winner is None:
                raise AttemptFenced(f"{self._target.table}: {java_message(problem)}") from problem
            return winner
        if is_raised_by(problem, *_UNSURE):
            self._unsure += 1
            if (found := self._found()) is not None:
                return found
            if self._unsure == _UNSURE_TRIES:
                raise Unknown(
                    f"{self._target.table}: the catalog did not answer whether it was published"
                ) from problem
            return None
        if not is_raised_by(problem, *_LOST):
            raise problem
        if _FILES_OF_SEVERAL in java_message(problem):
            raise Invalid(
                f"{self._target.table} has files with rows of this partition and of others, as it was cut "
                "otherwise when they were written: write to another table, or drop this one first, with "
                f"its rows: `arco table drop {self._target.table}`"
            ) from problem
        if self._merge is None and is_raised_by(problem, "ValidationException"):
            raise Conflict(
                f"{self._target.table} cannot be changed as it is now: {java_message(problem)}"
            ) from problem
        return None  # others publish to this table too, and were faster

    def _found(self) -> Any | None:
        """The snapshot that publishes it, if the commit has landed after all and the catalog answers."""
        try:
            self._table.refresh()
        except Exception as problem:
            if is_raised_by(problem, *_UNSURE):
                return None
            raise
        return self._table.published(attempts_before(self._target.attempt))

    def _delete_unused(self, made: Any | None, written: tuple[Any, ...]) -> None:
        """Delete what was written for a commit that certainly has not landed, but for the staged files."""
        io = self._table.java.io()
        with suppress(Exception):  # what stays is garbage, and harms nobody
            for file in written:
                io.deleteFile(str(file.location()))
            if made is None:
                return
            for manifest in made.allManifests(io):
                if manifest.snapshotId() == made.snapshotId():
                    io.deleteFile(str(manifest.path()))
            io.deleteFile(str(made.manifestListLocation()))


def _done(table: IcebergTable, snapshot: Any) -> Published:
    summary = snapshot.summary()
    return Published(
        number=table.number,
        snapshot_id=str(snapshot.snapshotId()),
        table_rows=_count(summary.get("total-records")),
        table_bytes=_count(summary.get("total-files-size")),
    )


def said_of(target: Target) -> str:
    """The attempt as a snapshot names it."""
    return msgspec.json.encode(target.attempt).decode()


def _pauses(attempt_id: str) -> Iterable[float]:
    """How many seconds to wait after each loss: longer and longer, and each attempt otherwise."""
    longest_s = _FIRST_PAUSE_S
    for number in range(_TRIES):
        drawn = int(sha256_hex(f"{attempt_id}/{number}".encode())[:8], 16) / 0xFFFFFFFF
        yield longest_s * (1 + drawn)
        longest_s = min(2 * longest_s, _LONGEST_PAUSE_S)


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)
