"""Tables of plain Parquet files: staged in a folder of the attempt, published when a version lists them.

The files hold all columns, also those of the partition, so that any program can read them without Arco.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructField, StructType

from arco.core.errors import AttemptFenced, Fenced, Invalid, Unavailable, Unknown
from arco.events.partition_key import parse_partition_key
from arco.flow.partition import PartitionSet
from arco.flow.publish.wire import FilesPublished, FilesStaged, StagedFile, TableVersionFiles
from arco.flow.spark.jvm import java_session, jvm_of, quote_name
from arco.flow.spark.schema_evolution import (
    ExistingTable,
    check_partitioning,
    columns_of_new_table,
    fit_columns,
)
from arco.flow.spark.table_format import (
    PublishedVersion,
    StagedData,
    TableContext,
    WriteTarget,
    attempt_folder,
    attempt_ids_until,
)
from arco.flow.worker.ports import CatalogColumn, CatalogTable

_TRIES = 3
_S3A_FILE_SYSTEM = "S3AFileSystem"
_MAX_FOOTERS = 64  # a Spark job counts the rows of more files in parallel


@dataclass(frozen=True)
class StagedParquetFiles:
    """Parquet files of an attempt."""

    table: CatalogTable
    location: str
    listed: tuple[StagedFile, ...]
    schema: StructType

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.listed)

    @property
    def files(self) -> int:
        return len(self.listed)

    def rows(self, session: SparkSession) -> DataFrame:
        return self.frame(session)

    def frame(self, session: SparkSession) -> DataFrame:
        if not self.listed:
            return session.createDataFrame([], self.schema)
        root = self.table.location.rstrip("/")
        return session.read.schema(self.schema).parquet(
            *(f"{root}/{each.path}" for each in self.listed)
        )


class ParquetFormat:
    """Tables that are Parquet files, with a list of the files in the catalog."""

    def __init__(self, table_context: TableContext) -> None:
        self._session = table_context.session
        self._catalog = table_context.catalog
        self._table_context = table_context
        self._opened: dict[str, CatalogTable] = {}
        self._dropped: dict[str, tuple[str, ...]] = {}

    def read(self, table: CatalogTable, chosen: PartitionSet) -> DataFrame:
        current_files, schema = self._catalog.files(table.table_id), _schema(table)
        files_by_key = {
            key: files
            for key, files in current_files.files.items()
            if not chosen.axes or key in chosen
        }
        self._table_context.opened.setdefault(table.name, set()).update(
            key for key in files_by_key if files_by_key[key]
        )
        root = current_files.location.rstrip("/")
        paths = [f"{root}/{each.path}" for files in files_by_key.values() for each in files]
        if not paths:
            return self._session.createDataFrame([], schema)
        return self._session.read.schema(schema).parquet(*paths)

    def storable(self, schema: StructType) -> StructType:
        return schema

    def open(self, target: WriteTarget, schema: StructType) -> StructType:
        table = self._table_context.find(target.table)
        if table is None:
            columns = columns_of_new_table(schema, target.table)
            new_columns = tuple(map(_catalog_column, columns.fields))
            table = self._catalog.make(target.table_definition(new_columns))
        else:
            table = self._fit(table, target, schema)
        self._opened[target.table] = self._table_context.tables[target.table] = table
        return _schema(table)

    def _fit(self, table: CatalogTable, target: WriteTarget, schema: StructType) -> CatalogTable:
        """An existing table, with columns for a result."""
        current_files = self._catalog.files(table.table_id)
        for key, files in current_files.files.items():
            if files:
                check_partitioning(parse_partition_key(key) or {}, target)
        is_empty = not any(current_files.files.values())
        existing = ExistingTable(_schema(table), bool(current_files.materials), is_empty)
        plan = fit_columns(schema, existing, target, self._table_context.changes)
        self._dropped[target.table] = plan.dropped
        if plan.retyped:
            table = self._catalog.narrow(table, tuple(each.name for each in plan.retyped))
        added = (*plan.added, *plan.retyped)
        return self._catalog.widen(table, tuple(map(_catalog_column, added))) if added else table

    def stage(self, target: WriteTarget, frame: DataFrame) -> StagedParquetFiles:
        table = self._opened[target.table]
        folder = f"data/{attempt_folder(self._session, target.attempt.attempt_id)}"
        location = f"{table.location.rstrip('/')}/{folder}"
        frame.write.parquet(location)
        _delete_folder_marker(self._session, location)
        listed = tuple(each for each in self._list_files(location, folder) if each.rows)
        return StagedParquetFiles(table, location, listed, _schema(table))

    def rows_before(self, target: WriteTarget) -> int | None:
        files = self._current_files(target).files.get(target.partition)
        return None if files is None else sum(each.rows for each in files)

    def publish(self, target: WriteTarget, staged: StagedData) -> PublishedVersion:
        if not isinstance(staged, StagedParquetFiles):
            raise Invalid(f"{target.table}: only Parquet files can be published to it")
        request = FilesStaged(
            table_id=staged.table.table_id,
            attempt=target.attempt,
            # All files of a version were written by attempts, so there are no others to keep.
            mode="replace_partition" if target.replaces else target.mode.kind,
            files={target.partition: staged.listed},
        )
        published = self._send(target, request)
        if dropped := self._dropped.get(target.table):
            # Columns and files are separate changes: columns are dropped after the rows are published.
            self._table_context.tables[target.table] = self._catalog.narrow(staged.table, dropped)
        return PublishedVersion(
            number=published.number, table_rows=published.rows, table_bytes=published.bytes
        )

    def keep(self, target: WriteTarget, staged: StagedData) -> str:  # noqa: ARG002
        return staged.location

    def close(self) -> None:
        """Staged files stay until garbage collection deletes them."""

    def _send(self, target: WriteTarget, request: FilesStaged) -> FilesPublished:
        """Publish; a retry is safe, as the catalog answers that an attempt is published already."""
        for tries_left in range(_TRIES - 1, -1, -1):
            try:
                return self._catalog.publish(request)
            except Fenced as fenced:
                current_files = self._current_files(target)
                if current_files.materials.get(target.partition) not in attempt_ids_until(
                    target.attempt
                ):
                    raise AttemptFenced(f"{target.table}: {fenced}") from fenced
                return _published(current_files)
            except (Unknown, Unavailable):
                if not tries_left:
                    raise
        raise AssertionError  # the last try has returned or raised

    def _current_files(self, target: WriteTarget) -> TableVersionFiles:
        return self._catalog.files(self._opened[target.table].table_id)

    def _list_files(self, location: str, folder: str) -> list[StagedFile]:
        """The files below a location, with their rows."""
        path = jvm_of(self._session).org.apache.hadoop.fs.Path(location)
        conf = java_session(self._session).sessionState().newHadoopConf()
        files = [
            (each.getPath(), int(each.getLen()))
            for each in path.getFileSystem(conf).listStatus(path)
            if str(each.getPath().getName()).endswith(".parquet")
        ]
        if len(files) <= _MAX_FOOTERS:
            counts = {str(file.getName()): self._rows_of(file, conf) for file, _ in files}
        else:
            counts = self._rows_by_file(location)
        return [
            StagedFile(
                path=f"{folder}/{file.getName()}",
                rows=counts.get(str(file.getName()), 0),
                bytes=size,
            )
            for file, size in files
        ]

    def _rows_of(self, file: Any, conf: Any) -> int:
        parquet = jvm_of(self._session).org.apache.parquet.hadoop
        opened = parquet.util.HadoopInputFile.fromPath(file, conf)
        reader = parquet.ParquetFileReader.open(opened)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def _rows_by_file(self, location: str) -> dict[str, int]:
        rows = self._session.read.parquet(location).groupBy(F.col("_metadata.file_name")).count()
        return {str(name): int(count) for name, count in rows.collect()}


def _published(current_files: TableVersionFiles) -> FilesPublished:
    files = [each for listed in current_files.files.values() for each in listed]
    return FilesPublished(
        number=current_files.number,
        rows=sum(each.rows for each in files),
        bytes=sum(each.bytes for each in files),
        files=len(files),
    )


def _catalog_column(field: StructField) -> CatalogColumn:
    comment = field.metadata.get("comment") if field.metadata else None
    return CatalogColumn(name=field.name, data_type=field.dataType.simpleString(), comment=comment)


def _schema(table: CatalogTable) -> StructType:
    """The columns of a table in Spark's types."""
    if not table.columns:
        raise Invalid(f"{table.name} has no columns in the catalog: add them there first")
    ddl = ", ".join(f"{quote_name(each.name)} {each.data_type}" for each in table.columns)
    schema = StructType.fromDDL(ddl)
    if not isinstance(schema, StructType):  # a single column without a name would be its type
        raise Invalid(f"{table.name} has columns that Spark cannot read: {ddl}")
    return schema


def _delete_folder_marker(session: SparkSession, location: str) -> None:
    """Delete the empty object by which Spark marks a folder on S3.

    No reader needs it, and garbage collection, which lists by folders, would not find it.
    """
    jvm, parts = jvm_of(session), urlsplit(location)
    path = jvm.org.apache.hadoop.fs.Path(location)
    file_system = path.getFileSystem(java_session(session).sessionState().newHadoopConf())
    if str(file_system.getClass().getSimpleName()) != _S3A_FILE_SYSTEM:
        return
    request = jvm.software.amazon.awssdk.services.s3.model.DeleteObjectRequest.builder()
    request = request.bucket(parts.netloc).key(f"{parts.path.strip('/')}/").build()
    file_system.getS3AInternals().getAmazonS3Client("arco").deleteObject(request)
