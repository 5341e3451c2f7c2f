"""Data files of an attempt, written by Iceberg's own writer without a commit to their table.

Iceberg gives the files of a compaction to the driver instead of committing them: its rewrite catalog finds
a table by an id in a cache of the JVM, and lists what was written to it under the same id. Here that table
is the target with a folder for the attempt, so that what an attempt leaves behind can be found and deleted.
By the same way files are read that no snapshot names.

It is the target by its name, its columns and its partitions, which is what lineage sees of it.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so

from arco.flow.spark.choice import quoted
from arco.flow.spark.iceberg_table import IcebergTable
from arco.flow.spark.jvm import java_of, jvm_of
from arco.flow.spark.session import STAGING_CATALOG

_DATA_PATH = "write.data.path"
_OWN_LAYOUT = ("write.object-storage.enabled", "write.location-provider.impl")
# Columns of format version 3 that the rewrite catalog shows. Of new rows they are null.
_ROW_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
_UUID_CHARS = 13
_NUMBERS = count()  # of ids in the JVM, which is this process's alone


class StagingTable:
    """A table as one attempt writes to it: nothing that is written here is part of the table."""

    def __init__(self, session: SparkSession, table: IcebergTable, attempt_id: str) -> None:
        self._session = session
        self._iceberg = jvm_of(session).org.apache.iceberg
        self._table = table
        self._io = table.java.io()
        # An attempt that is carried out again must not touch what it has published the first time.
        once = str(java_of(session).sessionUUID())[:_UUID_CHARS]
        home = data_folder(table)
        self.folder = None if home is None else f"{home}/{attempt_id}/{once}"
        self._java = self._uncommitted()
        self._cache = _table_cache(session)
        self._read_ids: list[str] = []

    def write(self, frame: DataFrame, *, distribution: str = "none") -> tuple[Any, ...]:
        """Write the rows of a frame; the data files that hold them, as Iceberg describes them."""
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
        """The rows of data files that were written here."""
        iceberg = self._iceberg
        always = iceberg.expressions.Expressions.alwaysTrue()
        residual = iceberg.expressions.ResidualEvaluator.unpartitioned(always)
        schema = iceberg.SchemaParser.toJson(self._java.schema())
        gateway = self._session.sparkContext._gateway  # noqa: SLF001 - there is no other way to it
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
        """The rows of a Java list of scan tasks, in the columns that the table has now.

        In format version 3 with the columns of row lineage. It can be read until `close`.
        """
        set_id = f"arco-{next(_NUMBERS)}"
        self._cache.add(set_id, self._java)
        self._read_ids.append(set_id)
        self._iceberg.spark.ScanTaskSetManager.get().stageTasks(self._java, set_id, tasks)
        return session.table(_name(set_id))

    def columns(self) -> list[str]:
        """The columns of the table, quoted."""
        return [quoted(each.name) for each in self._table.columns().fields]

    def delete_files(self, files: Iterable[Any] | None = None) -> None:
        """Delete these files, or all that was written here; none of them is part of the table."""
        if files is None and self.folder is not None:
            self._io.deletePrefix(f"{self.folder}/")
        for file in files or ():
            self._io.deleteFile(str(file.location()))

    def close(self) -> None:
        """Nothing is read back any more."""
        manager = self._iceberg.spark.ScanTaskSetManager.get()
        for set_id in self._read_ids:
            with suppress(Exception):  # of a JVM that is gone
                manager.removeTasks(self._java, set_id)
                self._cache.remove(set_id)
        self._read_ids.clear()

    def _uncommitted(self) -> Any:
        """The table as it is now, with the folder of the attempt; a commit to it is refused."""
        java = self._table.java
        places = java.locationProvider()
        if self.folder is not None:
            properties = jvm_of(self._session).java.util.HashMap(java.properties())
            properties.put(_DATA_PATH, self.folder)
            places = self._iceberg.LocationProviders.locationsFor(java.location(), properties)
        metadata = java.operations().current()
        operations = self._iceberg.StaticTableOperations(metadata, self._io, places)
        return self._iceberg.BaseTable(operations, java.name())

    def _with_row_lineage(self, frame: DataFrame) -> DataFrame:
        if not self._iceberg.TableUtil.supportsRowLineage(self._java):
            return frame
        has = set(frame.columns)
        lacking = [each for each in _ROW_LINEAGE if each not in has]
        return frame.select("*", *(F.lit(None).cast("bigint").alias(each) for each in lacking))


def data_folder(table: IcebergTable) -> str | None:
    """Where attempts have their folders; None for a table that says itself where each file goes."""
    properties = table.java.properties()
    if any(properties.get(each) not in (None, "false") for each in _OWN_LAYOUT):
        return None
    said = properties.get(_DATA_PATH) or f"{table.java.location()}/data"
    return str(said).rstrip("/")


def delete_attempts(table: IcebergTable, attempt_ids: Iterable[str]) -> None:
    """Delete what attempts have left behind that will never be published."""
    home = data_folder(table)
    if home is None:
        return
    for attempt_id in attempt_ids:
        if table.staged(attempt_id) is None:  # else its files are kept for people to look at
            table.java.io().deletePrefix(f"{home}/{attempt_id}/")


def _name(set_id: str) -> str:
    return f"{STAGING_CATALOG}.{quoted(set_id)}"


def _table_cache(session: SparkSession) -> Any:
    """The tables that the rewrite catalog finds, by reflection: py4j takes its `get` for another one."""
    jvm, gateway = jvm_of(session), session.sparkContext._gateway  # noqa: SLF001
    assert gateway is not None  # noqa: S101 - a session has one
    found = jvm.org.apache.spark.util.Utils.classForName(_TABLE_CACHE, True, False)
    get = found.getMethod("get", gateway.new_array(jvm.java.lang.Class, 0))
    return get.invoke(None, gateway.new_array(jvm.java.lang.Object, 0))
