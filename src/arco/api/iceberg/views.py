"""Handlers of views, and of functions, of which Arco has none."""

from functools import partial
from typing import Any

from arco.api.http.reply import Reply
from arco.api.http.request import Call, LenientQuery
from arco.api.iceberg.context import (
    IcebergHandlerContext,
    caller_of,
    identifiers_reply,
    namespace_of,
)
from arco.api.iceberg.errors import NoSuchFunction
from arco.api.iceberg.queries import IcebergPageQuery, decode_token, read_page
from arco.iceberg.errors import dotted
from arco.iceberg.wire import (
    CommitViewRequest,
    CreateViewRequest,
    RegisterViewRequest,
    RenameRequest,
)


class IcebergViewHandlers:
    """Create, list, load, replace, register, rename and drop views, which have no ETags in Iceberg."""

    def __init__(self, context: IcebergHandlerContext) -> None:
        self._context = context
        self._service = context.iceberg.views

    async def page(self, call: Call[IcebergPageQuery, None]) -> Reply:
        """List the views of a namespace."""
        catalog, namespace = await self._context.catalog(call), namespace_of(call)
        call.resolved_names = bool(call.unresolved_ids)
        names = partial(self._service.page, catalog, namespace)
        return identifiers_reply(namespace, *await read_page(call.query, names))

    async def create(self, call: Call[LenientQuery, CreateViewRequest]) -> Reply:
        """Create a view."""
        catalog = await self._context.catalog(call)
        made = await self._service.create(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._context.loaded(call, made, tagged=False)

    async def load(self, call: Call[LenientQuery, None]) -> Reply:
        """Load a view's metadata."""
        loaded = await self._service.load(*await self._name(call))
        return await self._context.loaded(call, loaded, tagged=False)

    async def exists(self, call: Call[LenientQuery, None]) -> Reply:
        """Whether there is such a view."""
        await self._service.exists(*await self._name(call))
        return Reply(204)

    async def replace(self, call: Call[LenientQuery, CommitViewRequest]) -> Reply:
        """Replace a view."""
        view = await self._service.replace(*await self._name(call), call.body, caller_of(call))
        return await self._context.loaded(call, view, tagged=False)

    async def drop(self, call: Call[LenientQuery, None]) -> Reply:
        """Drop a view."""
        await self._service.drop(*await self._name(call), caller_of(call))
        return Reply(204)

    async def rename(self, call: Call[LenientQuery, RenameRequest]) -> Reply:
        """Rename a view."""
        await self._service.rename(await self._context.catalog(call), call.body, caller_of(call))
        return Reply(204)

    async def register(self, call: Call[LenientQuery, RegisterViewRequest]) -> Reply:
        """Register a metadata file as a view."""
        catalog = await self._context.catalog(call)
        made = await self._service.register(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._context.loaded(call, made, tagged=False)

    async def _name(self, call: Call[Any, Any]) -> tuple[str, tuple[str, ...], str]:
        return await self._context.catalog(call), namespace_of(call), call.path_params["view"]


class FunctionHandlers:
    """Answer that there are no functions."""

    def __init__(self, context: IcebergHandlerContext) -> None:
        self._context = context

    async def page(self, call: Call[IcebergPageQuery, None]) -> Reply:
        """List the functions of a namespace."""
        if call.query.page_token:
            decode_token(call.query.page_token)
        namespace = await self._namespace(call)
        return identifiers_reply(namespace, (), None)

    async def load(self, call: Call[LenientQuery, None]) -> Reply:
        """A function."""
        name = dotted(await self._namespace(call), call.path_params["function"])
        raise NoSuchFunction(f"Function does not exist: {name}")

    async def _namespace(
        self, call: Call[IcebergPageQuery, None] | Call[LenientQuery, None]
    ) -> tuple[str, ...]:
        """The namespace in the path, which must exist."""
        namespace = namespace_of(call)
        await self._context.iceberg.namespaces.load(await self._context.catalog(call), namespace)
        return namespace
