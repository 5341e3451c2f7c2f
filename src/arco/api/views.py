"""Handlers of views. They are Iceberg's: their queries are read from its metadata, their rows list them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from arco.api.desk import Desk, Rendered, found_in, many, one, url
from arco.api.etag import expected_version
from arco.api.paging import Token, place, unpack_place
from arco.api.query_params import AtQuery, ListQuery, Query
from arco.api.render import Definition, table_thing, view_thing
from arco.api.route import Call, Reply
from arco.api.tables import columns_of, levels_of
from arco.api.wire import (
    DEFAULT_DIALECT,
    NewView,
    NewViewColumn,
    Representation,
    ViewChanges,
    ViewPage,
    ViewThing,
)
from arco.catalog.ddl import ColumnSpec, SchemaName, TableName
from arco.catalog.done import Done
from arco.catalog.model import Found, ObjectKind, TableRow
from arco.catalog.name import join_levels
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid, NotFound
from arco.iceberg import view_request
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.native import DefinedView
from arco.iceberg.native_commit import current_version
from arco.iceberg.view_request import CreateView, DropView, Redefinition, UpdateView

_LOOKED_AT = 2_000  # tables and views, for one page of views


class Views:
    """Views."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, call: Call[Query, NewView]) -> Reply:
        """Make a view."""
        self._desk.ruler()
        body, catalog, schema = call.body, call.names["catalog"], levels_of(call)
        queries = _queries(body.sql, body.dialect, body.representations)
        if queries is None:
            raise Invalid("a view needs its query: sql, or representations")
        request = CreateView(
            schema=SchemaName(catalog, schema),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=body.tags,
            owner=body.owner,
            queries=_asked(queries),
            columns=tuple(map(_spec, body.columns)),
            default_catalog=body.default_catalog,
            default_namespace=body.default_namespace,
        )
        rendered = Rendered(
            201,
            lambda done: self._thing(done, catalog, schema),
            lambda done: url(
                *("catalogs", catalog, "schemas", join_levels(schema)),
                *("views", done.object.row.name),
            ),
        )
        return await self._desk.carry_out(call, request, rendered)

    async def page(self, call: Call[ListQuery, None]) -> Reply:
        """List the views of a schema."""
        query, catalog, schema = call.query, call.names["catalog"], levels_of(call)
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        parent = await snapshot.schema(SchemaName(catalog, schema))
        found, last = await self._some(call, snapshot, parent.row.schema_id, token)
        root = self._desk.services.location_root
        page = ViewPage(
            items=tuple(
                view_thing(table_thing(each, catalog, schema, root=root)) for each in found
            ),
            next_page_token=None if last is None else Token(snapshot.number, last).pack(),
        )
        return many(page, snapshot, tagged=not call.asked)

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One view with its columns and its queries; those of the past are not told."""
        name, as_of = name_of(call), call.query.as_of
        definition = None
        if as_of is None:
            definition = definition_of(await self._desk.ruler().view(name))
        snapshot = await self._desk.reads.at(as_of)
        found = await snapshot.table(name)
        if found.row.kind is not ObjectKind.VIEW:
            raise NotFound(f"there is no view {name.table!r} in this schema")
        columns = await columns_of(snapshot, found.row.table_id)
        root = self._desk.services.location_root
        table = table_thing(found, name.catalog, name.schema, columns, root=root)
        # The ETag is that of the row, which stays as it is when an engine changes the query alone.
        return one(view_thing(table, definition), found, revalidates=False)

    async def update(self, call: Call[Query, ViewChanges]) -> Reply:
        """Rename, move, describe or redefine a view."""
        body, target = call.body, name_of(call)
        queries = _queries(
            None if body.sql is UNSET else body.sql,
            None if body.dialect is UNSET else body.dialect,
            () if body.representations is UNSET else body.representations,
        )
        request = UpdateView(
            target=target,
            expected=expected_version(call.header(b"if-match")),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=() if body.tags is None else body.tags,
            owner=body.owner,
            catalog=body.catalog,
            schema=body.schema,
            redefinition=Redefinition(
                queries=UNSET if queries is None else _asked(queries),
                columns=UNSET if body.columns is UNSET else tuple(map(_spec, body.columns)),
                default_catalog=body.default_catalog,
                default_namespace=body.default_namespace,
            ),
        )
        catalog = target.catalog if body.catalog is UNSET else body.catalog
        schema = target.schema if body.schema is UNSET else body.schema
        rendered = Rendered(200, lambda done: self._thing(done, catalog, schema))
        return await self._desk.carry_out(call, request, rendered)

    async def drop(self, call: Call[Query, None]) -> Reply:
        """Drop a view."""
        self._desk.ruler()
        expected = expected_version(call.header(b"if-match"))
        request = DropView(target=name_of(call), expected=expected)
        return await self._desk.carry_out(call, request, Rendered(204))

    async def _some(
        self, call: Call[ListQuery, None], snapshot: Snapshot, schema_id: str, token: Token | None
    ) -> tuple[list[Found[TableRow]], str | None]:
        """As many views as one page may have, and the key behind which there may be more."""
        query, views = call.query, list[Found[TableRow]]()
        after, behind = unpack_place(token)
        looked = 0
        while looked < _LOOKED_AT and len(views) < query.page_size:
            batch = await snapshot.tables(
                schema_id, after=after, behind=behind, limit=query.page_size, dropped=query.dropped
            )
            for each in batch:
                row = each.row
                after, behind = row.name, row.table_id if query.dropped else None
                if row.kind is ObjectKind.VIEW and not await self._desk.is_dead(call, row):
                    views.append(each)
                    if len(views) == query.page_size:
                        break
            if len(batch) < query.page_size and len(views) < query.page_size:
                return views, None
            looked += len(batch)
        return views, place(after or "", behind or "", dropped=query.dropped)

    def _thing(self, done: Done, catalog: str, schema: tuple[str, ...]) -> ViewThing:
        found, root = found_in(done, TableRow), self._desk.services.location_root
        table = table_thing(found, catalog, schema, done.columns, root=root)
        if not isinstance(done, DefinedView):  # it was dropped since
            return view_thing(table)
        return view_thing(table, definition_of(done.metadata))


def name_of(call: Call[Any, Any]) -> TableName:
    """The view that the path names."""
    return TableName(call.names["catalog"], levels_of(call), call.names["view"])


def definition_of(metadata: Metadata) -> Definition:
    """What a view shows, from its metadata."""
    version = msgspec.convert(current_version(metadata), _Version)
    return Definition(
        tuple(
            Representation(sql=each.sql, dialect=each.dialect)
            for each in version.representations
            if each.type.lower() == "sql"  # other kinds are for whoever made them
        ),
        version.catalog,
        version.namespace,
    )


class _Query(msgspec.Struct):
    type: str
    sql: str = ""
    dialect: str = ""


class _Version(msgspec.Struct):
    representations: tuple[_Query, ...]
    namespace: tuple[str, ...] = msgspec.field(name="default-namespace")
    catalog: str | None = msgspec.field(name="default-catalog", default=None)


def _queries(
    sql: str | None, dialect: str | None, several: tuple[Representation, ...]
) -> tuple[Representation, ...] | None:
    """The queries of a view, however they were sent; None if none were."""
    if sql is not None and several:
        raise Invalid("send one query as sql, or several as representations, and not both")
    if sql is None and dialect is not None:
        raise Invalid("dialect says whose SQL sql is, and there is no sql")
    if sql is not None:
        return (Representation(sql=sql, dialect=dialect or DEFAULT_DIALECT),)
    return several or None


def _asked(queries: Sequence[Representation]) -> tuple[view_request.Query, ...]:
    return tuple(view_request.Query(sql=each.sql, dialect=each.dialect) for each in queries)


def _spec(column: NewViewColumn) -> ColumnSpec:
    return ColumnSpec(
        name=column.name,
        data_type=column.data_type,
        nullable=column.nullable,
        comment=column.comment,
        pii_type=column.pii_type,
        sensitivity=column.sensitivity,
    )
