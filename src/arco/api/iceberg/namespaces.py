"""Handlers of namespaces, which are the schemas of a catalog."""

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import unquote

import msgspec

from arco.api.http.reply import Reply
from arco.api.http.request import Call, LenientQuery
from arco.api.iceberg.context import (
    IcebergHandlerContext,
    caller_of,
    json_reply,
    levels,
    namespace_of,
)
from arco.api.iceberg.queries import NamespacesQuery, read_page
from arco.core.errors import NoSuchSchema
from arco.iceberg.wire import CreateNamespaceRequest, UpdatePropertiesRequest


class IcebergResponse(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A body that is sent, with the field names of the specification."""


class NamespacePage(IcebergResponse, frozen=True, kw_only=True):
    """A page of namespaces."""

    namespaces: Sequence[tuple[str, ...]]
    next_page_token: str | None


class NamespaceResponse(IcebergResponse, frozen=True, kw_only=True):
    """A namespace."""

    namespace: tuple[str, ...]
    properties: Mapping[str, str]


class UpdatePropertiesResponse(IcebergResponse, frozen=True, kw_only=True):
    """Which properties were changed."""

    updated: Sequence[str]
    removed: Sequence[str]
    missing: Sequence[str]


class NamespaceHandlers:
    """Create, list, load, update and drop namespaces."""

    def __init__(self, context: IcebergHandlerContext) -> None:
        self._context = context
        self._service = context.iceberg.namespaces

    async def page(self, call: Call[NamespacesQuery, None]) -> Reply:
        """List the namespaces below another, or at the top."""
        catalog = await self._context.catalog(call)
        parent = call.query.parent
        try:
            return await self._children(catalog, parent, call.query)
        except NoSuchSchema:
            unescaped = unquote(parent)
            if unescaped == parent:
                raise
        # Some clients escape the parent twice.
        return await self._children(catalog, unescaped, call.query)

    async def _children(self, catalog: str, parent_text: str, query: NamespacesQuery) -> Reply:
        parent = levels(parent_text) if parent_text else ()
        names = partial(self._service.page, catalog, parent)
        leaves, token = await read_page(query, names)
        namespaces = [(*parent, leaf) for leaf in leaves]
        return json_reply(NamespacePage(namespaces=namespaces, next_page_token=token))

    async def create(self, call: Call[LenientQuery, CreateNamespaceRequest]) -> Reply:
        """Create a namespace."""
        catalog = await self._context.catalog(call)
        properties = await self._service.create(catalog, call.body, caller_of(call))
        return json_reply(NamespaceResponse(namespace=call.body.namespace, properties=properties))

    async def load(self, call: Call[LenientQuery, None]) -> Reply:
        """Load the properties of a namespace."""
        namespace = namespace_of(call)
        properties = await self._service.load(await self._context.catalog(call), namespace)
        return json_reply(NamespaceResponse(namespace=namespace, properties=properties))

    async def exists(self, call: Call[LenientQuery, None]) -> Reply:
        """Whether there is such a namespace."""
        await self._service.load(await self._context.catalog(call), namespace_of(call))
        return Reply(204)

    async def drop(self, call: Call[LenientQuery, None]) -> Reply:
        """Drop an empty namespace."""
        catalog = await self._context.catalog(call)
        await self._service.drop(catalog, namespace_of(call), caller_of(call))
        return Reply(204)

    async def update(self, call: Call[LenientQuery, UpdatePropertiesRequest]) -> Reply:
        """Remove and set properties of a namespace."""
        catalog = await self._context.catalog(call)
        changed = await self._service.update(
            catalog, namespace_of(call), call.body, caller_of(call)
        )
        return json_reply(
            UpdatePropertiesResponse(
                updated=changed.updated, removed=changed.removed, missing=changed.missing
            )
        )
