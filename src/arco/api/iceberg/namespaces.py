"""Handlers of namespaces, which are the schemas of a catalog."""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import msgspec

from arco.api.iceberg.desk import IcebergDesk, answer, caller_of, levels, namespace_of
from arco.api.iceberg.paging import page
from arco.api.iceberg.queries import NamespacesQuery
from arco.api.query_params import OpenQuery
from arco.api.route import Call, Reply
from arco.iceberg.refusal import Refused
from arco.iceberg.wire import CreateNamespaceRequest, UpdatePropertiesRequest


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A body that is sent."""


class NamespacePage(Wire, frozen=True, kw_only=True):
    """Some namespaces, or all."""

    namespaces: Sequence[tuple[str, ...]]
    next_page_token: str | None


class NamespaceThing(Wire, frozen=True, kw_only=True):
    """A namespace."""

    namespace: tuple[str, ...]
    properties: Mapping[str, str]


class PropertiesThing(Wire, frozen=True, kw_only=True):
    """Which properties were changed."""

    updated: Sequence[str]
    removed: Sequence[str]
    missing: Sequence[str]


class Namespaces:
    """Namespaces."""

    def __init__(self, desk: IcebergDesk) -> None:
        self._desk = desk
        self._service = desk.iceberg.namespaces

    async def page(self, call: Call[NamespacesQuery, None]) -> Reply:
        """List the namespaces below another, or at the top."""
        catalog = await self._desk.catalog(call)
        spelled = call.query.parent
        try:
            return await self._below(catalog, spelled, call.query)
        except Refused as refused:
            plain = unquote(spelled)
            if refused.status != 404 or plain == spelled:
                raise
        # Some clients escape it twice. Nothing is called like that, so it is meant to be read again.
        return await self._below(catalog, plain, call.query)

    async def _below(self, catalog: str, spelled: str, query: NamespacesQuery) -> Reply:
        parent = levels(spelled) if spelled else ()

        async def names(*, after: str | None, limit: int | None) -> Sequence[str]:
            return await self._service.page(catalog, parent, after=after, limit=limit)

        leaves, token = await page(query, names)
        found = [(*parent, leaf) for leaf in leaves]
        return answer(NamespacePage(namespaces=found, next_page_token=token))

    async def create(self, call: Call[OpenQuery, CreateNamespaceRequest]) -> Reply:
        """Make a namespace."""
        catalog = await self._desk.catalog(call)
        properties = await self._service.create(catalog, call.body, caller_of(call))
        return answer(NamespaceThing(namespace=call.body.namespace, properties=properties))

    async def load(self, call: Call[OpenQuery, None]) -> Reply:
        """The properties of a namespace."""
        namespace = namespace_of(call)
        properties = await self._service.load(await self._desk.catalog(call), namespace)
        return answer(NamespaceThing(namespace=namespace, properties=properties))

    async def exists(self, call: Call[OpenQuery, None]) -> Reply:
        """Whether there is such a namespace."""
        await self._service.load(await self._desk.catalog(call), namespace_of(call))
        return Reply(204)

    async def drop(self, call: Call[OpenQuery, None]) -> Reply:
        """Drop an empty namespace."""
        catalog = await self._desk.catalog(call)
        await self._service.drop(catalog, namespace_of(call), caller_of(call))
        return Reply(204)

    async def update(self, call: Call[OpenQuery, UpdatePropertiesRequest]) -> Reply:
        """Remove and set properties of a namespace."""
        catalog = await self._desk.catalog(call)
        changed = await self._service.update(
            catalog, namespace_of(call), call.body, caller_of(call)
        )
        return answer(
            PropertiesThing(
                updated=changed.updated, removed=changed.removed, missing=changed.missing
            )
        )
