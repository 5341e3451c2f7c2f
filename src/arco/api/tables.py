"""Handlers of tables."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from arco.api.desk import Desk, Rendered, found_in, many, one, url
from arco.api.etag import expected_version
from arco.api.limits import MOST_COLUMNS
from arco.api.paging import Token, cut, place, unpack_number, unpack_place
from arco.api.query_params import AtQuery, PageQuery, Query, TableListQuery
from arco.api.render import table_thing
from arco.api.route import Call, Reply
from arco.api.wire import (
    NewColumn,
    NewTable,
    SchemaVersion,
    SchemaVersionPage,
    TableChanges,
    TablePage,
    TableThing,
)
from arco.catalog.ddl import ColumnSpec, CreateTable, DropTable, SchemaName, TableName, UpdateTable
from arco.catalog.done import Done
from arco.catalog.model import ColumnRow, Found, SchemaVersionRow, TableRow
from arco.catalog.name import join_levels, split_levels
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.fold.tier1 import COLUMNS

_AT_ONCE = 8  # tables or versions that are decoded without letting others have their turn


class Tables:
    """Tables and views."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, call: Call[Query, NewTable]) -> Reply:
        """Make a table."""
        body, catalog, schema = call.body, call.names["catalog"], levels_of(call)
        ddl = CreateTable(
            schema=SchemaName(catalog, schema),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=body.tags,
            owner=body.owner,
            format=body.format,
            location=body.location,
            columns=tuple(spec_of(column) for column in body.columns),
        )
        return await self._desk.carry_out(
            call,
            ddl,
            Rendered(
                201,
                lambda done: self._thing(done, catalog, schema),
                lambda done: table_url(catalog, schema, done.object.row.name),
            ),
        )

    async def page(self, call: Call[TableListQuery, None]) -> Reply:
        """List the tables of a schema."""
        query, catalog, schema = call.query, call.names["catalog"], levels_of(call)
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        parent = await snapshot.schema(SchemaName(catalog, schema))
        after, behind = unpack_place(token)
        found = await snapshot.tables(
            parent.row.schema_id,
            after=after,
            behind=behind,
            limit=query.page_size + 1,
            dropped=query.dropped,
        )

        def key(each: Found[TableRow]) -> str:
            return place(each.row.name, each.row.table_id, dropped=query.dropped)

        rows, last = cut(found, query.page_size, key)
        rows = [each for each in rows if not await self._desk.is_dead(call, each.row)]
        columns: Sequence[Sequence[ColumnRow] | None] = [None] * len(rows)
        if query.include == "columns":
            columns = await self._columns(snapshot, rows)
            if len(columns) < len(rows):
                rows = rows[: len(columns)]
                last = key(rows[-1])
        page = TablePage(
            items=tuple(
                table_thing(each, catalog, schema, held, root=self._desk.services.location_root)
                for each, held in zip(rows, columns, strict=True)
            ),
            next_page_token=None if last is None else Token(snapshot.number, last).pack(),
        )
        return many(page, snapshot, tagged=not call.asked)

    async def _columns(
        self, snapshot: Snapshot, rows: list[Found[TableRow]]
    ) -> list[list[ColumnRow]]:
        """The columns of the first tables, of as many as one page may tell of."""
        tasks = self._desk.services.runtime.tasks
        # What is not in memory yet is read at once; decoding goes by the budget.
        shelves = await tasks.gather(
            *(snapshot.shelf(COLUMNS, each.row.table_id, ColumnRow) for each in rows)
        )
        told: list[list[ColumnRow]] = []
        count = 0
        for shelf, table in zip(shelves, rows, strict=True):
            told.append([found.row for found in shelf.below((table.row.table_id,))])
            count += len(told[-1])
            if count >= MOST_COLUMNS:
                break
            if len(told) % _AT_ONCE == 0:
                await tasks.turn()
        return told

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One table with its columns."""
        name = name_of(call)
        snapshot = await self._desk.reads.at(call.query.as_of, call.head)
        found = await snapshot.table(name)
        await self._desk.refuse_dead(call, found.row)
        columns = await columns_of(snapshot, found.row.table_id)
        root = self._desk.services.location_root
        thing = table_thing(found, name.catalog, name.schema, columns, root=root)
        return one(thing, found)

    async def update(self, call: Call[Query, TableChanges]) -> Reply:
        """Rename, describe or move a table."""
        body, target = call.body, name_of(call)
        ddl = UpdateTable(
            target=target,
            expected=expected_version(call.header(b"if-match")),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=() if body.tags is None else body.tags,
            owner=body.owner,
            catalog=body.catalog,
            schema=body.schema,
        )
        catalog = target.catalog if body.catalog is UNSET else body.catalog
        schema = target.schema if body.schema is UNSET else body.schema
        rendered = Rendered(200, lambda done: self._thing(done, catalog, schema))
        return await self._desk.carry_out(call, ddl, rendered)

    async def drop(self, call: Call[Query, None]) -> Reply:
        """Drop a table."""
        ddl = DropTable(target=name_of(call), expected=expected_version(call.header(b"if-match")))
        return await self._desk.carry_out(call, ddl, Rendered(204))

    async def schema_history(self, call: Call[PageQuery, None]) -> Reply:
        """All versions of a table's columns, newest first."""
        query = call.query
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        table = await snapshot.table(name_of(call))
        await self._desk.refuse_dead(call, table.row)
        newest = table.row.schema_version
        top = newest if token is None else min(newest, unpack_number(token) - 1)
        items = await self._versions(snapshot, table.row.table_id, top, query.page_size)
        rest = items[-1].version if items and items[-1].version > 1 else None
        page = SchemaVersionPage(
            items=tuple(items),
            next_page_token=None if rest is None else Token(snapshot.number, str(rest)).pack(),
        )
        return many(page, snapshot)

    async def _versions(
        self, snapshot: Snapshot, table_id: str, top: int, limit: int
    ) -> list[SchemaVersion]:
        """The versions from `top` downwards, a few at a time, as many as one page may tell of."""
        told: list[SchemaVersion] = []
        count = 0
        while top > 0:
            below = max(0, top - _AT_ONCE)
            for row in reversed(
                await snapshot.schema_versions(table_id, after=below, limit=top - below)
            ):
                told.append(_version(row))
                count += len(told[-1].columns)
                if len(told) == limit or count >= MOST_COLUMNS:
                    return told
            top = below
            await self._desk.services.runtime.tasks.turn()
        return told

    def _thing(self, done: Done, catalog: str, schema: tuple[str, ...]) -> TableThing:
        found, root = found_in(done, TableRow), self._desk.services.location_root
        return table_thing(found, catalog, schema, done.columns, root=root)


