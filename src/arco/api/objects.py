"""Handlers of objects by their id: looked up, followed through time, brought back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from arco.api.desk import Desk, Rendered, many, one
from arco.api.limits import MOST_COLUMNS
from arco.api.paging import Token, unpack_number
from arco.api.query_params import ObjectQuery, PageQuery, Query
from arco.api.render import catalog_thing, column_thing, schema_thing, table_thing
from arco.api.route import Call, Reply
from arco.api.tables import columns_of
from arco.api.wire import AnyThing, History, ObjectVersion, UndropWish
from arco.catalog.ddl import Undrop
from arco.catalog.history import Version, history
from arco.catalog.lookup import FoundObject
from arco.catalog.model import CatalogRow, ColumnRow, Found, SchemaRow, TableRow
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Corrupt, NotFound


class Objects:
    """Anything in the catalog that has an id."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def get(self, call: Call[ObjectQuery, None]) -> Reply:
        """An object by its id, whatever it is called now."""
        object_id = _id_of(call)
        snapshot = await self._desk.reads.at(call.query.as_of, call.head)
        found = await snapshot.find(object_id, dropped=call.query.dropped)
        above = await _above(snapshot, found.row)
        columns: list[ColumnRow] = []
        if isinstance(found.row, TableRow):
            if not call.query.dropped:
                await self._desk.refuse_dead(call, found.row)
            columns = await columns_of(snapshot, found.row.table_id)
        revalidates = above.newest <= found.commit
        return one(self._thing(found, above, columns), found, revalidates=revalidates)

    async def history(self, call: Call[PageQuery, None]) -> Reply:
        """What became of an object, newest first."""
        query, object_id = call.query, _id_of(call)
        snapshot, token = await self._desk.reads.pinned(query.page_token, query.as_of, call.head)
        reader, start = self._desk.services.reader, snapshot
        if token is not None:
            start = await reader.at_number(unpack_number(token))
        found = await history(
            reader, object_id, start=start, limit=query.page_size, most_columns=MOST_COLUMNS
        )
        rest = None if found.rest is None else Token(snapshot.number, str(found.rest)).pack()
        page = History(items=tuple(_version(each) for each in found.items), next_page_token=rest)
        return many(page, snapshot)

    async def undrop(self, call: Call[Query, UndropWish]) -> Reply:
        """Bring back what was dropped."""
        object_id = _id_of(call)
        above = await self._above_dropped(object_id)
        rendered = Rendered(200, lambda done: self._thing(done.object, above, done.columns))
        ddl = Undrop(id=object_id, name=call.body.name)
        return await self._desk.carry_out(call, ddl, rendered)

    async def _above_dropped(self, object_id: str) -> "_Above":
        snapshot = await self._desk.reads.head()
        try:
            found = await snapshot.find(object_id, dropped=True)
        except NotFound:
            return _NOTHING  # the change is refused, or was made long ago and has its answer
        return await _above(snapshot, found.row)

    def _thing(self, found: FoundObject, above: "_Above", columns: Sequence[ColumnRow]) -> AnyThing:
        row = found.row
        if isinstance(row, CatalogRow):
            return catalog_thing(Found(row, found.commit))
        if not above.names:
            raise Corrupt("an object lies in nothing")
        catalog, *schema = above.names
        if isinstance(row, SchemaRow):
            return schema_thing(Found(row, found.commit), catalog)
        root = self._desk.services.location_root
        return table_thing(Found(row, found.commit), catalog, tuple(schema), columns, root=root)


@dataclass(frozen=True)
class _Above:
    """The names of what an object lies in, and the last commit that changed any of it."""

    names: tuple[str, ...] = ()
    newest: int = -1


_NOTHING = _Above()


async def _above(snapshot: Snapshot, row: CatalogRow | SchemaRow | TableRow) -> _Above:
    above = _NOTHING
    container = await snapshot.container(row)
    while container is not None:
        names = (container.row.name, *above.names)
        above = _Above(names, max(above.newest, container.commit))
        container = await snapshot.container(container.row)
    return above


def _version(version: Version) -> ObjectVersion:
    fields: dict[str, Any] = msgspec.to_builtins(version.object)
    return ObjectVersion(
        number=version.number,
        commit_ulid=version.commit_ulid,
        at=version.at,
        operation=version.operation,
        actor=version.actor,
        object=fields,
        columns=tuple(column_thing(row) for row in version.columns),
    )


def _id_of(call: Call[Any, Any]) -> str:
    """The id in the path, in its one spelling; what is no id cannot be one of ours."""
    text = call.names["id"]
    try:
        spelled = str(UUID(text))
    except ValueError:
        spelled = ""
    if spelled != text:
        raise NotFound(f"there is no object {text[:80]!r}")
    return text
