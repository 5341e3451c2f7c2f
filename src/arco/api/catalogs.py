"""Handlers of catalogs, the first level of every full name."""

from arco.api.context import (
    ChangeReply,
    HandlerContext,
    api_url,
    changed_row,
    list_reply,
    object_reply,
)
from arco.api.http.reply import Reply, expected_version
from arco.api.http.request import AtQuery, Call, DropQuery, ListQuery, QueryParams
from arco.api.http.snapshots import name_key, next_token, split_name_key, take_page
from arco.api.requests import CatalogChanges, NewCatalog
from arco.api.responses import CatalogPage, CatalogResponse, catalog_response
from arco.catalog.ddl import CatalogName, CreateCatalog, DropCatalog, UpdateCatalog
from arco.catalog.model import CatalogRow
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
            201, _response, lambda result: api_url("catalogs", result.object.row.name)
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
            after=after, behind=behind, limit=query.page_size + 1, dropped=query.dropped
        )
        page, last = take_page(
            catalogs,
            query.page_size,
            lambda each: name_key(each.row.name, each.row.catalog_id, dropped=query.dropped),
        )
        document = CatalogPage(
            items=tuple(catalog_response(each) for each in page),
            next_page_token=next_token(snapshot, last),
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
        return await self._context.apply(call, ddl, ChangeReply(200, _response))

    async def drop(self, call: Call[DropQuery, None]) -> Reply:
        """Drop a catalog."""
        ddl = DropCatalog(
            target=CatalogName(call.path_params["catalog"]),
            expected=expected_version(call.header(b"if-match")),
            force=call.query.force,
        )
        return await self._context.apply(call, ddl, ChangeReply(204))


def _response(result: ChangeResult) -> CatalogResponse:
    return catalog_response(changed_row(result, CatalogRow))
