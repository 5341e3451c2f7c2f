"""Handlers of objects by id: read one, list its history, undrop it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from arco.api.context import ChangeReply, HandlerContext, list_reply, object_reply
from arco.api.http.limits import MAX_PAGE_COLUMNS
from arco.api.http.reply import Reply
from arco.api.http.request import Call, ObjectQuery, PageQuery, QueryParams
from arco.api.http.snapshots import next_token
from arco.api.requests import UndropRequest
from arco.api.responses import (
    AnyObjectResponse,
    ObjectHistory,
    ObjectVersion,
    catalog_response,
    column_response,
    schema_response,
    table_response,
)
from arco.api.tables import columns_of
from arco.catalog.ddl import Undrop
from arco.catalog.history import Version, history
from arco.catalog.lookup import CommittedObject
from arco.catalog.model import CatalogRow, ColumnRow, CommittedRow, SchemaRow, TableRow
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Corrupt, NotFound


class ObjectHandlers:
    """Read and undrop catalogs, schemas, tables and views by id."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    async def get(self, call: Call[ObjectQuery, None]) -> Reply:
        """An object by its id, whatever it is called now."""
        object_id = _id_of(call)
        snapshot = await self._context.reads.at(call.query.as_of, call.head)
        item = await snapshot.find(object_id, dropped=call.query.dropped)
        containers = await _containers(snapshot, item.row)
        columns: list[ColumnRow] = []
        if isinstance(item.row, TableRow):
            if not call.query.dropped:
                await self._context.check_exists(call, item.row)
            columns = await columns_of(snapshot, item.row.table_id)
        document = self._response(item, containers, columns)
        return object_reply(document, item, revalidates=containers.newest <= item.commit)

    async def history(self, call: Call[PageQuery, None]) -> Reply:
        """What became of an object, newest first."""
        query, object_id = call.query, _id_of(call)
        snapshot, cursor = await self._context.reads.pinned(
            query.page_token, query.as_of, call.head
        )
        reader, start = self._context.services.reader, snapshot
        if cursor is not None:
            start = await reader.at_number(cursor.key_number)
        versions = await history(
            reader, object_id, start=start, limit=query.page_size, most_columns=MAX_PAGE_COLUMNS
        )
        page = ObjectHistory(
            items=tuple(_version(each) for each in versions.items),
            next_page_token=next_token(snapshot, versions.rest),
        )
        return list_reply(page, snapshot)

    async def undrop(self, call: Call[QueryParams, UndropRequest]) -> Reply:
        """Bring back what was dropped."""
        object_id = _id_of(call)
        containers = await self._containers_of_dropped(object_id)
        reply = ChangeReply(
            200, lambda result: self._response(result.object, containers, result.columns)
        )
        ddl = Undrop(id=object_id, name=call.body.name)
        return await self._context.apply(call, ddl, reply)

    async def _containers_of_dropped(self, object_id: str) -> "_Containers":
        snapshot = await self._context.reads.head()
        try:
            item = await snapshot.find(object_id, dropped=True)
        except NotFound:
            return _Containers()  # the change will be refused, or was made before under its key
        return await _containers(snapshot, item.row)

    def _response(
        self, item: CommittedObject, containers: "_Containers", columns: Sequence[ColumnRow]
    ) -> AnyObjectResponse:
        row = item.row
        if isinstance(row, CatalogRow):
            return catalog_response(CommittedRow(row, item.commit))
        if not containers.names:
            raise Corrupt("an object has no parent")
        catalog, *schema = containers.names
        if isinstance(row, SchemaRow):
            return schema_response(CommittedRow(row, item.commit), catalog)
        root = self._context.services.location_root
        return table_response(
            CommittedRow(row, item.commit), catalog, tuple(schema), columns, root=root
        )


@dataclass(frozen=True)
class _Containers:
    """The names of the containers of an object, outermost first, and the last commit to one of them."""

    names: tuple[str, ...] = ()
    newest: int = -1


async def _containers(snapshot: Snapshot, row: CatalogRow | SchemaRow | TableRow) -> _Containers:
    containers = _Containers()
    container = await snapshot.container(row)
    while container is not None:
        names = (container.row.name, *containers.names)
        containers = _Containers(names, max(containers.newest, container.commit))
        container = await snapshot.container(container.row)
    return containers


def _version(version: Version) -> ObjectVersion:
    fields: dict[str, Any] = msgspec.to_builtins(version.object)
    return ObjectVersion(
        number=version.number,
        commit_ulid=version.commit_ulid,
        at=version.at,
        operation=version.operation,
        actor=version.actor,
        object=fields,
        columns=tuple(column_response(row) for row in version.columns),
    )


def _id_of(call: Call[Any, Any]) -> str:
    """The id in the path; `NotFound` unless it is a UUID in its canonical spelling."""
    text = call.path_params["id"]
    try:
        spelled = str(UUID(text))
    except ValueError:
        spelled = ""
    if spelled != text:
        raise NotFound(f"there is no object {text[:80]!r}")
    return text
