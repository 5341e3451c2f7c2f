"""Plain Parquet files: written below the attempt's own folder, part of the table once a version names them.

The files hold all columns, those of the partition too, so that any program can read them by themselves.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so
from pyspark.sql.types import StructField, StructType

from arco.core.errors import AttemptFenced, Fenced, Invalid, Unavailable, Unknown
from arco.events.partition_name import values_of
from arco.flow.partition import PartitionSet
from arco.flow.publish.wire import FilesPublished, FilesStaged, StagedFile, TableVersionFiles
from arco.flow.spark.attempt_ids import attempts_before
from arco.flow.spark.choice import quoted
from arco.flow.spark.jvm import java_of, jvm_of
from arco.flow.spark.s3_folder import forget_folder
from arco.flow.spark.shape import TableNow, check_cut, columns_of_new_table, fit_columns
from arco.flow.spark.target import Published, Room, Staged, Target
from arco.flow.work.port import LakeColumn, LakeTable

_TRIES = 3
_UUID_CHARS = 13
_FOOTERS = 64  # more files are counted by a job, which reads their ends side by side


@dataclass(frozen=True)
class StagedFiles:
    """Files of an attempt."""

    table: LakeTable
    place: str
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


class ParquetTables:
    """Tables that are nothing but files, and a list of them that Arco keeps."""

    def __init__(self, room: Room) -> None:
        self._session = room.session
        self._lake = room.lake
        self._room = room
        self._opened: dict[str, LakeTable] = {}
        self._dropped: dict[str, tuple[str, ...]] = {}

    def read(self, table: LakeTable, chosen: PartitionSet) -> DataFrame:
        now, schema = self._lake.files(table.table_id), _schema(table)
        read = {key: files for key, files in now.files.items() if not chosen.axes or key in chosen}
        self._room.opened.setdefault(table.name, set()).update(key for key in read if read[key])
        home = now.location.rstrip("/")
        paths = [f"{home}/{each.path}" for files in read.values() for each in files]
        if not paths:
            return self._session.createDataFrame([], schema)
        return self._session.read.schema(schema).parquet(*paths)

    def storable(self, schema: StructType) -> StructType:
        return schema

    def open(self, target: Target, schema: StructType) -> StructType:
        table = self._room.find(target.table)
        if table is None:
            columns = columns_of_new_table(schema, target.table)
            table = self._lake.make(target.wanted(tuple(map(_lake_column, columns.fields))))
        else:
            table = self._fitted(table, target, schema)
        self._opened[target.table] = self._room.found[target.table] = table
        return _schema(table)

    def _fitted(self, table: LakeTable, target: Target, schema: StructType) -> LakeTable:
        """A table that is there, with columns for a result."""
        now = self._lake.files(table.table_id)
        for key, files in now.files.items():
            if files:
                check_cut(values_of(key) or {}, target)
        before = TableNow(_schema(table), bool(now.materials), not any(now.files.values()))
        plan = fit_columns(schema, before, target, self._room.changes)
        self._dropped[target.table] = plan.dropped
        if plan.retyped:
            table = self._lake.narrow(table, tuple(each.name for each in plan.retyped))
        added = (*plan.added, *plan.retyped)
        return self._lake.widen(table, tuple(map(_lake_column, added))) if added else table

    def stage(self, target: Target, frame: DataFrame) -> StagedFiles:
        table = self._opened[target.table]
        # An attempt that is carried out again must not touch what it has published the first time.
        once = str(java_of(self._session).sessionUUID())[:_UUID_CHARS]
        folder = f"data/{target.attempt.attempt_id}/{once}"
        place = f"{table.location.rstrip('/')}/{folder}"
        frame.write.parquet(place)
        forget_folder(self._session, place)
        listed = tuple(each for each in self._written(place, folder) if each.rows)
        return StagedFiles(table, place, listed, _schema(table))

    def rows_before(self, target: Target) -> int | None:
        files = self._now(target).files.get(target.partition)
        return None if files is None else sum(each.rows for each in files)

    def publish(self, target: Target, staged: Staged) -> Published:
        if not isinstance(staged, StagedFiles):
            raise Invalid(f"{target.table}: only files can be published here")
        said = FilesStaged(
            table_id=staged.table.table_id,
            attempt=target.attempt,
            # All files that a version names are of attempts, so there is nothing else to be kept.
            mode="replace_partition" if target.replaces else target.mode.kind,
            files={target.partition: staged.listed},
        )
        done = self._send(target, said)
        if dropped := self._dropped.get(target.table):
            # The catalog keeps columns apart from files: nothing is dropped before the rows are seen.
            self._room.found[target.table] = self._lake.narrow(staged.table, dropped)
        return Published(number=done.number, table_rows=done.rows, table_bytes=done.bytes)

    def keep(self, target: Target, staged: Staged) -> str:  # noqa: ARG002
        return staged.place

    def close(self) -> None:
        """What was staged stays where it is, until the janitor collects it."""

    def _send(self, target: Target, said: FilesStaged) -> FilesPublished:
        """Publish; an attempt that is published already is told so, hence asking again is safe."""
        for left in range(_TRIES - 1, -1, -1):
            try:
                return self._lake.publish(said)
            except Fenced as lost:
                now = self._now(target)
                if now.materials.get(target.partition) not in attempts_before(target.attempt):
                    raise AttemptFenced(f"{target.table}: {lost}") from lost
                return _published(now)
            except (Unknown, Unavailable):
                if not left:
                    raise
        raise AssertionError  # the last try has returned or raised

    def _now(self, target: Target) -> TableVersionFiles:
        return self._lake.files(self._opened[target.table].table_id)

    def _written(self, place: str, folder: str) -> list[StagedFile]:
        """The files below a place, with their rows."""
        path = jvm_of(self._session).org.apache.hadoop.fs.Path(place)
        conf = java_of(self._session).sessionState().newHadoopConf()
        found = [
            (each.getPath(), int(each.getLen()))
            for each in path.getFileSystem(conf).listStatus(path)
            if str(each.getPath().getName()).endswith(".parquet")
        ]
        if len(found) <= _FOOTERS:
            counts = {str(file.getName()): self._rows_of(file, conf) for file, _ in found}
        else:
            counts = self._rows_by_file(place)
        return [
            StagedFile(
                path=f"{folder}/{file.getName()}",
                rows=counts.get(str(file.getName()), 0),
                bytes=size,
            )
            for file, size in found
        ]

    def _rows_of(self, file: Any, conf: Any) -> int:
        parquet = jvm_of(self._session).org.apache.parquet.hadoop
        opened = parquet.util.HadoopInputFile.fromPath(file, conf)
        reader = parquet.ParquetFileReader.open(opened)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def _rows_by_file(self, place: str) -> dict[str, int]:
        rows = self._session.read.parquet(place).groupBy(F.col("_metadata.file_name")).count()
        return {str(name): int(count) for name, count in rows.collect()}


def _published(now: TableVersionFiles) -> FilesPublished:
    files = [each for listed in now.files.values() for each in listed]
    return FilesPublished(
        number=now.number,
        rows=sum(each.rows for each in files),
        bytes=sum(each.bytes for each in files),
        files=len(files),
    )


def _lake_column(field: StructField) -> LakeColumn:
    comment = field.metadata.get("comment") if field.metadata else None
    return LakeColumn(name=field.name, data_type=field.dataType.simpleString(), comment=comment)


def _schema(table: LakeTable) -> StructType:
    """The columns of a table in Spark's types."""
    if not table.columns:
        raise Invalid(f"{table.name} has no columns in the catalog: name them there first")
    said = ", ".join(f"{quoted(each.name)} {each.data_type}" for each in table.columns)
    schema = StructType.fromDDL(said)
    if not isinstance(schema, StructType):  # a single column without a name would be its type
        raise Invalid(f"{table.name} has columns that Spark cannot read: {said}")
    return schema
