"""Handlers of functions: there are none here, and engines are told so in their own words."""

from arco.api.iceberg.desk import IcebergDesk, namespace_of
from arco.api.iceberg.identifiers import identifiers
from arco.api.iceberg.paging import unpack
from arco.api.iceberg.queries import PageQuery
from arco.api.query_params import OpenQuery
from arco.api.route import Call, Reply
from arco.iceberg.refusal import Refused, dotted


class Functions:
    """Functions."""

    def __init__(self, desk: IcebergDesk) -> None:
        self._desk = desk

    async def page(self, call: Call[PageQuery, None]) -> Reply:
        """List the functions of a namespace."""
        if call.query.page_token:
            unpack(call.query.page_token)
        namespace = await self._namespace(call)
        return identifiers(namespace, (), None)

    async def load(self, call: Call[OpenQuery, None]) -> Reply:
        """A function."""
        named = dotted(await self._namespace(call), call.names["function"])
        raise Refused(404, "NoSuchFunctionException", f"Function does not exist: {named}")

    async def _namespace(
        self, call: Call[PageQuery, None] | Call[OpenQuery, None]
    ) -> tuple[str, ...]:
        """The namespace, which must be there."""
        namespace = namespace_of(call)
        await self._desk.iceberg.namespaces.load(await self._desk.catalog(call), namespace)
        return namespace