async def columns_of(snapshot: Snapshot, table_id: str) -> list[ColumnRow]:
    """The rows of a table's columns, by position."""
    return [found.row for found in await snapshot.columns(table_id)]


def levels_of(call: Call[Any, Any]) -> tuple[str, ...]:
    """The levels of the schema that the path names."""
    return split_levels(call.names["schema"])


def name_of(call: Call[Any, Any]) -> TableName:
    """The table that the path names."""
    return TableName(call.names["catalog"], levels_of(call), call.names["table"])


def spec_of(column: NewColumn) -> ColumnSpec:
    """A column as the catalog is asked for it."""
    return ColumnSpec(
        name=column.name,
        data_type=column.data_type,
        nullable=column.nullable,
        comment=column.comment,
        default_value=column.default_value,
        pii_type=column.pii_type,
        sensitivity=column.sensitivity,
    )


def table_url(catalog: str, schema: tuple[str, ...], table: str) -> str:
    """The URL of a table."""
    return url("catalogs", catalog, "schemas", join_levels(schema), "tables", table)


def _version(row: SchemaVersionRow) -> SchemaVersion:
    return SchemaVersion(
        version=row.version,
        changes=json.decode(row.changes.encode(), list),
        columns=json.decode(row.columns.encode(), list),
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )
