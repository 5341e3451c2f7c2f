"""Iceberg tables and catalogs by Iceberg's Java library, which Spark has loaded: definitions and commits.

Rows are read and written by Spark.
"""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from arco.catalog.name import parse_dotted
from arco.catalog.publication import ATTEMPT_PROPERTY
from arco.flow.spark.jvm import is_raised_by, java_session, jvm_of

WAP_ID = "wap.id"

_MAX_ANCESTORS = 1_000
_TRIES = 5


class IcebergTable:
    """A loaded table; `refresh` loads its newest version."""

    def __init__(self, java: Any, iceberg: Any) -> None:
        """`java` is the table, `iceberg` the package of Iceberg in the JVM."""
        self.java = java
        self._iceberg = iceberg

    @property
    def current(self) -> Any | None:
        """The current snapshot, if there is one."""
        return self.java.currentSnapshot()

    @property
    def has_other_columns(self) -> bool:
        """Whether columns changed after the current snapshot, which Spark would read with the old ones."""
        snapshot = self.current
        schema_id = None if snapshot is None else snapshot.schemaId()
        return schema_id is not None and int(schema_id) != int(self.java.schema().schemaId())

    @property
    def number(self) -> int:
        """The number of the version, with which the catalog begins the names of metadata files."""
        location = str(self.java.operations().current().metadataFileLocation())
        return int(location.rpartition("/")[2].partition("-")[0])

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns whose values partition it; none if it has other transforms or no partitions."""
        spec, schema = self.java.spec(), self.java.schema()
        fields = [spec.fields().get(at) for at in range(spec.fields().size())]
        if not all(each.transform().isIdentity() for each in fields):
            return ()
        return tuple(str(schema.findColumnName(each.sourceId())) for each in fields)

    @property
    def was_published(self) -> bool:
        """Whether an attempt of a pipeline has published to it, according to its snapshots."""
        current = self.current
        return current is not None and any(
            each.summary().get(ATTEMPT_PROPERTY) is not None
            and (each.summary().get(WAP_ID) is None or each.snapshotId() == current.snapshotId())
            for each in self.snapshots()
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows."""
        current = self.current
        return current is None or current.summary().get("total-records") == "0"

    def is_partitioned_differently(self, columns: tuple[str, ...]) -> bool:
        """Whether it is not partitioned by the values of exactly these columns."""
        return {each.lower() for each in self.partition_columns} != {
            each.lower() for each in columns
        }

    def type_of(self, column: str) -> str | None:
        """Iceberg's name of the type of a column; None if there is no such column."""
        field = self.java.schema().caseInsensitiveFindField(column)
        return None if field is None else str(field.type())

    def columns(self) -> StructType:
        """Its columns in Spark's types."""
        spark = self._iceberg.spark.SparkSchemaUtil.convert(self.java.schema())
        return StructType.fromJson(json.loads(str(spark.json())))

    def refresh(self) -> None:
        """Load the newest version."""
        self.java.refresh()

    def snapshots(self) -> Iterator[Any]:
        """All snapshots, the newest first."""
        snapshots = self.java.operations().current().snapshots()
        for at in range(snapshots.size() - 1, -1, -1):
            yield snapshots.get(at)

    def staged(self, wap_id: str) -> Any | None:
        """The snapshot that was staged under an id."""
        for snapshot in self.snapshots():
            if snapshot.summary().get(WAP_ID) == wap_id:
                return snapshot
        return None

    def published(self, attempt_ids: Collection[str]) -> Any | None:
        """The snapshot that publishes one of these attempts, if it is among the latest ancestors."""
        snapshot = self.current
        for _ in range(_MAX_ANCESTORS):
            if snapshot is None or attempt_id_of(snapshot) in attempt_ids:
                break
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.java.snapshot(parent)
        else:
            return None
        return snapshot

    def foreign_files(self, row_filter: Any) -> list[str]:
        """The files that may hold such rows and that no attempt has added.

        A file belongs to the snapshot with its sequence number. Files of expired snapshots count as those
        of attempts: planning has checked them before.
        """
        foreign = {
            int(each.sequenceNumber()) for each in self.snapshots() if attempt_id_of(each) is None
        }
        if not foreign or self.current is None:
            return []
        locations: list[str] = []
        tasks = self.java.newScan().filter(row_filter).planFiles().iterator()
        try:
            while tasks.hasNext():
                task = tasks.next()
                files = [task.file(), *task.deletes()]
                locations += [str(each.location()) for each in files if _added_in(each) in foreign]
        finally:
            tasks.close()
        return sorted(set(locations))


def _added_in(file: Any) -> int:
    """The sequence number of the snapshot that added a file; 0 in tables of format version 1."""
    number = file.fileSequenceNumber()
    return 0 if number is None else int(number)


