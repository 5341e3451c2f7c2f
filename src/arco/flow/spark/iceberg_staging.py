"""Data files of an attempt, written by Iceberg's writer without a commit to their table.

For a compaction, Iceberg returns the written files to the driver instead of committing them: its rewrite
catalog finds a table by an id in a cache of the JVM, and lists the files written under the same id. Here
that table is the target with a folder for the attempt, so that abandoned files can be found and deleted.
Files that no snapshot names are read in the same way. The table has the name, columns and partitions of the
target, which is what lineage sees.

Staged snapshots that were kept for inspection expire after the default retention of chains. Their age is
the time at which the coordinator dispatched the attempt, as clocks of workers differ. Snapshots that a
branch or tag leads to, or that were ever current, stay. An attempt half that old is fenced (P35), so an
expired snapshot cannot be published meanwhile. Where the catalog keeps its chains longer, an attempt that
runs for more than a week finds its files deleted when it publishes, fails, and is run again.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from arco.catalog.publication import ATTEMPT_PROPERTY
from arco.flow.publish.tables import is_attempt_id
from arco.flow.spark.iceberg_table import WAP_ID, IcebergTable
from arco.flow.spark.jvm import is_raised_by, jvm_of, quote_name
from arco.flow.spark.session import STAGING_CATALOG
from arco.flow.spark.table_format import WriteTarget, attempt_folder
from arco.storage.chain_gc import DEFAULT_RETENTION_MS

_DATA_PATH = "write.data.path"
_OWN_LAYOUT = ("write.object-storage.enabled", "write.location-provider.impl")
# Columns of format version 3 that the rewrite catalog has. For new rows they are null.
_ROW_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
_NUMBERS = count()  # for ids in the JVM of this process


class StagingTable:
    """A table as one attempt writes to it; the written files are not part of the table."""

    def __init__(self, session: SparkSession, table: IcebergTable, attempt_id: str) -> None:
        self._session = session
        self._iceberg = jvm_of(session).org.apache.iceberg
        self._table = table
        self._io = table.java.io()
        root = _data_folder(table)
        self.folder = None if root is None else f"{root}/{attempt_folder(session, attempt_id)}"
        self._java = self._uncommitted_table()
        self._cache = _table_cache(session)
        self._read_ids: list[str] = []

    def write(self, frame: DataFrame, *, distribution: str = "none") -> tuple[Any, ...]:
        """Write the rows of a frame; Iceberg's objects of the data files."""
        coordinator = self._iceberg.spark.FileRewriteCoordinator.get()
        set_id = f"arco-{next(_NUMBERS)}"
        self._cache.add(set_id, self._java)
        try:
            writer = self._with_row_lineage(frame).writeTo(_name(set_id))
            writer = writer.option("distribution-mode", distribution)
            writer.option("fanout-enabled", "true").append()
            return tuple(coordinator.fetchNewFiles(self._java, set_id))
        finally:
            coordinator.clearRewrite(self._java, set_id)
            self._cache.remove(set_id)

    def read(self, session: SparkSession, files: Iterable[Any]) -> DataFrame:
        """The rows of data files that this attempt has written."""
        iceberg = self._iceberg
        always = iceberg.expressions.Expressions.alwaysTrue()
        residual = iceberg.expressions.ResidualEvaluator.unpartitioned(always)
        schema = iceberg.SchemaParser.toJson(self._java.schema())
        gateway = self._session.sparkContext._gateway  # noqa: SLF001 - pyspark has no public access
        assert gateway is not None  # noqa: S101 - a session has one
        no_deletes = gateway.new_array(iceberg.DeleteFile, 0)
        tasks = jvm_of(self._session).java.util.ArrayList()
        for file in files:
            spec = iceberg.PartitionSpecParser.toJson(self._java.specs().get(file.specId()))
            tasks.add(iceberg.BaseFileScanTask(file, no_deletes, schema, spec, residual))
        if tasks.isEmpty():
            return session.createDataFrame([], self._table.columns())
        return self.read_tasks(session, tasks).select(*self.columns())

    def read_tasks(self, session: SparkSession, tasks: Any) -> DataFrame:
        """The rows of a Java list of scan tasks, in the current columns of the table, until `close`.

        In format version 3 with the columns of row lineage.
        """
        set_id = f"arco-{next(_NUMBERS)}"
        self._cache.add(set_id, self._java)
        self._read_ids.append(set_id)
        self._iceberg.spark.ScanTaskSetManager.get().stageTasks(self._java, set_id, tasks)
        return session.table(_name(set_id))

    def columns(self) -> list[str]:
        """The columns of the table, quoted."""
        return [quote_name(each.name) for each in self._table.columns().fields]

    def delete_files(self, files: Iterable[Any] | None = None) -> None:
        """Delete these files, or all files of the attempt; none of them may be part of the table."""
        if files is None and self.folder is not None:
            self._io.deletePrefix(f"{self.folder}/")
        for file in files or ():
            self._io.deleteFile(str(file.location()))

    def close(self) -> None:
        """Release the tables for reading files back."""
        manager = self._iceberg.spark.ScanTaskSetManager.get()
        for set_id in self._read_ids:
            with suppress(Exception):  # the JVM may have ended
                manager.removeTasks(self._java, set_id)
                self._cache.remove(set_id)
        self._read_ids.clear()

    def _uncommitted_table(self) -> Any:
        """The current table with the folder of the attempt; it rejects commits."""
        java = self._table.java
        locations = java.locationProvider()
        if self.folder is not None:
            properties = jvm_of(self._session).java.util.HashMap(java.properties())
            properties.put(_DATA_PATH, self.folder)
            locations = self._iceberg.LocationProviders.locationsFor(java.location(), properties)
        metadata = java.operations().current()
        operations = self._iceberg.StaticTableOperations(metadata, self._io, locations)
        return self._iceberg.BaseTable(operations, java.name())

    def _with_row_lineage(self, frame: DataFrame) -> DataFrame:
        if not self._iceberg.TableUtil.supportsRowLineage(self._java):
            return frame
        columns = set(frame.columns)
        missing = [each for each in _ROW_LINEAGE if each not in columns]
        return frame.select("*", *(F.lit(None).cast("bigint").alias(each) for each in missing))


