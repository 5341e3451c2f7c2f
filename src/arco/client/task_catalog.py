"""The catalog that tasks use: tables and their files, read and changed through the native API."""

from threading import Lock
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from arco.catalog.location import LOCATION_ROOT
from arco.client.client import Arco
from arco.client.models import ColumnDefinition, TableInfo
from arco.client.object_name import ObjectName, parse_table
from arco.client.transport import ICEBERG
from arco.core import json
from arco.core.errors import AlreadyExists, Invalid, NotFound, Unavailable
from arco.flow.worker.ports import CatalogColumn, CatalogStore, CatalogTable, NewCatalogTable

if TYPE_CHECKING:
    from arco.core.runtime import Runtime
    from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles

PARTITION_COLUMNS = "partition_columns"  # a property of tables that pipelines create

_TRIES = 5


class _IcebergConfig(msgspec.Struct):
    """The configuration of Iceberg clients."""

    defaults: dict[str, str]


class HttpTaskCatalog:
    """The catalog of a running server; implements `flow.worker.ports.TaskCatalog`. Threads may share it."""

    def __init__(self, url: str, runtime: "Runtime", *, token: str | None = None) -> None:
        self.arco = Arco(url, token, runtime=runtime)
        self._lock = Lock()
        self._described: set[tuple[str, NewCatalogTable]] = set()

    def close(self) -> None:
        """Close the connections."""
        self.arco.close()

    def find(self, table: str) -> CatalogTable | None:
        info = self._get(table)
        return None if info is None else _catalog_table(table, info)

    def make(self, wanted: NewCatalogTable) -> CatalogTable:
        properties = {}
        if wanted.partition_columns:
            properties[PARTITION_COLUMNS] = ",".join(wanted.partition_columns)
        for _ in range(_TRIES):
            try:
                self.arco.tables.create(
                    wanted.name,
                    format=wanted.format,
                    columns=[_definition(each) for each in wanted.columns],
                    comment=wanted.comment,
                    owner=wanted.owner,
                    tags=wanted.tags,
                    properties=properties,
                )
            except NotFound:
                self._create_schema(parse_table(wanted.name).parent)
                continue
            except AlreadyExists:
                pass  # another task of the asset was first
            table = self.find(wanted.name)
            if table is not None:
                return table
        raise Unavailable(
            f"{wanted.name} could not be created: another process keeps dropping it; retry"
        )

    def make_schema(self, table: str) -> None:
        self._create_schema(parse_table(table).parent)

    def widen(self, table: CatalogTable, columns: tuple[CatalogColumn, ...]) -> CatalogTable:
        if not _missing(table, columns):
            return table
        for _ in range(_TRIES):
            current = self._existing(table.name)
            missing = _missing(current, columns)
            if not missing:
                return current
            try:
                self.arco.columns.add(table.name, missing)
            except (AlreadyExists, Invalid):
                reread = self.find(table.name)
                if reread is None or _missing(reread, columns) == missing:
                    raise  # no other task was first: the change itself is wrong
        raise Unavailable(f"the columns of {table.name} change all the time: try again")

    def narrow(self, table: CatalogTable, columns: tuple[str, ...]) -> CatalogTable:
        for name in columns:
            try:
                self.arco.columns.drop(table.name, name)
            except NotFound:
                continue  # another task of the same asset has dropped it
        return self._existing(table.name)

    def describe(self, table: CatalogTable, wanted: NewCatalogTable) -> None:
        described = (table.table_id, msgspec.structs.replace(wanted, columns=()))
        with self._lock:
            if described in self._described:
                return
        info = self._get(table.name)
        if info is not None:
            self._update(table.name, info, wanted)
        with self._lock:
            self._described.add(described)

    def files(self, table_id: str) -> "TableVersionFiles":
        return self.arco.tables.files_of(table_id)

    def publish(self, staged: "FilesStaged") -> "FilesPublished":
        return self.arco.tables.publish_files(staged)

    def store(self) -> CatalogStore:
        """Where managed tables lie, and how clients reach it."""
        raw = self.arco.transport.get("/v1/config", below=ICEBERG)
        defaults = json.decode(raw, _IcebergConfig).defaults
        settings = {name: value for name, value in defaults.items() if name != LOCATION_ROOT}
        return CatalogStore(location=defaults.get(LOCATION_ROOT, ""), settings=settings)

    def _get(self, table: str) -> TableInfo | None:
        try:
            return self.arco.tables.get(table)
        except NotFound:
            return None

    def _existing(self, table: str) -> CatalogTable:
        existing = self.find(table)
        if existing is None:
            raise NotFound(f"there is no table {table}: it was dropped meanwhile")
        return existing

    def _create_schema(self, schema: ObjectName) -> None:
        """Create a schema, and those that it lies in."""
        for depth in range(1, len(schema.schema) + 1):
            try:
                self.arco.schemas.create(ObjectName(schema.catalog, schema.schema[:depth]))
            except AlreadyExists:
                continue

    def _update(self, table: str, info: TableInfo, wanted: NewCatalogTable) -> None:
        """Change what a definition gives and the catalog has otherwise; the rest is left to people."""
        comment = UNSET if wanted.comment in (None, info.comment) else wanted.comment
        owner = UNSET if wanted.owner in (None, info.owner) else wanted.owner
        missing = [tag for tag in wanted.tags if tag not in info.tags]
        tags = [*info.tags, *missing] if missing else UNSET
        if (comment, owner, tags) != (UNSET, UNSET, UNSET):
            self.arco.tables.update(table, comment=comment, owner=owner, tags=tags)


def _missing(table: CatalogTable, columns: tuple[CatalogColumn, ...]) -> list[ColumnDefinition]:
    existing = {each.name for each in table.columns}
    return [_definition(each) for each in columns if each.name not in existing]


def _definition(column: CatalogColumn) -> ColumnDefinition:
    return ColumnDefinition(
        name=column.name,
        data_type=column.data_type,
        nullable=column.nullable,
        comment=column.comment,
    )


def _catalog_table(name: str, info: TableInfo) -> CatalogTable:
    return CatalogTable(
        name=name,
        table_id=info.id,
        format=(info.format or "").lower(),
        location=info.location or "",
        columns=tuple(
            CatalogColumn(
                name=each.name,
                data_type=each.data_type,
                column_id=each.id,
                nullable=each.nullable,
                comment=each.comment,
                pii_type=each.pii_type,
            )
            for each in info.columns
        ),
    )
