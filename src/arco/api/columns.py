"""Handlers of columns. Their ETag is that of their table: a change of a column is a change of the table."""

import msgspec

from arco.api.context import ChangeReply, HandlerContext
from arco.api.http.reply import Reply, expected_version
from arco.api.http.request import Call, QueryParams
from arco.api.http.route import BodySpec, decode_body
from arco.api.requests import ColumnChanges, NewColumn, NewColumns
from arco.api.responses import AddedColumns, ColumnResponse, column_response
from arco.api.tables import name_of, spec_of
from arco.catalog.ddl import AddColumns, DropColumn, UpdateColumn
from arco.catalog.done import Done
from arco.core import json
from arco.core.errors import Corrupt


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

        def added(done: Done) -> ColumnResponse | AddedColumns:
            responses = tuple(_column(done, column.name) for column in columns)
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
        reply = ChangeReply(200, lambda done: _column(done, name))
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


def _column(done: Done, name: str) -> ColumnResponse:
    for row in done.columns:
        if row.name == name:
            return column_response(row)
    raise Corrupt(f"{done.operation} has ended without the column it was about")
