"""Handlers of tables, and of the metrics reports of engines, which are only counted."""

from functools import partial
from typing import Any

import msgspec

from arco.api.http.reply import Reply, is_unchanged
from arco.api.http.request import Call, LenientQuery
from arco.api.iceberg.context import (
    VARY,
    IcebergHandlerContext,
    caller_of,
    identifiers_reply,
    namespace_of,
)
from arco.api.iceberg.queries import IcebergDropQuery, IcebergPageQuery, LoadTableQuery, read_page
from arco.core.errors import Invalid
from arco.iceberg.wire import (
    CommitTableRequest,
    CommitTransactionRequest,
    CreateTableRequest,
    RegisterTableRequest,
    RenameRequest,
)

REPORT_TYPES = frozenset({"scan-report", "commit-report"})
OTHER = "other"  # one label for all other types, so that clients cannot create new ones

_NO_CREDENTIALS = Reply(200, b'{"storage-credentials":[]}')


class IcebergTableHandlers:
    """Create, list, load, commit, register, rename and drop tables."""

    def __init__(self, context: IcebergHandlerContext) -> None:
        self._context = context
        self._service = context.iceberg.tables

    async def page(self, call: Call[IcebergPageQuery, None]) -> Reply:
        """List the tables of a namespace."""
        catalog, namespace = await self._context.catalog(call), namespace_of(call)
        call.resolved_names = bool(call.unresolved_ids)
        names = partial(self._service.page, catalog, namespace)
        return identifiers_reply(namespace, *await read_page(call.query, names))

    async def create(self, call: Call[LenientQuery, CreateTableRequest]) -> Reply:
        """Create a table, or stage its creation."""
        catalog = await self._context.catalog(call)
        made = await self._service.create(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._context.loaded(call, made)

    async def load(self, call: Call[LoadTableQuery, None]) -> Reply:
        """Load a table's metadata, or answer 304 if the client has them."""
        if_none_match, form = call.header(b"if-none-match"), call.query.snapshots
        if if_none_match is not None and if_none_match.strip() == "*":
            raise Invalid("If-None-Match: * says nothing about a table's metadata; send ETags")
        loaded = await self._service.load(*await self._name(call), since_ms=call.arrived_ms)
        if if_none_match is not None and is_unchanged(if_none_match, loaded.etag(form)):
            headers = {"ETag": loaded.etag(form), "Vary": VARY}
            return Reply(304, headers=headers, revalidates=False)
        return await self._context.loaded(call, loaded, form)

    async def exists(self, call: Call[LenientQuery, None]) -> Reply:
        """Whether there is such a table."""
        await self._service.exists(*await self._name(call))
        return Reply(204)

    async def commit(self, call: Call[LenientQuery, CommitTableRequest]) -> Reply:
        """Commit to a table, or complete a staged create."""
        table = await self._service.commit(*await self._name(call), call.body, caller_of(call))
        return await self._context.loaded(call, table)

    async def drop(self, call: Call[IcebergDropQuery, None]) -> Reply:
        """Drop a table, with its files if requested."""
        purges = call.query.purges
        await self._service.drop(*await self._name(call), caller_of(call), purge=purges)
        return Reply(204)

    async def unregister(self, call: Call[LenientQuery, Any]) -> Reply:
        """Remove a table from the catalog, and answer with its metadata."""
        gone = await self._service.unregister(*await self._name(call), caller_of(call))
        return await self._context.loaded(call, gone, tagged=False)

    async def register(self, call: Call[LenientQuery, RegisterTableRequest]) -> Reply:
        """Register a metadata file as a table."""
        catalog = await self._context.catalog(call)
        made = await self._service.register(catalog, namespace_of(call), call.body, caller_of(call))
        return await self._context.loaded(call, made)

    async def rename(self, call: Call[LenientQuery, RenameRequest]) -> Reply:
        """Rename a table."""
        await self._service.rename(await self._context.catalog(call), call.body, caller_of(call))
        return Reply(204)

    async def credentials(self, call: Call[LenientQuery, None]) -> Reply:
        """No credentials: engines bring their own."""
        await self._service.exists(*await self._name(call))
        return _NO_CREDENTIALS

    async def commit_transaction(self, call: Call[LenientQuery, CommitTransactionRequest]) -> Reply:
        """Commit to several tables, all or none."""
        catalog = await self._context.catalog(call)
        await self._context.iceberg.transactions.commit(catalog, call.body, caller_of(call))
        return Reply(204)

    async def _name(self, call: Call[Any, Any]) -> tuple[str, tuple[str, ...], str]:
        return await self._context.catalog(call), namespace_of(call), call.path_params["table"]


class MetricsReport(msgspec.Struct, frozen=True, rename="kebab"):
    """The one field that is read."""

    report_type: msgspec.Raw = msgspec.Raw(b"null")


class MetricsReportHandlers:
    """Count reports of scans and commits."""

    def __init__(self, context: IcebergHandlerContext) -> None:
        self._metrics = context.services.metrics

    async def report(self, call: Call[LenientQuery, MetricsReport]) -> Reply:
        """Count a report of a scan or a commit."""
        report_type = bytes(call.body.report_type).decode(errors="replace").strip('"')
        self._metrics.count_report(report_type if report_type in REPORT_TYPES else OTHER)
        return Reply(204)
