"""Publishes an attempt in Iceberg: one commit that makes its staged files part of the table.

The catalog decides inside that commit whether the attempt may publish (P35). Retries are safe: the catalog
answers that an attempt is published already. A commit that loses against another process is retried on top
of the new table after a pause; only a merge has to read rows again.

It takes two requests to the catalog, loading the table and the commit, and more only after a lost commit.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core.errors import AttemptFenced, Conflict, Invalid, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.flow.plan.blocks import describe_files
from arco.flow.spark.commit_queue import pause
from arco.flow.spark.iceberg_merge import IcebergMerge, values_expression
from arco.flow.spark.iceberg_staging import StagingTable, delete_attempts
from arco.flow.spark.iceberg_table import WAP_ID, IcebergTable
from arco.flow.spark.jvm import is_raised_by, java_message, jvm_of
from arco.flow.spark.table_format import (
    PublishedVersion,
    WriteTarget,
    attempt_ids_until,
    earlier_attempt_ids,
)

_MAIN = "main"
_UNSURE_TRIES = 3
_TRIES = 300  # ten minutes of lost commits: then the task runs again
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 1.5
# Iceberg's message for a file with rows of the partition and others, which cannot be replaced.
_MIXED_FILE = "some, but not all, rows match filter"
# After these errors a commit may have landed.
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
    target: WriteTarget,
    files: tuple[Any, ...],
    *,
    staging: StagingTable,
    merge: IcebergMerge | None = None,
    dropped: tuple[str, ...] = (),
    raise_if_stopped: Callable[[], None] = lambda: None,
) -> PublishedVersion:
    """Publish staged files; `dropped` columns are dropped by the same commit.

    `AttemptFenced` if another attempt holds the partition, `Unknown` if it could not be found out whether
    the commit landed, `Unavailable` if other processes won for minutes. `raise_if_stopped` is called
    between tries.
    """
    publication = _Publication(session, table, target, files, merge=merge, dropped=dropped)
    try:
        snapshot = publication.run(raise_if_stopped)
    except (AttemptFenced, Conflict, Invalid, Unavailable):
        if not publication.is_unsure:  # it is certainly not published, and will not be
            with suppress(Exception):  # the first error is reported
                staging.delete_files()
        raise
    finally:
        staging.close()
    with suppress(Exception):  # it is published, even if the clean-up fails
        if publication.has_landed:
            _delete_earlier_attempts(table, target.attempt)
        else:
            _delete_duplicates(table, files, staging, snapshot)
    return _published_version(table, snapshot)


def keep_unpublished(table: IcebergTable, target: WriteTarget, files: Iterable[Any]) -> int:
    """Commit a snapshot of staged files that no branch leads to, for people to inspect; its id."""
    for pause_s in _pauses(target.attempt.attempt_id):
        change = table.java.newAppend()
        for file in files:
            change = change.appendFile(file)
        change = change.set(ATTEMPT_PROPERTY, _encode_attempt(target))
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
    snapshot = table.staged(target.attempt.attempt_id)
    if snapshot is None:
        raise Unavailable(f"{target.table}: the staged files could not be kept; retry")
    return int(snapshot.snapshotId())


def _delete_duplicates(
    table: IcebergTable, files: tuple[Any, ...], staging: StagingTable, snapshot: Any
) -> None:
    """Delete the staged files, unless they are in the snapshot that publishes the attempt."""
    added = {str(each.location()) for each in snapshot.addedDataFiles(table.java.io())}
    if added.isdisjoint(str(each.location()) for each in files):
        staging.delete_files()


def _delete_earlier_attempts(table: IcebergTable, attempt: DispatchedAttempt) -> None:
    """Delete the files of earlier attempts at the task: none of them can publish any more."""
    earlier = earlier_attempt_ids(attempt)
    if earlier and table.published(earlier) is None:
        delete_attempts(table, earlier)


class _Publication:
    def __init__(
        self,
        session: SparkSession,
        table: IcebergTable,
        target: WriteTarget,
        files: tuple[Any, ...],
        *,
        merge: IcebergMerge | None,
        dropped: tuple[str, ...],
    ) -> None:
        # What a merge reads is no part of the asset's lineage, hence another session.
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
        """Whether a commit got no answer, and may have landed."""
        return self._unsure > 0

    def run(self, raise_if_stopped: Callable[[], None]) -> Any:
        """The snapshot that publishes the attempt."""
        if self._merge is not None:
            self._table.refresh()
        for pause_s in _pauses(self._target.attempt.attempt_id):
            try:
                snapshot = self._commit()
            except Exception as problem:
                if (snapshot := self._recover(problem)) is not None:
                    return snapshot
                raise_if_stopped()
                pause(pause_s)
                if self._merge is not None:
                    self._table.refresh()
            else:
                return snapshot
        raise Unavailable(
            f"{self._target.table}: the commit lost against other processes {_TRIES} times; the task runs "
            "again"
        )

    def _commit(self) -> Any:
        """Commit; the snapshot that publishes the attempt, perhaps of an earlier try."""
        change, written = self._change()
        change = change.set(ATTEMPT_PROPERTY, _encode_attempt(self._target))
        snapshot: Any = None
        operations = self._table.java.operations()
        try:
            snapshot = change.apply()  # on top of the current table
            base = operations.current()
            # Not by the library's own commit, which loads the table twice more afterwards.
            operations.commit(base, self._metadata(base, snapshot))
        except Exception as problem:
            if is_raised_by(problem, *_LOST):
                self._delete_unused(snapshot, written)
            raise
        landed = operations.current().snapshot(snapshot.snapshotId())
        if landed is not None:
            self.has_landed = True
            return landed
        self._delete_unused(snapshot, written)
        earlier = self._table.published({self._target.attempt.attempt_id})
        return self._table.current if earlier is None else earlier

    def _metadata(self, base: Any, snapshot: Any) -> Any:
        """The table with the new snapshot, and without the dropped columns that it still has."""
        metadata = jvm_of(self._session).org.apache.iceberg.TableMetadata
        builder = metadata.buildFrom(base).setBranchSnapshot(snapshot, _MAIN)
        if names := [name for name in self._dropped if self._table.type_of(name) is not None]:
            update = self._table.java.updateSchema()
            for name in names:
                update = update.deleteColumn(name)
            builder = builder.setCurrentSchema(update.apply(), base.lastColumnId())
        return builder.build()

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
        row_filter = values_expression(self._session, self._table, values)
        change = self._table.java.newOverwrite().overwriteByRowFilter(row_filter)
        return self._protect_foreign_files(change, row_filter) if replaces else change

    def _protect_foreign_files(self, change: Any, row_filter: Any) -> Any:
        """An overwrite that fails if the partition holds rows that no attempt has appended.

        Existing files are checked here; Iceberg finds those that are added before the commit lands.
        """
        if foreign := self._table.foreign_files(row_filter):
            raise Invalid(
                f"{self._target.table}: the rows of {self._target.partition} cannot be replaced, "
                f"because the partition also holds files that no run of this pipeline added: "
                f"{describe_files(foreign)}. "
                "Remove the rows of these files, or pass --append-again to add the new rows as well"
            )
        if (current := self._table.current) is not None:
            change = change.validateFromSnapshot(current.snapshotId())
        change = change.conflictDetectionFilter(row_filter)
        return change.validateNoConflictingData().validateNoConflictingDeletes()

    def _recover(self, problem: Exception) -> Any | None:
        """After a failed commit: the snapshot if the attempt is published after all, None to try again."""
        if is_raised_by(problem, "ForbiddenException"):
            self._table.refresh()
            winner = self._table.published(attempt_ids_until(self._target.attempt))
            if winner is None:
                raise AttemptFenced(f"{self._target.table}: {java_message(problem)}") from problem
            return winner
        if is_raised_by(problem, *_UNSURE):
            self._unsure += 1
            if (snapshot := self._find_published()) is not None:
                return snapshot
            if self._unsure == _UNSURE_TRIES:
                raise Unknown(
                    f"{self._target.table}: the catalog did not answer whether it was published"
                ) from problem
            return None
        if not is_raised_by(problem, *_LOST):
            raise problem
        if _MIXED_FILE in java_message(problem):
            raise Invalid(
                f"{self._target.table} has files with rows of this partition and of others, as it was "
                "partitioned differently when they were written: write to another table, or drop this one "
                f"first, with its rows: `arco table drop {self._target.table}`"
            ) from problem
        if self._merge is None and is_raised_by(problem, "ValidationException"):
            raise Conflict(
                f"{self._target.table} cannot be changed now: {java_message(problem)}"
            ) from problem
        return None  # another process has committed to this table first

    def _find_published(self) -> Any | None:
        """The snapshot that publishes it, if the commit has landed and the catalog answers."""
        try:
            self._table.refresh()
        except Exception as problem:
            if is_raised_by(problem, *_UNSURE):
                return None
            raise
        return self._table.published(attempt_ids_until(self._target.attempt))

    def _delete_unused(self, snapshot: Any | None, written: tuple[Any, ...]) -> None:
        """Delete the files of a commit that certainly has not landed, except the staged files."""
        io = self._table.java.io()
        with suppress(Exception):  # files that stay are harmless garbage
            for file in written:
                io.deleteFile(str(file.location()))
            if snapshot is None:
                return
            for manifest in snapshot.allManifests(io):
                if manifest.snapshotId() == snapshot.snapshotId():
                    io.deleteFile(str(manifest.path()))
            io.deleteFile(str(snapshot.manifestListLocation()))


def _published_version(table: IcebergTable, snapshot: Any) -> PublishedVersion:
    summary = snapshot.summary()
    return PublishedVersion(
        number=table.number,
        snapshot_id=str(snapshot.snapshotId()),
        table_rows=_count(summary.get("total-records")),
        table_bytes=_count(summary.get("total-files-size")),
    )


def _encode_attempt(target: WriteTarget) -> str:
    """The attempt as a property of a snapshot."""
    return msgspec.json.encode(target.attempt).decode()


def _pauses(attempt_id: str) -> Iterable[float]:
    """Seconds to wait after each lost commit: growing, with a jitter that differs between attempts."""
    pause_s = _FIRST_PAUSE_S
    for number in range(_TRIES):
        jitter = int(sha256_hex(f"{attempt_id}/{number}".encode())[:8], 16) / 0xFFFFFFFF
        yield pause_s * (1 + jitter)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)
