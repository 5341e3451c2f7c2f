"""Look-ups in a state of the catalog: by name, by id or as a list.

A `Lookup` is a snapshot, or a snapshot with decided rows on top. An object is live if it and all its
containers are: the objects in a dropped schema or catalog keep their rows, so that dropping and undropping
a container of any size writes one row.
"""

from abc import ABC, abstractmethod
from typing import TypeVar

from arco.catalog.bucket import Bucket
from arco.catalog.ddl import SchemaName, TableName
from arco.catalog.location import at_or_above
from arco.catalog.model import (
    AnyRow,
    CatalogRow,
    ColumnRow,
    CommittedRow,
    ObjectKind,
    ObjectRow,
    PlaceRow,
    SchemaRow,
    SchemaVersionRow,
    TableRow,
    uuid_name,
)
from arco.catalog.state_file import RowState
from arco.core.errors import NotFound
from arco.fold.table import StateTable
from arco.fold.tier1 import CATALOGS, COLUMNS, OBJECTS, PLACES, SCHEMA_VERSIONS, SCHEMAS, TABLES

R = TypeVar("R", bound=AnyRow)

CommittedObject = CommittedRow[CatalogRow | SchemaRow | TableRow]

_FIRST_PLACES = 64  # rows of the first read below a location: usually there are none


