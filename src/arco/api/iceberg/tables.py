"""Handlers of tables."""

from collections.abc import Sequence
from typing import Any

from arco.api.etag import is_unchanged
from arco.api.iceberg.desk import VARY, IcebergDesk, caller_of, namespace_of
from arco.api.iceberg.identifiers import identifiers
from arco.api.iceberg.paging import page
from arco.api.iceberg.queries import DropQuery, LoadQuery, PageQuery
from arco.api.query_params import OpenQuery
from arco.api.route import Call, Reply
from arco.core.errors import Invalid
from arco.iceberg.wire import (
    CommitTableRequest,
    CommitTransactionRequest,
    CreateTableRequest,
    RegisterTableRequest,
    RenameRequest,
)

_NO_CREDENTIALS = Reply(200, b'{"storage-credentials":[]}')


class Tables:
    """Tables."""

    def __init__(self, desk: IcebergDesk) -> None:
        self._desk = desk
        self._service = desk.iceberg.tables

    async def page(self, call: Call[PageQuery, None]) -> Reply:
        """List the tables of a namespace."""
        catalog, namespace = await self._desk.catalog(call), namespace_of(call)

        async def names(*, after: str | None, limit: int | None) -> Sequence[str]:
            return await self._service.page(catalog, namespace, after=after, limit=limit)

        return identifiers(namespace, *await page(call.query, names))

    async def create(self, call: Call[OpenQuery, CreateTableRequest]) -> Reply:
        """Make a table, or say what it would look like."""
        catalog = await self._desk.catalog(call)
        made = await self._service.create(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._desk.loaded(call, made)

    async def load(self, call: Call[LoadQuery, None]) -> Reply:
        """A table's metadata, or nothing if the caller has them already."""
        known, form = call.header(b"if-none-match"), call.query.snapshots
        if known is not None and known.strip() == "*":
            raise Invalid("If-None-Match: * says nothing about a table's metadata; send ETags")
        loaded = await self._service.load(*await self._name(call), since_ms=call.arrived_ms)
        if known is not None and is_unchanged(known, loaded.etag(form)):
            headers = {"ETag": loaded.etag(form), "Vary": VARY}
            return Reply(304, headers=headers, revalidates=False)
        return await self._desk.loaded(call, loaded, form)

    async def exists(self, call: Call[OpenQuery, None]) -> Reply:
        """Whether there is such a table."""
        await self._service.exists(*await self._name(call))
        return Reply(204)

    async def commit(self, call: Call[OpenQuery, CommitTableRequest]) -> Reply:
        """Change a table, or make the one that was staged."""
        done = await self._service.commit(*await self._name(call), call.body, caller_of(call))
        return await self._desk.loaded(call, done)

    async def drop(self, call: Call[DropQuery, None]) -> Reply:
        """Drop a table, with its files if that is asked for."""
        purges = call.query.purges
        await self._service.drop(*await self._name(call), caller_of(call), purge=purges)
        return Reply(204)

    async def unregister(self, call: Call[OpenQuery, Any]) -> Reply:
        """Let go of a table, and say where its metadata are."""
        gone = await self._service.unregister(*await self._name(call), caller_of(call))
        return await self._desk.loaded(call, gone, tagged=False)

    async def register(self, call: Call[OpenQuery, RegisterTableRequest]) -> Reply:
        """Give a name to a metadata file."""
        catalog = await self._desk.catalog(call)
        made = await self._service.register(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._desk.loaded(call, made)

    async def rename(self, call: Call[OpenQuery, RenameRequest]) -> Reply:
        """Give a table another name."""
        await self._service.rename(await self._desk.catalog(call), call.body, caller_of(call))
        return Reply(204)

    async def credentials(self, call: Call[OpenQuery, None]) -> Reply:
        """The credentials that are given out for a table: none, engines bring their own."""
        await self._service.exists(*await self._name(call))
        return _NO_CREDENTIALS

    async def commit_transaction(self, call: Call[OpenQuery, CommitTransactionRequest]) -> Reply:
        """Change several tables, all or none."""
        catalog = await self._desk.catalog(call)
        await self._desk.iceberg.transactions.commit(catalog, call.body, caller_of(call))
        return Reply(204)

    async def _name(self, call: Call[Any, Any]) -> tuple[str, tuple[str, ...], str]:
        return await self._desk.catalog(call), namespace_of(call), call.names["table"]
