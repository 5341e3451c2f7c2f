"""Handlers of catalogs."""

from arco.api.desk import Desk, Rendered, found_in, many, one, url
from arco.api.etag import expected_version
from arco.api.paging import Token, cut, place, unpack_place
from arco.api.query_params import AtQuery, DropQuery, ListQuery, Query
from arco.api.render import catalog_thing
from arco.api.route import Call, Reply
from arco.api.wire import CatalogChanges, CatalogPage, CatalogThing, NewCatalog
from arco.catalog.ddl import CatalogName, CreateCatalog, DropCatalog, UpdateCatalog
from arco.catalog.done import Done
from arco.catalog.model import CatalogRow


class Catalogs:
    """Catalogs: the top of every name."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, call: Call[Query, NewCatalog]) -> Reply:
        """Make a catalog."""
        body = call.body
        ddl = CreateCatalog(
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=body.tags,
            owner=body.owner,
        )
        rendered = Rendered(201, _thing, lambda done: url("catalogs", done.object.row.name))
        return await self._desk.carry_out(call, ddl, rendered)

    async def page(self, call: Call[ListQuery, None]) -> Reply:
        """List catalogs."""
        query = call.query
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        after, behind = unpack_place(token)
        found = await snapshot.catalogs(
            after=after,
            behind=behind,
            limit=query.page_size + 1,
            dropped=query.dropped,
        )
        items, last = cut(
            found,
            query.page_size,
            lambda each: place(each.row.name, each.row.catalog_id, dropped=query.dropped),
        )
        page = CatalogPage(
            items=tuple(catalog_thing(each) for each in items),
            next_page_token=None if last is None else Token(snapshot.number, last).pack(),
        )
        return many(page, snapshot)

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One catalog."""
        snapshot = await self._desk.reads.at(call.query.as_of, call.head)
        found = await snapshot.catalog(call.names["catalog"])
        return one(catalog_thing(found), found)

    async def update(self, call: Call[Query, CatalogChanges]) -> Reply:
        """Rename or describe a catalog."""
        body = call.body
        ddl = UpdateCatalog(
            target=CatalogName(call.names["catalog"]),
            expected=expected_version(call.header(b"if-match")),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=() if body.tags is None else body.tags,
            owner=body.owner,
        )
        return await self._desk.carry_out(call, ddl, Rendered(200, _thing))

    async def drop(self, call: Call[DropQuery, None]) -> Reply:
        """Drop a catalog."""
        ddl = DropCatalog(
            target=CatalogName(call.names["catalog"]),
            expected=expected_version(call.header(b"if-match")),
            force=call.query.force,
        )
        return await self._desk.carry_out(call, ddl, Rendered(204))


def _thing(done: Done) -> CatalogThing:
    return catalog_thing(found_in(done, CatalogRow))
