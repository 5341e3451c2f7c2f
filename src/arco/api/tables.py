"""Handlers of tables and their columns.

The ETag of a column is that of its table: a change of a column is a change of the table.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from arco.api.context import (
    ChangeReply,
    HandlerContext,
    api_url,
    changed_row,
    list_reply,
    object_reply,
)
from arco.api.http.limits import MAX_PAGE_COLUMNS
from arco.api.http.reply import Reply, expected_version
from arco.api.http.request import AtQuery, Call, PageQuery, QueryParams, TableListQuery
from arco.api.http.route import BodySpec, decode_body
from arco.api.http.snapshots import name_key, next_token, split_name_key, take_page
from arco.api.requests import (
    ColumnChanges,
    NewColumn,
    NewColumns,
    NewTable,
    NewViewColumn,
    TableChanges,
)
from arco.api.responses import (
    AddedColumns,
    ColumnResponse,
    SchemaVersion,
    SchemaVersionPage,
    TablePage,
    TableResponse,
    column_response,
    table_response,
)
from arco.catalog.ddl import (
    AddColumns,
    ColumnSpec,
    CreateTable,
    DropColumn,
    DropTable,
    SchemaName,
    TableName,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.model import ColumnRow, CommittedRow, SchemaVersionRow, TableRow
from arco.catalog.name import join_levels, split_levels
from arco.catalog.pending_request import ChangeResult
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import Corrupt
from arco.fold.tier1 import COLUMNS

_BATCH = 8  # tables or versions that are decoded before other requests get a turn


class TableHandlers:
    """Create, list, read, update and drop tables."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def create(self, call: Call[QueryParams, NewTable]) -> Reply:
        """Make a table."""
        body, catalog, schema = call.body, call.path_params["catalog"], levels_of(call)
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
        return await self._context.apply(
            call,
            ddl,
            ChangeReply(
                201,
                lambda result: self._response(result, catalog, schema),
                lambda result: table_url(catalog, schema, result.object.row.name),
            ),
        )

    async def page(self, call: Call[TableListQuery, None]) -> Reply:
        """List the tables of a schema."""
        query, catalog, schema = call.query, call.path_params["catalog"], levels_of(call)
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        parent = await snapshot.schema(SchemaName(catalog, schema))
        after, behind = split_name_key(cursor)
        tables = await snapshot.tables(
            parent.row.schema_id,
            after=after,
            after_id=behind,
            limit=query.page_size + 1,
            dropped=query.dropped,
        )

        def key(each: CommittedRow[TableRow]) -> str:
            return name_key(each.row.name, each.row.table_id, dropped=query.dropped)

        rows, last_key = take_page(tables, query.page_size, key)
        rows = [each for each in rows if not await self._context.is_gone(call, each.row)]
        columns: Sequence[Sequence[ColumnRow] | None] = [None] * len(rows)
        if query.include == "columns":
            columns = await self._columns(snapshot, rows)
            if len(columns) < len(rows):
                rows = rows[: len(columns)]
                last_key = key(rows[-1])
        page = TablePage(
            items=tuple(
                table_response(
                    each, catalog, schema, own, root=self._context.services.location_root
                )
                for each, own in zip(rows, columns, strict=True)
            ),
            next_page_token=next_token(snapshot, last_key),
        )
        return list_reply(page, snapshot, tagged=not call.resolved_names)

    async def _columns(
        self, snapshot: Snapshot, rows: list[CommittedRow[TableRow]]
    ) -> list[list[ColumnRow]]:
        """The columns of the first tables, until a page has its maximum of columns."""
        tasks = self._context.services.runtime.tasks
        # Buckets that are not in memory are read concurrently; only as many as fit are decoded.
        buckets = await tasks.gather(
            *(snapshot.bucket(COLUMNS, each.row.table_id, ColumnRow) for each in rows)
        )
        columns: list[list[ColumnRow]] = []
        count = 0
        for bucket, table in zip(buckets, rows, strict=True):
            columns.append([each.row for each in bucket.below((table.row.table_id,))])
            count += len(columns[-1])
            if count >= MAX_PAGE_COLUMNS:
                break
            if len(columns) % _BATCH == 0:
                await tasks.turn()
        return columns

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One table with its columns."""
        name = name_of(call)
        snapshot = await self._context.reads.at(call.query.as_of, call.head)
        table = await snapshot.table(name)
        await self._context.check_exists(call, table.row)
        columns = await columns_of(snapshot, table.row.table_id)
        root = self._context.services.location_root
        document = table_response(table, name.catalog, name.schema, columns, root=root)
        return object_reply(document, table)

    async def update(self, call: Call[QueryParams, TableChanges]) -> Reply:
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
        reply = ChangeReply(200, lambda result: self._response(result, catalog, schema))
        return await self._context.apply(call, ddl, reply)

    async def drop(self, call: Call[QueryParams, None]) -> Reply:
        """Drop a table."""
        ddl = DropTable(target=name_of(call), expected=expected_version(call.header(b"if-match")))
        return await self._context.apply(call, ddl, ChangeReply(204))

    async def schema_history(self, call: Call[PageQuery, None]) -> Reply:
        """All versions of a table's columns, newest first."""
        query = call.query
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        table = await snapshot.table(name_of(call))
        await self._context.check_exists(call, table.row)
        newest = table.row.schema_version
        top = newest if cursor is None else min(newest, cursor.key_number - 1)
        items = await self._versions(snapshot, table.row.table_id, top, query.page_size)
        last_version = items[-1].version if items and items[-1].version > 1 else None
        page = SchemaVersionPage(
            items=tuple(items), next_page_token=next_token(snapshot, last_version)
        )
        return list_reply(page, snapshot)

    async def _versions(
        self, snapshot: Snapshot, table_id: str, top: int, limit: int
    ) -> list[SchemaVersion]:
        """The versions from `top` downwards, until a page has its maximum of versions or columns."""
        versions: list[SchemaVersion] = []
        count = 0
        while top > 0:
            below = max(0, top - _BATCH)
            for row in reversed(
                await snapshot.schema_versions(table_id, after=below, limit=top - below)
            ):
                versions.append(_version(row))
                count += len(versions[-1].columns)
                if len(versions) == limit or count >= MAX_PAGE_COLUMNS:
                    return versions
            top = below
            await self._context.services.runtime.tasks.turn()
        return versions

    def _response(
        self, result: ChangeResult, catalog: str, schema: tuple[str, ...]
    ) -> TableResponse:
        table, root = changed_row(result, TableRow), self._context.services.location_root
        return table_response(table, catalog, schema, result.columns, root=root)