class Lookup(ABC):
    """A state of the catalog that can be searched."""

    @abstractmethod
    async def bucket(self, table: StateTable, value: str, kind: type[R]) -> Bucket[R]:
        """The bucket of a table that holds rows with this value in the bucket's column."""

    async def catalog(self, name: str) -> CommittedRow[CatalogRow]:
        """A catalog by its name."""
        committed = (await self._catalogs()).live_row((), name)
        if committed is None:
            raise NotFound(f"there is no catalog {name!r}")
        return committed

    async def catalogs(
        self,
        *,
        after: str | None = None,
        after_id: str | None = None,
        limit: int | None = None,
        dropped: bool = False,
    ) -> list[CommittedRow[CatalogRow]]:
        """Catalogs by name, after the name `after` (of dropped ones: after that name and `after_id`)."""
        bucket, key = await self._catalogs(), None if after_id is None else (after_id,)
        return bucket.below(
            (), after=after, after_key=key, limit=limit, state=_state(dropped=dropped)
        )

    async def schema(self, name: SchemaName) -> CommittedRow[SchemaRow]:
        """A schema by its catalog and levels."""
        catalog = await self.catalog(name.catalog)
        return await self.schema_in(catalog.row.catalog_id, name.path)

    async def schema_in(self, catalog_id: str, path: tuple[str, ...]) -> CommittedRow[SchemaRow]:
        """A schema by its levels below a catalog."""
        bucket = await self._schemas()
        parent, committed = "", None
        for depth, level in enumerate(path, start=1):
            committed = bucket.live_row((catalog_id, parent), level)
            if committed is None:
                raise NotFound(f"there is no schema {'.'.join(path[:depth])!r}")
            parent = committed.row.schema_id
        if committed is None:
            raise NotFound("a schema has at least one level")
        return committed

    async def schemas(
        self,
        catalog_id: str,
        parent_id: str | None,
        *,
        after: str | None = None,
        after_id: str | None = None,
        limit: int | None = None,
        dropped: bool = False,
    ) -> list[CommittedRow[SchemaRow]]:
        """The schemas right below a catalog or a schema, by name."""
        bucket, parent = await self._schemas(), (catalog_id, parent_id or "")
        key = None if after_id is None else (after_id,)
        state = _state(dropped=dropped)
        return bucket.below(parent, after=after, after_key=key, limit=limit, state=state)

    async def table(self, name: TableName) -> CommittedRow[TableRow]:
        """A table or view by its name."""
        schema = await self.schema(SchemaName(name.catalog, name.schema))
        return await self.table_in(schema.row.schema_id, name.table)

    async def table_in(self, schema_id: str, name: str) -> CommittedRow[TableRow]:
        """A table or view by its name in a schema."""
        committed = (await self.bucket(TABLES, schema_id, TableRow)).live_row((schema_id,), name)
        if committed is None:
            raise NotFound(f"there is no table {name!r} in this schema")
        return committed

    async def tables(
        self,
        schema_id: str,
        *,
        after: str | None = None,
        after_id: str | None = None,
        limit: int | None = None,
        dropped: bool = False,
    ) -> list[CommittedRow[TableRow]]:
        """The tables and views of a schema, by name."""
        bucket = await self.bucket(TABLES, schema_id, TableRow)
        key = None if after_id is None else (schema_id, after_id)
        state = _state(dropped=dropped)
        return bucket.below((schema_id,), after=after, after_key=key, limit=limit, state=state)

    async def has_catalog(self, name: str) -> bool:
        """Whether a name is taken among the catalogs."""
        return (await self._catalogs()).live_row((), name) is not None

    async def has_schema(self, catalog_id: str, parent_id: str | None, name: str) -> bool:
        """Whether a name is taken among the schemas of a parent."""
        return (await self._schemas()).live_row((catalog_id, parent_id or ""), name) is not None

    async def has_table(self, schema_id: str, name: str) -> bool:
        """Whether a name is taken among the tables and views of a schema."""
        bucket = await self.bucket(TABLES, schema_id, TableRow)
        return bucket.live_row((schema_id,), name) is not None

    async def columns(self, table_id: str) -> list[CommittedRow[ColumnRow]]:
        """The columns of a table, by position."""
        return (await self.bucket(COLUMNS, table_id, ColumnRow)).below((table_id,))

    async def column(self, table_id: str, column_id: str) -> CommittedRow[ColumnRow] | None:
        """A column by its id, dropped or not."""
        return (await self.bucket(COLUMNS, table_id, ColumnRow)).get((table_id, column_id))

    async def schema_versions(
        self, table_id: str, *, after: int | None = None, limit: int | None = None
    ) -> list[SchemaVersionRow]:
        """The schema versions of a table, oldest first: all, or `limit` of them after a version."""
        bucket = await self.bucket(SCHEMA_VERSIONS, table_id, SchemaVersionRow)
        return [committed.row for committed in bucket.below((table_id,), after=after, limit=limit)]

    async def find(self, object_id: str, *, dropped: bool = False) -> CommittedObject:
        """An object by its id; one that is not live only with `dropped`."""
        committed = await self._row_of(object_id)
        if committed is None:
            raise NotFound(f"there is no object {object_id!r}")
        if not dropped and not await self.is_live(committed.row):
            raise NotFound(f"object {object_id!r} was dropped")
        return committed

    async def table_by_uuid(self, table_uuid: str) -> CommittedRow[TableRow] | None:
        """The table that Iceberg clients know by a uuid, which may differ from its id; not dropped ones."""
        sought_uuid = table_uuid.lower()
        alias = (await self.bucket(OBJECTS, uuid_name(sought_uuid), ObjectRow)).get(
            (uuid_name(sought_uuid),)
        )
        for object_id in (None if alias is None else alias.row.parent_id, sought_uuid):
            committed = None if object_id is None else await self._row_of(object_id)
            if committed is None or not isinstance(committed.row, TableRow):
                continue
            row = committed.row
            if row.dropped_at is None and sought_uuid == (row.table_uuid or row.table_id):
                return CommittedRow(row, committed.commit)
        return None

    async def has_object(self, object_id: str) -> bool:
        """Whether an object with this id exists, dropped or not."""
        return (await self.bucket(OBJECTS, object_id, ObjectRow)).get((object_id,)) is not None

    async def is_held(self, table_id: str) -> bool:
        """Whether a table keeps its locations: it was not dropped, or its files are being deleted."""
        committed = await self._row_of(table_id)
        if committed is None:
            return False
        row = committed.row
        return row.dropped_at is None or (isinstance(row, TableRow) and row.location is None)

    async def place(self, location: str, table_id: str) -> CommittedRow[PlaceRow] | None:
        """The record that a table has, or had, files at a location."""
        return (await self._places()).get((location, table_id))

    async def places_of(self, table_id: str) -> list[CommittedRow[PlaceRow]]:
        """The recorded locations of a table that is not dropped. Scans all locations."""
        bucket = await self._places()
        return [each for each in bucket.below(()) if each.row.table_id == table_id]

    async def places_around(self, location: str) -> list[CommittedRow[PlaceRow]]:
        """The recorded locations that equal, contain or are inside this one."""
        bucket = await self._places()
        rows = [each for outer in at_or_above(location) for each in bucket.every((), outer)]
        limit = _FIRST_PLACES
        while True:
            after = bucket.below((), after=location, limit=limit)
            inside = [each for each in after if each.row.location.startswith(location)]
            if len(inside) < limit:
                return rows + inside
            limit *= 8

    async def is_live(self, row: CatalogRow | SchemaRow | TableRow) -> bool:
        """Whether neither an object nor one of its containers was dropped."""
        while row.dropped_at is None:
            container = await self.container(row)
            if container is None:
                return isinstance(row, CatalogRow)
            row = container.row
        return False

    async def container(
        self, row: CatalogRow | SchemaRow | TableRow
    ) -> CommittedRow[CatalogRow] | CommittedRow[SchemaRow] | None:
        """The schema or catalog of an object, dropped or not."""
        if isinstance(row, TableRow):
            return (await self._schemas()).get((row.schema_id,))
        if isinstance(row, SchemaRow) and row.parent_id is not None:
            return (await self._schemas()).get((row.parent_id,))
        if isinstance(row, SchemaRow):
            return (await self._catalogs()).get((row.catalog_id,))
        return None

    async def catalog_by_id(self, catalog_id: str) -> CommittedRow[CatalogRow] | None:
        """A catalog by its id, dropped or not."""
        return (await self._catalogs()).get((catalog_id,))

    async def schema_by_id(self, schema_id: str) -> CommittedRow[SchemaRow] | None:
        """A schema by its id, dropped or not."""
        return (await self._schemas()).get((schema_id,))

    async def levels(self, row: CatalogRow | SchemaRow | TableRow) -> tuple[str, ...]:
        """The full name of an object: its catalog, the levels of its schema, its own name."""
        if isinstance(row, CatalogRow):
            return (row.name,)
        catalog = await self.catalog_by_id(row.catalog_id)
        top = () if catalog is None else (catalog.row.name,)
        if isinstance(row, SchemaRow):
            return (*top, *row.path)
        schema = await self.schema_by_id(row.schema_id)
        return (*top, *(() if schema is None else schema.row.path), row.name)

    async def _row_of(self, object_id: str) -> CommittedObject | None:
        object_row = (await self.bucket(OBJECTS, object_id, ObjectRow)).get((object_id,))
        if object_row is None:
            return None
        if object_row.row.kind is ObjectKind.CATALOG:
            return await self.catalog_by_id(object_id)
        if object_row.row.kind is ObjectKind.SCHEMA:
            return await self.schema_by_id(object_id)
        schema_id = object_row.row.bucket_key
        return (await self.bucket(TABLES, schema_id, TableRow)).get((schema_id, object_id))

    async def _catalogs(self) -> Bucket[CatalogRow]:
        return await self.bucket(CATALOGS, "", CatalogRow)

    async def _schemas(self) -> Bucket[SchemaRow]:
        return await self.bucket(SCHEMAS, "", SchemaRow)

    async def _places(self) -> Bucket[PlaceRow]:
        return await self.bucket(PLACES, "", PlaceRow)


def _state(*, dropped: bool) -> RowState:
    return RowState.DROPPED if dropped else RowState.LIVE
