"""Handlers of schemas."""

from typing import Any

from arco.api.desk import Desk, Rendered, found_in, many, one, schema_url
from arco.api.etag import expected_version
from arco.api.paging import Token, cut, place, unpack_place
from arco.api.query_params import AtQuery, DropQuery, Query, SchemaListQuery
from arco.api.render import schema_thing
from arco.api.route import Call, Reply
from arco.api.wire import NewSchema, SchemaChanges, SchemaPage, SchemaThing
from arco.catalog.ddl import CreateSchema, DropSchema, SchemaName, UpdateSchema
from arco.catalog.done import Done
from arco.catalog.model import SchemaRow
from arco.catalog.name import split_levels


class Schemas:
    """Schemas, which nest."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, call: Call[Query, NewSchema]) -> Reply:
        """Make a schema."""
        body, catalog = call.body, call.names["catalog"]
        ddl = CreateSchema(
            catalog=catalog,
            parent=body.parent,
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=body.tags,
            owner=body.owner,
        )
        return await self._desk.carry_out(
            call,
            ddl,
            Rendered(
                201,
                lambda done: _thing(done, catalog),
                lambda done: schema_url(catalog, found_in(done, SchemaRow).row.path),
            ),
        )

    async def page(self, call: Call[SchemaListQuery, None]) -> Reply:
        """List the schemas right below a catalog or a schema."""
        query, catalog = call.query, call.names["catalog"]
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        catalog_id = (await snapshot.catalog(catalog)).row.catalog_id
        parent_id = None
        if query.parent is not None:
            parent = await snapshot.schema_in(catalog_id, split_levels(query.parent))
            parent_id = parent.row.schema_id
        after, behind = unpack_place(token)
        found = await snapshot.schemas(
            catalog_id,
            parent_id,
            after=after,
            behind=behind,
            limit=query.page_size + 1,
            dropped=query.dropped,
        )
        items, last = cut(
            found,
            query.page_size,
            lambda each: place(each.row.name, each.row.schema_id, dropped=query.dropped),
        )
        page = SchemaPage(
            items=tuple(schema_thing(each, catalog) for each in items),
            next_page_token=None if last is None else Token(snapshot.number, last).pack(),
        )
        return many(page, snapshot)

    async def get(self, call: Call[AtQuery, None]) -> Reply:
        """One schema."""
        snapshot = await self._desk.reads.at(call.query.as_of, call.head)
        found = await snapshot.schema(name_of(call))
        return one(schema_thing(found, call.names["catalog"]), found)

    async def update(self, call: Call[Query, SchemaChanges]) -> Reply:
        """Rename or describe a schema."""
        body, catalog = call.body, call.names["catalog"]
        ddl = UpdateSchema(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            name=body.name,
            comment=body.comment,
            properties=body.properties,
            tags=() if body.tags is None else body.tags,
            owner=body.owner,
        )
        rendered = Rendered(200, lambda done: _thing(done, catalog))
        return await self._desk.carry_out(call, ddl, rendered)

    async def drop(self, call: Call[DropQuery, None]) -> Reply:
        """Drop a schema."""
        if self._desk.native is not None and not call.query.force:
            await self._desk.native.release_dead(name_of(call))
        ddl = DropSchema(
            target=name_of(call),
            expected=expected_version(call.header(b"if-match")),
            force=call.query.force,
        )
        return await self._desk.carry_out(call, ddl, Rendered(204))


def name_of(call: Call[Any, Any]) -> SchemaName:
    """The schema that the path names."""
    return SchemaName(call.names["catalog"], split_levels(call.names["schema"]))


def _thing(done: Done, catalog: str) -> SchemaThing:
    return schema_thing(found_in(done, SchemaRow), catalog)
