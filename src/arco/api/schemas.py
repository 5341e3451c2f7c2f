"""Handlers of catalogs and of schemas."""

from typing import Any

from arco.api.context import (
    ChangeReply,
    HandlerContext,
    api_url,
    changed_row,
    list_reply,
    object_reply,
    schema_url,
)
from arco.api.http.reply import Reply, expected_version
from arco.api.http.request import AtQuery, Call, DropQuery, ListQuery, QueryParams, SchemaListQuery
from arco.api.http.snapshots import name_key, next_token, split_name_key, take_page
from arco.api.requests import CatalogChanges, NewCatalog, NewSchema, SchemaChanges
from arco.api.responses import (
    CatalogPage,
    CatalogResponse,
    SchemaPage,
    SchemaResponse,
    catalog_response,
    schema_response,
)
from arco.catalog.ddl import (
    CatalogName,
    CreateCatalog,
    CreateSchema,
    DropCatalog,
    DropSchema,
    SchemaName,
    UpdateCatalog,
    UpdateSchema,
)
from arco.catalog.model import CatalogRow, SchemaRow
from arco.catalog.name import split_levels
from arco.catalog.pending_request import ChangeResult


class CatalogHandlers:
    """Create, list, read, update and drop catalogs."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def create(self, call: Call[QueryParams, NewCatalog]) -> Reply:
        """Make a catalog."""
        body = call.body
        ddl = CreateCatalog(
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=body.tags,
            owner=body.owner,
        )
        reply = ChangeReply(
            201, _catalog_response, lambda result: api_url("catalogs", result.object.row.name)
        )
        return await self._context.apply(call, ddl, reply)

    async def page(self, call: Call[ListQuery, None]) -> Reply:
        """List catalogs."""
        query = call.query
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        after, behind = split_name_key(cursor)
        catalogs = await snapshot.catalogs(
            after=after, after_id=behind, limit=query.page_size + 1, dropped=query.dropped
        )
        page, last_key = take_page(
            catalogs,
            query.page_size,
            lambda each: name_key(each.row.name, each.row.catalog_id, dropped=query.dropped),
        )
        document = CatalogPage(
            items=tuple(catalog_response(each) for each in page),
            next_page_token=next_token(snapshot, last_key),
        )
        return list_reply(document, snapshot)

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One catalog."""
        snapshot = await self._context.reads.at(call.query.as_of, call.head)
        catalog = await snapshot.catalog(call.path_params["catalog"])
        return object_reply(catalog_response(catalog), catalog)

    async def update(self, call: Call[QueryParams, CatalogChanges]) -> Reply:
        """Rename or describe a catalog."""
        body = call.body
        ddl = UpdateCatalog(
            target=CatalogName(call.path_params["catalog"]),
            expected=expected_version(call.header(b"if-match")),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=() if body.tags is None else body.tags,
            owner=body.owner,
        )
        return await self._context.apply(call, ddl, ChangeReply(200, _catalog_response))

    async def drop(self, call: Call[DropQuery, None]) -> Reply:
        """Drop a catalog."""
        ddl = DropCatalog(
            target=CatalogName(call.path_params["catalog"]),
            expected=expected_version(call.header(b"if-match")),
            force=call.query.force,
        )
        return await self._context.apply(call, ddl, ChangeReply(204))


def _catalog_response(result: ChangeResult) -> CatalogResponse:
    return catalog_response(changed_row(result, CatalogRow))


class SchemaHandlers:
    """Create, list, read, update and drop schemas, which nest."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def create(self, call: Call[QueryParams, NewSchema]) -> Reply:
        """Make a schema."""
        body, catalog = call.body, call.path_params["catalog"]
        ddl = CreateSchema(
            catalog=catalog,
            parent=body.parent,
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=body.tags,
            owner=body.owner,
        )
        return await self._context.apply(
            call,
            ddl,
            ChangeReply(
                201,
                lambda result: _response(result, catalog),
                lambda result: schema_url(catalog, changed_row(result, SchemaRow).row.path),
            ),
        )

    async def page(self, call: Call[SchemaListQuery, None]) -> Reply:
        """List the schemas right below a catalog or a schema."""
        query, catalog = call.query, call.path_params["catalog"]
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        catalog_id = (await snapshot.catalog(catalog)).row.catalog_id
        parent_id = None
        if query.parent is not None:
            parent = await snapshot.schema_in(catalog_id, split_levels(query.parent))
            parent_id = parent.row.schema_id
        after, behind = split_name_key(cursor)
        schemas = await snapshot.schemas(
            catalog_id,
            parent_id,
            after=after,
            after_id=behind,
            limit=query.page_size + 1,
            dropped=query.dropped,
        )
        page, last_key = take_page(
            schemas,
            query.page_size,
            lambda each: name_key(each.row.name, each.row.schema_id, dropped=query.dropped),
        )
        document = SchemaPage(
            items=tuple(schema_response(each, catalog) for each in page),
            next_page_token=next_token(snapshot, last_key),
        )
        return list_reply(document, snapshot)

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One schema."""
        snapshot = await self._context.reads.at(call.query.as_of, call.head)
        schema = await snapshot.schema(name_of(call))
        return object_reply(schema_response(schema, call.path_params["catalog"]), schema)

    async def update(self, call: Call[QueryParams, SchemaChanges]) -> Reply:
        """Rename or describe a schema."""
        body, catalog = call.body, call.path_params["catalog"]
        ddl = UpdateSchema(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=() if body.tags is None else body.tags,
            owner=body.owner,
        )
        reply = ChangeReply(200, lambda result: _response(result, catalog))
        return await self._context.apply(call, ddl, reply)

    async def drop(self, call: Call[DropQuery, None]) -> Reply:
        """Drop a schema."""
        if not call.query.force:
            await self._context.format_router.release_names(name_of(call))
        ddl = DropSchema(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            force=call.query.force,
        )
        return await self._context.apply(call, ddl, ChangeReply(204))


def name_of(call: Call[Any, Any]) -> SchemaName:
    """The name of the schema in the path."""
    return SchemaName(call.path_params["catalog"], split_levels(call.path_params["schema"]))


def _response(result: ChangeResult, catalog: str) -> SchemaResponse:
    return schema_response(changed_row(result, SchemaRow), catalog)
