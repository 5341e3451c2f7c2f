"""Handlers of views. Views are Iceberg's: their queries are in its metadata, their rows only list them."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from arco.api.context import (
    ChangeReply,
    HandlerContext,
    api_url,
    changed_row,
    list_reply,
    object_reply,
)
from arco.api.http.reply import Reply, expected_version
from arco.api.http.request import AtQuery, Call, ListQuery, QueryParams
from arco.api.http.snapshots import PageCursor, name_key, next_token, split_name_key
from arco.api.requests import DEFAULT_DIALECT, NewView, Representation, ViewChanges
from arco.api.responses import ViewPage, ViewResponse, table_response, view_response
from arco.api.tables import columns_of, levels_of, spec_of
from arco.catalog.ddl import (
    CreateView,
    DropView,
    Redefinition,
    SchemaName,
    TableName,
    UpdateView,
    ViewQuery,
)
from arco.catalog.model import CommittedRow, ObjectKind, TableRow
from arco.catalog.name import join_levels
from arco.catalog.pending_request import ChangeResult
from arco.catalog.snapshot import Snapshot
from arco.catalog.table_format import DefinedView
from arco.core.errors import Invalid, NotFound

_MAX_SCANNED = 2_000  # tables and views, for one page of views


class ViewHandlers:
    """Create, list, read, update and drop views."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def create(self, call: Call[QueryParams, NewView]) -> Reply:
        """Make a view."""
        self._context.format_router.require_views()
        body, catalog, schema = call.body, call.path_params["catalog"], levels_of(call)
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
            columns=tuple(map(spec_of, body.columns)),
            default_catalog=body.default_catalog,
            default_namespace=body.default_namespace,
        )
        reply = ChangeReply(
            201,
            lambda result: self._response(result, catalog, schema),
            lambda result: api_url(
                *("catalogs", catalog, "schemas", join_levels(schema)),
                *("views", result.object.row.name),
            ),
        )
        return await self._context.apply(call, request, reply)

    async def page(self, call: Call[ListQuery, None]) -> Reply:
        """List the views of a schema."""
        query, catalog, schema = call.query, call.path_params["catalog"], levels_of(call)
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        parent = await snapshot.schema(SchemaName(catalog, schema))
        views, last_key = await self._scan(call, snapshot, parent.row.schema_id, cursor)
        root = self._context.services.location_root
        page = ViewPage(
            items=tuple(
                view_response(table_response(each, catalog, schema, root=root)) for each in views
            ),
            next_page_token=next_token(snapshot, last_key),
        )
        return list_reply(page, snapshot, tagged=not call.resolved_names)

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One view with its columns and its queries; earlier versions have none."""
        name, as_of = name_of(call), call.query.as_of
        definition = None
        if as_of is None:
            definition = await self._context.format_router.describe_view(name)
        snapshot = await self._context.reads.at(as_of)
        view = await snapshot.table(name)
        if view.row.kind is not ObjectKind.VIEW:
            raise NotFound(f"there is no view {name.table!r} in this schema")
        columns = await columns_of(snapshot, view.row.table_id)
        root = self._context.services.location_root
        table = table_response(view, name.catalog, name.schema, columns, root=root)
        # The ETag is that of the row, which does not change when an engine changes the query alone.
        return object_reply(view_response(table, definition), view, revalidates=False)

    async def update(self, call: Call[QueryParams, ViewChanges]) -> Reply:
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
                columns=UNSET if body.columns is UNSET else tuple(map(spec_of, body.columns)),
                default_catalog=body.default_catalog,
                default_namespace=body.default_namespace,
            ),
        )
        catalog = target.catalog if body.catalog is UNSET else body.catalog
        schema = target.schema if body.schema is UNSET else body.schema
        reply = ChangeReply(200, lambda result: self._response(result, catalog, schema))
        return await self._context.apply(call, request, reply)

    async def drop(self, call: Call[QueryParams, None]) -> Reply:
        """Drop a view."""
        self._context.format_router.require_views()
        expected = expected_version(call.header(b"if-match"))
        request = DropView(target=name_of(call), expected=expected)
        return await self._context.apply(call, request, ChangeReply(204))

    async def _scan(
        self,
        call: Call[ListQuery, None],
        snapshot: Snapshot,
        schema_id: str,
        cursor: PageCursor | None,
    ) -> tuple[list[CommittedRow[TableRow]], str | None]:
        """The views of one page, and the key after which there may be more."""
        query, views = call.query, list[CommittedRow[TableRow]]()
        after, behind = split_name_key(cursor)
        scanned = 0
        while scanned < _MAX_SCANNED and len(views) < query.page_size:
            batch = await snapshot.tables(
                schema_id,
                after=after,
                after_id=behind,
                limit=query.page_size,
                dropped=query.dropped,
            )
            for each in batch:
                row = each.row
                after, behind = row.name, row.table_id if query.dropped else None
                if row.kind is ObjectKind.VIEW and not await self._context.is_gone(call, row):
                    views.append(each)
                    if len(views) == query.page_size:
                        break
            if len(batch) < query.page_size and len(views) < query.page_size:
                return views, None
            scanned += len(batch)
        return views, name_key(after or "", behind or "", dropped=query.dropped)

    def _response(
        self, result: ChangeResult, catalog: str, schema: tuple[str, ...]
    ) -> ViewResponse:
        view, root = changed_row(result, TableRow), self._context.services.location_root
        table = table_response(view, catalog, schema, result.columns, root=root)
        if not isinstance(result, DefinedView):  # it was dropped meanwhile
            return view_response(table)
        return view_response(table, result.definition)


def name_of(call: Call[Any, Any]) -> TableName:
    """The name of the view in the path."""
    return TableName(call.path_params["catalog"], levels_of(call), call.path_params["view"])


def _queries(
    sql: str | None, dialect: str | None, several: tuple[Representation, ...]
) -> tuple[Representation, ...] | None:
    """The queries of a view, sent as one or as several; None if the request has none."""
    if sql is not None and several:
        raise Invalid("send one query as sql, or several as representations, and not both")
    if sql is None and dialect is not None:
        raise Invalid("dialect says whose SQL sql is, and there is no sql")
    if sql is not None:
        return (Representation(sql=sql, dialect=dialect or DEFAULT_DIALECT),)
    return several or None


def _asked(queries: Sequence[Representation]) -> tuple[ViewQuery, ...]:
    return tuple(ViewQuery(sql=each.sql, dialect=each.dialect) for each in queries)