def _data_folder(table: IcebergTable) -> str | None:
    """The folder for attempts; None for a table whose properties determine the path of each file."""
    properties = table.java.properties()
    if any(properties.get(each) not in (None, "false") for each in _OWN_LAYOUT):
        return None
    folder = properties.get(_DATA_PATH) or f"{table.java.location()}/data"
    return str(folder).rstrip("/")


def delete_attempts(table: IcebergTable, attempt_ids: Iterable[str]) -> None:
    """Delete the files of attempts that will never be published."""
    root = _data_folder(table)
    if root is None:
        return
    for attempt_id in attempt_ids:
        if table.staged(attempt_id) is None:  # else its files are kept for inspection
            table.java.io().deletePrefix(f"{root}/{attempt_id}/")


def _name(set_id: str) -> str:
    return f"{STAGING_CATALOG}.{quote_name(set_id)}"


def _table_cache(session: SparkSession) -> Any:
    """The tables of the rewrite catalog, by reflection: py4j confuses `get` with another method."""
    jvm, gateway = jvm_of(session), session.sparkContext._gateway  # noqa: SLF001
    assert gateway is not None  # noqa: S101 - a session has one
    java_class = jvm.org.apache.spark.util.Utils.classForName(_TABLE_CACHE, True, False)
    get = java_class.getMethod("get", gateway.new_array(jvm.java.lang.Class, 0))
    return get.invoke(None, gateway.new_array(jvm.java.lang.Object, 0))


def expire_stale_snapshots(
    session: SparkSession,
    table: IcebergTable,
    target: WriteTarget,
    *,
    kept_ms: int = DEFAULT_RETENTION_MS,
) -> int:
    """Expire old staged snapshots with their files; how many. None if another process commits meanwhile."""
    current = table.java.operations().current()
    if current.snapshots().size() == current.snapshotLog().size():
        return 0  # all of them were current once
    metadata = jvm_of(session).org.apache.iceberg.TableMetadataParser.toJson(current)
    before_ms = target.attempt.dispatched_at_ms - kept_ms
    if not (stale := stale_snapshot_ids(json.loads(metadata), before_ms)):
        return 0
    # By their ids and not by age: the retention of published snapshots is the user's decision.
    expiry = table.java.expireSnapshots().expireOlderThan(0)
    for each in stale:
        expiry = expiry.expireSnapshotId(each)
    try:
        expiry.cleanExpiredFiles(True).commit()
    except Exception as problem:
        if is_raised_by(problem, "CommitFailedException", "ValidationException"):
            return 0
        raise
    table.refresh()
    return len(stale)


def stale_snapshot_ids(metadata: dict[str, Any], before_ms: int) -> list[int]:
    """The unreachable snapshots that were staged by attempts dispatched before a time."""
    snapshots = {each["snapshot-id"]: each for each in metadata.get("snapshots", ())}
    logged = {each["snapshot-id"] for each in metadata.get("snapshot-log", ())}
    refs = {each["snapshot-id"] for each in metadata.get("refs", {}).values()}
    reachable = _with_parents(logged | refs, snapshots)
    return [
        snapshot_id
        for snapshot_id, each in snapshots.items()
        if snapshot_id not in reachable
        and _staged_at_ms(each.get("summary", {}), before_ms) < before_ms
    ]


def _with_parents(snapshot_ids: Iterable[int], snapshots: dict[int, dict[str, Any]]) -> set[int]:
    ids: set[int] = set()
    for start in snapshot_ids:
        snapshot_id: int | None = start
        while snapshot_id is not None and snapshot_id not in ids:
            ids.add(snapshot_id)
            snapshot_id = snapshots.get(snapshot_id, {}).get("parent-snapshot-id")
    return ids


def _staged_at_ms(summary: dict[str, str], default: int) -> int:
    """When the attempt that staged a snapshot was dispatched; `default` if no attempt staged it."""
    if not is_attempt_id(summary.get(WAP_ID, "")):
        return default
    try:
        attempt = json.loads(summary.get(ATTEMPT_PROPERTY, ""))
        return int(attempt["dispatched_at_ms"])
    except (ValueError, TypeError, KeyError):
        return default