def attempt_id_of(snapshot: Any) -> str | None:
    """The attempt that a snapshot publishes, if one does."""
    attempt = snapshot.summary().get(ATTEMPT_PROPERTY)
    if attempt is None:
        return None
    try:
        decoded = json.loads(attempt)
    except ValueError:
        return None
    return decoded.get("attempt_id") if isinstance(decoded, dict) else None


class IcebergCatalogs:
    """The catalogs of a session, to load, create and change tables."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._jvm = jvm_of(session)

    def load(self, table: str) -> IcebergTable | None:
        """A table by its full name, if there is one."""
        catalog, identifier = self._resolve(table)
        try:
            return self._table(catalog.loadTable(identifier))
        except Exception as problem:
            if is_raised_by(problem, "NoSuchTableException", "NoSuchNamespaceException"):
                return None
            raise

    def create_table(
        self, table: str, schema: StructType, partition_columns: tuple[str, ...]
    ) -> IcebergTable:
        """Create a table and its schema, unless they exist."""
        catalog, identifier = self._resolve(table)
        columns = self._columns(schema)
        spec = self._jvm.org.apache.iceberg.PartitionSpec.builderFor(columns)
        for name in partition_columns:
            spec = spec.identity(name)
        self._create_namespace(catalog, identifier.namespace())
        builder = catalog.buildTable(identifier, columns).withPartitionSpec(spec.build())
        try:
            return self._table(builder.create())
        except Exception as problem:
            if not is_raised_by(problem, "AlreadyExistsException"):
                raise
            return self._table(catalog.loadTable(identifier))

    def repartition(self, table: IcebergTable, partition_columns: tuple[str, ...]) -> None:
        """Partition a table without rows by other columns, which it has."""
        update = table.java.updateSpec()
        for name in table.partition_columns:
            if name not in partition_columns:
                update = update.removeField(name)
        for name in partition_columns:
            if name not in table.partition_columns:
                update = update.addField(name)
        update.commit()
        table.refresh()

    def drop_empty_columns(self, table: IcebergTable, names: tuple[str, ...]) -> None:
        """Drop columns of a table without rows, unless another task has changed their type meanwhile."""
        types = {name: table.type_of(name) for name in names}

        def delete_columns() -> Any:
            update = table.java.updateSchema()
            for name in names:
                if table.type_of(name) == types[name]:
                    update = update.deleteColumn(name)
            return update

        _commit_columns(table, delete_columns)

    def widen(self, table: IcebergTable, fields: tuple[StructField, ...]) -> None:
        """Add columns, unless another task has added them meanwhile."""
        columns = self._columns(StructType(list(fields)))
        _commit_columns(table, lambda: table.java.updateSchema().unionByNameWith(columns))

    def _table(self, java: Any) -> IcebergTable:
        return IcebergTable(java, self._jvm.org.apache.iceberg)

    def _columns(self, schema: StructType) -> Any:
        struct = self._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
        return self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(struct)

    def _create_namespace(self, catalog: Any, namespace: Any) -> None:
        if catalog.namespaceExists(namespace):
            return
        try:
            catalog.createNamespace(namespace)
        except Exception as problem:
            if not is_raised_by(problem, "AlreadyExistsException"):
                raise

    def _resolve(self, table: str) -> tuple[Any, Any]:
        """The catalog of a table, and its identifier there."""
        catalog, *levels, name = parse_dotted(table)
        manager = java_session(self._session).sessionState().catalogManager()
        gateway = self._session.sparkContext._gateway  # noqa: SLF001 - pyspark has no public access
        assert gateway is not None  # noqa: S101 - a session has one
        array = gateway.new_array(self._jvm.java.lang.String, len(levels))
        for at, level in enumerate(levels):
            array[at] = level
        namespace = self._jvm.org.apache.iceberg.catalog.Namespace.of(array)
        identifier = self._jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, name)
        return manager.catalog(catalog).icebergCatalog(), identifier


def _commit_columns(table: IcebergTable, change: Callable[[], Any]) -> None:
    """Commit a change of columns; attempts at other partitions commit the same at the same time."""
    for tries_left in range(_TRIES - 1, -1, -1):
        try:
            change().commit()
        except Exception as problem:
            if not tries_left or not is_raised_by(problem, "CommitFailedException"):
                raise
            table.refresh()
        else:
            break
    table.refresh()


def storable(data_type: DataType) -> DataType:
    """The type that Iceberg has for one of Spark's: it has no smaller integers than `int`."""
    if isinstance(data_type, ByteType | ShortType):
        return IntegerType()
    if isinstance(data_type, StringType):
        return StringType()
    if isinstance(data_type, ArrayType):
        return ArrayType(storable(data_type.elementType))
    if isinstance(data_type, MapType):
        return MapType(storable(data_type.keyType), storable(data_type.valueType))
    if isinstance(data_type, StructType):
        return storable_schema(data_type)
    return data_type


def storable_schema(schema: StructType) -> StructType:
    """A struct with storable fields, which may all be null."""
    return StructType(
        [StructField(each.name, storable(each.dataType), True, each.metadata) for each in schema]
    )
