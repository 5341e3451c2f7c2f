"""Handlers of views."""

from collections.abc import Sequence
from typing import Any

from arco.api.iceberg.desk import IcebergDesk, caller_of, namespace_of
from arco.api.iceberg.identifiers import identifiers
from arco.api.iceberg.paging import page
from arco.api.iceberg.queries import PageQuery
from arco.api.query_params import OpenQuery
from arco.api.route import Call, Reply
from arco.iceberg.wire import (
    CommitViewRequest,
    CreateViewRequest,
    RegisterViewRequest,
    RenameRequest,
)


class Views:
    """Views. The specification has no ETags for them."""

    def __init__(self, desk: IcebergDesk) -> None:
        self._desk = desk
        self._service = desk.iceberg.views

    async def page(self, call: Call[PageQuery, None]) -> Reply:
        """List the views of a namespace."""
        catalog, namespace = await self._desk.catalog(call), namespace_of(call)

        async def names(*, after: str | None, limit: int | None) -> Sequence[str]:
            return await self._service.page(catalog, namespace, after=after, limit=limit)

        return identifiers(namespace, *await page(call.query, names))

    async def create(self, call: Call[OpenQuery, CreateViewRequest]) -> Reply:
        """Make a view."""
        catalog = await self._desk.catalog(call)
        made = await self._service.create(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._desk.loaded(call, made, tagged=False)

    async def load(self, call: Call[OpenQuery, None]) -> Reply:
        """A view's metadata."""
        loaded = await self._service.load(*await self._name(call))
        return await self._desk.loaded(call, loaded, tagged=False)

    async def exists(self, call: Call[OpenQuery, None]) -> Reply:
        """Whether there is such a view."""
        await self._service.exists(*await self._name(call))
        return Reply(204)

    async def replace(self, call: Call[OpenQuery, CommitViewRequest]) -> Reply:
        """Change a view."""
        done = await self._service.replace(*await self._name(call), call.body, caller_of(call))
        return await self._desk.loaded(call, done, tagged=False)

    async def drop(self, call: Call[OpenQuery, None]) -> Reply:
        """Drop a view."""
        await self._service.drop(*await self._name(call), caller_of(call))
        return Reply(204)

    async def rename(self, call: Call[OpenQuery, RenameRequest]) -> Reply:
        """Give a view another name."""
        await self._service.rename(await self._desk.catalog(call), call.body, caller_of(call))
        return Reply(204)

    async def register(self, call: Call[OpenQuery, RegisterViewRequest]) -> Reply:
        """Give a name to a view's metadata file."""
        catalog = await self._desk.catalog(call)
        made = await self._service.register(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._desk.loaded(call, made, tagged=False)

    async def _name(self, call: Call[Any, Any]) -> tuple[str, tuple[str, ...], str]:
        return await self._desk.catalog(call), namespace_of(call), call.names["view"]
