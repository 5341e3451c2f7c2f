"""Requests of the catalog's own API, carried out by the catalog or by the format of the table.

A new table is routed by the requested format, an existing one by the format of its row. The catalog carries
out everything about formats that are not served through a port, such as Parquet, and what only it records
about the others.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from arco.catalog.change import OBJECT, ChangeWork, Renderer, change
from arco.catalog.committer import Committer
from arco.catalog.ddl import (
    AddColumns,
    CatalogRequest,
    ColumnRequest,
    CreateTable,
    CreateView,
    Ddl,
    DropColumn,
    DropTable,
    DropView,
    SchemaName,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateTable,
    UpdateView,
    destination,
)
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.pending_request import ChangeResult
from arco.catalog.snapshot import Snapshot
from arco.catalog.table_format import Caller, FormatOperation, TableFormatPort, ViewDefinition
from arco.core.errors import Invalid, NotFound, Unsupported
from arco.core.ids import new_object_id
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms, IdempotentWork, perform_without_key

VIEW_FORMAT = TableFormat.ICEBERG  # of all views

# In the ids of a claim, if a format carries the request out: the kind of object, and the format.
_KIND = "way"
_FORMAT = "format"  # Iceberg if absent


class FormatRoute(NamedTuple):
    """The format that carries a request out, and the kind of object that the request is about."""

    format: TableFormat
    kind: ObjectKind


class FormatRouter:
    """Carries out requests, each by the catalog or by a format that is served through a port.

    Routing uses the snapshot that this process remembers: no request to the store, unless that has no such
    name. If the snapshot is stale, the request is refused, and routed again by the newest one.
    """

    def __init__(
        self, committer: Committer, formats: Mapping[TableFormat, TableFormatPort] | None = None
    ) -> None:
        self._committer = committer
        self._reader = committer.reader
        self._formats = formats or {}

    async def apply(self, request: CatalogRequest, caller: Caller) -> ChangeResult:
        """Carry out a request without an idempotency key; a refusal is raised."""
        route = await self.route(request)
        if route is None:
            return await change(self._committer, catalog_form(request), caller.actor)
        operation = self.operation(request, route, caller)
        try:
            answer = await perform_without_key(self._reader.store.runtime, operation.work)
            refusal = None if answer.succeeded else operation.refusal(answer)
        except NotFound as missing:
            refusal = missing
        if refusal is None:
            return await operation.finish(answer)
        if isinstance(refusal, NotFound) and await self.route(request) is None:
            # The remembered row of the name was stale.
            return await change(self._committer, catalog_form(request), caller.actor)
        raise refusal

    def work(self, request: CatalogRequest, caller: Caller, renderer: Renderer) -> IdempotentWork:
        """A request as work under its idempotency key."""
        ids: dict[str, str] = {OBJECT: new_object_id(self._reader.store.runtime)}
        plain = ChangeWork(
            self._committer, lambda _: catalog_form(request), caller.actor, renderer, ids
        )
        return _RoutedWork(self, request, caller, plain, renderer) if self._formats else plain

    async def describe_view(self, name: TableName) -> ViewDefinition:
        """The definition of a view, or `NotFound`."""
        self.require_views()
        return await self._formats[VIEW_FORMAT].describe(name)

    def require_views(self) -> None:
        """`Unsupported` if the format of views is not served."""
        if VIEW_FORMAT not in self._formats:
            raise Unsupported(
                "views need the Iceberg catalog, and this server runs without it; start it with "
                "`arco up` or `arco api`"
            )

    async def is_dead(self, row: TableRow) -> bool:
        """Whether a table with an unresolved name does not exist, whatever the catalog says (P31)."""
        port = self._port(row)
        return port is not None and await port.is_dead(row.table_id)

    async def release_dead_names(self, schema: SchemaName) -> None:
        """Release dead names, so that they do not keep a schema alive (P31)."""
        for port in self._formats.values():
            await port.release_dead_names(schema)

    async def route(self, request: CatalogRequest) -> FormatRoute | None:
        """The format that carries a request out; None if the catalog does.

        Dead names are released first, so that the catalog decides as if they did not exist (P31).
        """
        if isinstance(request, CreateTable):
            if request.format in self._formats:
                return FormatRoute(request.format, ObjectKind.TABLE)
            await self._free(TableName(request.schema.catalog, request.schema.path, request.name))
            return None
        if isinstance(request, CreateView):
            self.require_views()
            return FormatRoute(VIEW_FORMAT, ObjectKind.VIEW)
        if isinstance(request, Undrop):
            return await self._route_dropped(request)
        if isinstance(request, UpdateTable | DropTable | AddColumns | UpdateColumn | DropColumn):
            return await self._route_named(request)
        return None

    def operation(
        self, request: CatalogRequest, route: FormatRoute, caller: Caller
    ) -> FormatOperation:
        """The operation of a format that carries a request out."""
        port, kind = self._formats[route.format], route.kind
        if isinstance(request, CreateTable | CreateView):
            return port.create(request, caller)
        if isinstance(request, Undrop):
            return port.undrop(request, caller)
        if isinstance(request, DropTable):
            return port.drop(request, kind, caller)
        if isinstance(request, UpdateTable | AddColumns | UpdateColumn | DropColumn):
            return port.alter(request, kind, caller)
        raise Invalid("the request is not about a table or a view")

    async def _route_named(
        self, request: UpdateTable | DropTable | ColumnRequest
    ) -> FormatRoute | None:
        if not self._formats:
            return None
        row = await self._row(request.target)
        table_format = None if row is None else row.format
        is_served = table_format in self._formats
        if isinstance(request, UpdateView | DropView) and not (
            is_served and row is not None and row.kind is ObjectKind.VIEW
        ):
            raise NotFound(f"there is no view {request.target.table!r} in this schema")
        if row is not None and table_format is not None and is_served:
            port = self._formats[table_format]
            if port.decides(request):
                return FormatRoute(table_format, row.kind)
            await port.release_if_dead(row)
        elif isinstance(request, UpdateTable) and destination(request) != request.target:
            await self._free(destination(request))
        return None

    async def _route_dropped(self, request: Undrop) -> FormatRoute | None:
        if not self._formats:
            return None
        snapshot = self._reader.remembered() or await self._reader.head()
        try:
            row = (await snapshot.find(request.id, dropped=True)).row
        except NotFound:
            snapshot = await self._reader.head()
            try:
                row = (await snapshot.find(request.id, dropped=True)).row
            except NotFound:
                return None
        if not isinstance(row, TableRow):
            return None
        catalog, *schema, name = await snapshot.levels(row)
        await self._free(TableName(catalog, tuple(schema), request.name or name))
        if row.format is None or row.format not in self._formats:
            return None
        return FormatRoute(row.format, row.kind)

    def _port(self, row: TableRow) -> TableFormatPort | None:
        return None if row.format is None else self._formats.get(row.format)

    async def _row(self, name: TableName) -> TableRow | None:
        snapshot = self._reader.remembered()
        row = None if snapshot is None else await _find_row(snapshot, name)
        return await _find_row(await self._reader.head(), name) if row is None else row

    async def _free(self, name: TableName) -> None:
        """Release a name that another object is about to get, if its table is dead."""
        snapshot = self._reader.remembered()
        row = None if snapshot is None else await _find_row(snapshot, name)
        port = None if row is None else self._port(row)
        if port is not None:
            await port.free_name(name)


class _RoutedWork:
    """A request with a key, which the catalog or a format carries out.

    Its claim fixes which: a retry takes the same way even if the name was dropped or reused since.
    """

    def __init__(
        self,
        changes: FormatRouter,
        request: CatalogRequest,
        caller: Caller,
        plain: IdempotentWork,
        renderer: Renderer,
    ) -> None:
        self._changes = changes
        self._request = request
        self._caller = caller
        self._plain = plain
        self._renderer = renderer
        self._operation: FormatOperation | None = None

    async def terms(self) -> ClaimTerms:
        route = await self._changes.route(self._request)
        if route is None:
            return await self._plain.terms()
        terms = await self._begin(route).work.terms()
        if not terms.ids.get("table", "-") and await self._changes.route(self._request) is None:
            return await self._plain.terms()  # the remembered row of the name was stale
        ids = {**terms.ids, _KIND: str(route.kind)}
        if route.format is not TableFormat.ICEBERG:
            ids[_FORMAT] = str(route.format)
        return ClaimTerms(ids, terms.base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        operation = self._claimed(claim)
        if operation is None:
            return await self._plain.find(claim)
        answer = await operation.work.find(claim)
        return None if answer is None else await self._answer(operation, answer)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        operation = self._claimed(claim)
        if operation is None:
            return await self._plain.perform(claim, hold)
        return await self._answer(operation, await operation.work.perform(claim, hold))

    def _begin(self, route: FormatRoute) -> FormatOperation:
        if self._operation is None:
            self._operation = self._changes.operation(self._request, route, self._caller)
        return self._operation

    def _claimed(self, claim: Claim) -> FormatOperation | None:
        """The operation that the claim was made for; None if it is the catalog's."""
        if _KIND not in claim.ids:
            return None
        table_format = TableFormat(claim.ids.get(_FORMAT, TableFormat.ICEBERG))
        return self._begin(FormatRoute(table_format, ObjectKind(claim.ids[_KIND])))

    async def _answer(self, operation: FormatOperation, answer: Answer) -> Answer:
        if not answer.succeeded:
            return self._renderer.refused(operation.refusal(answer))
        done = self._renderer.done(await operation.finish(answer))
        return msgspec.structs.replace(done, has_landed=answer.has_landed)


def catalog_form(request: CatalogRequest) -> Ddl:
    """The request that the catalog itself can carry out."""
    if isinstance(request, CreateView):
        raise Invalid("a view is created by its format, not by the catalog alone")
    if isinstance(request, UpdateView):
        return UpdateTable(
            **{name: getattr(request, name) for name in UpdateTable.__struct_fields__}
        )
    if isinstance(request, DropView):
        return DropTable(target=request.target, expected=request.expected)
    return request


async def _find_row(snapshot: Snapshot, name: TableName) -> TableRow | None:
    try:
        return (await snapshot.table(name)).row
    except NotFound:
        return None