async def columns_of(snapshot: Snapshot, table_id: str) -> list[ColumnRow]:
    """The rows of a table's columns, by position."""
    return [column.row for column in await snapshot.columns(table_id)]


def levels_of(call: Call[Any, Any]) -> tuple[str, ...]:
    """The levels of the schema in the path."""
    return split_levels(call.path_params["schema"])


def name_of(call: Call[Any, Any]) -> TableName:
    """The name of the table in the path."""
    return TableName(call.path_params["catalog"], levels_of(call), call.path_params["table"])


def spec_of(column: NewColumn | NewViewColumn) -> ColumnSpec:
    """A new column as the catalog takes it."""
    return ColumnSpec(**msgspec.structs.asdict(column))


def table_url(catalog: str, schema: tuple[str, ...], table: str) -> str:
    """The URL of a table."""
    return api_url("catalogs", catalog, "schemas", join_levels(schema), "tables", table)


def _version(row: SchemaVersionRow) -> SchemaVersion:
    return SchemaVersion(
        version=row.version,
        changes=json.decode(row.changes.encode(), list),
        columns=json.decode(row.columns.encode(), list),
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )


class ColumnHandlers:
    """Add, update and drop columns of a table."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def add(self, call: Call[QueryParams, NewColumn | NewColumns]) -> Reply:
        """Add one column, or several in one change."""
        body = call.body
        columns = body.columns if isinstance(body, NewColumns) else (body,)
        ddl = AddColumns(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            columns=tuple(spec_of(column) for column in columns),
        )

        def added(result: ChangeResult) -> ColumnResponse | AddedColumns:
            responses = tuple(_column(result, column.name) for column in columns)
            return AddedColumns(columns=responses) if isinstance(body, NewColumns) else responses[0]

        return await self._context.apply(call, ddl, ChangeReply(201, added))

    async def update(self, call: Call[QueryParams, ColumnChanges]) -> Reply:
        """Change one column."""
        body, column = call.body, call.path_params["column"]
        ddl = UpdateColumn(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            column=column,
            name=body.name,
            data_type=body.data_type,
            nullable=body.nullable,
            comment=body.comment,
            default_value=body.default_value,
            pii_type=body.pii_type,
            sensitivity=body.sensitivity,
            position=body.position,
        )
        name = column if body.name is msgspec.UNSET else body.name
        reply = ChangeReply(200, lambda result: _column(result, name))
        return await self._context.apply(call, ddl, reply)

    async def drop(self, call: Call[QueryParams, None]) -> Reply:
        """Drop one column."""
        ddl = DropColumn(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            column=call.path_params["column"],
        )
        return await self._context.apply(call, ddl, ChangeReply(204))


class _ColumnsField(msgspec.Struct):
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def decode_columns(raw: bytes) -> NewColumn | NewColumns:
    """One column, or several under `columns`."""
    several = json.decode(raw, _ColumnsField).columns is not msgspec.UNSET
    return decode_body(raw, NewColumns) if several else decode_body(raw, NewColumn)


COLUMNS_BODY: BodySpec[NewColumn | NewColumns] = BodySpec(
    decode_columns,
    (NewColumn, NewColumns),
    {"name": "amount", "data_type": "decimal(10,2)", "comment": "without tax"},
)


def _column(result: ChangeResult, name: str) -> ColumnResponse:
    for row in result.columns:
        if row.name == name:
            return column_response(row)
    raise Corrupt(f"{result.operation} has ended without the column it was about")
