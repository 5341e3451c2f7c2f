"""Handlers of columns. Their ETag is their table's, whose version every change of them raises."""

import msgspec

from arco.api.desk import Desk, Rendered
from arco.api.etag import expected_version
from arco.api.query_params import Query
from arco.api.render import column_thing
from arco.api.route import Call, Reply, Sent, read_document
from arco.api.tables import name_of, spec_of
from arco.api.wire import AddedColumns, ColumnChanges, ColumnThing, NewColumn, NewColumns
from arco.catalog.ddl import AddColumns, DropColumn, UpdateColumn
from arco.catalog.done import Done
from arco.core import json
from arco.core.errors import Corrupt


class Columns:
    """Columns of a table."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def add(self, call: Call[Query, NewColumn | NewColumns]) -> Reply:
        """Add one column, or several in one change."""
        body = call.body
        asked = body.columns if isinstance(body, NewColumns) else (body,)
        ddl = AddColumns(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            columns=tuple(spec_of(column) for column in asked),
        )

        def added(done: Done) -> ColumnThing | AddedColumns:
            things = tuple(_column(done, column.name) for column in asked)
            return AddedColumns(columns=things) if isinstance(body, NewColumns) else things[0]

        return await self._desk.carry_out(call, ddl, Rendered(201, added))

    async def update(self, call: Call[Query, ColumnChanges]) -> Reply:
        """Change one column."""
        body, column = call.body, call.names["column"]
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
        rendered = Rendered(200, lambda done: _column(done, name))
        return await self._desk.carry_out(call, ddl, rendered)

    async def drop(self, call: Call[Query, None]) -> Reply:
        """Drop one column."""
        ddl = DropColumn(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            column=call.names["column"],
        )
        return await self._desk.carry_out(call, ddl, Rendered(204))


class _Peek(msgspec.Struct):
    columns: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def read_columns(raw: bytes) -> NewColumn | NewColumns:
    """One column, or several under `columns`."""
    several = json.decode(raw, _Peek).columns is not msgspec.UNSET
    return read_document(raw, NewColumns) if several else read_document(raw, NewColumn)


COLUMNS_SENT: Sent[NewColumn | NewColumns] = Sent(
    read_columns,
    (NewColumn, NewColumns),
    {"name": "amount", "data_type": "decimal(10,2)", "comment": "without tax"},
)


def _column(done: Done, name: str) -> ColumnThing:
    for row in done.columns:
        if row.name == name:
            return column_thing(row)
    raise Corrupt(f"{done.operation} has ended without the column it was about")
