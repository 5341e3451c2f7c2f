"""Requests of the catalog's own API on Iceberg tables and views, and the work that carries each out.

Name, type, nullability, default and comment of a column belong to Iceberg, as does the existence of a
table; owner, tags, comment, properties and PII classifications belong to the catalog. A request about
both first changes Iceberg, which decides, and then the catalog.
"""

from typing import Any

import msgspec
from msgspec import UNSET

from arco.catalog.change import Renderer, change
from arco.catalog.ddl import (
    AddColumns,
    Amendment,
    ColumnSpec,
    CreateTable,
    Ddl,
    DropColumn,
    DropTable,
    SchemaName,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.decision import amended_fields
from arco.catalog.model import ObjectKind
from arco.catalog.name import check_comment, check_name, check_owner, check_properties, check_tags
from arco.catalog.pending_request import ChangeResult
from arco.core.errors import Invalid, NoSuchView, NotFound
from arco.iceberg.catalog_change import DescribeWork, RenameWork
from arco.iceberg.context import Caller, IcebergContext
from arco.iceberg.create import CreateWork
from arco.iceberg.drop import DropWork, UndropWork
from arco.iceberg.engine.columns import ColumnRequest
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.format_routing import FormatRouter, NativeRequest, destination
from arco.iceberg.idempotency import OperationResult, answer_once, read_refusal, read_result
from arco.iceberg.name_resolution import FullName, release_name, resolve_name
from arco.iceberg.namespaces import Namespaces
from arco.iceberg.native_commit import (
    ColumnCommitWork,
    ViewCommitWork,
    classifications_of,
    column_classifications,
    read_shown,
    show_columns,
    table_row_of,
)
from arco.iceberg.native_create import check_columns, table_creation, view_creation
from arco.iceberg.native_request import (
    IfMatchWork,
    KeyedNativeWork,
    NativeOperation,
    finish_operation,
)
from arco.iceberg.view_request import CreateView, DropView, UpdateView
from arco.ledger.idempotency import IdempotentWork

_DESCRIBED = ("comment", "properties", "tags", "owner")


class DefinedView(ChangeResult, frozen=True, kw_only=True):
    """The result of a request about a view, with the view's metadata."""

    metadata: Metadata


class NativeTables:
    """Carries out requests of the catalog's own API on Iceberg tables and views."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context
        self._router = FormatRouter(context)

    async def carry_out(self, request: NativeRequest, caller: Caller) -> ChangeResult | None:
        """Carry out a request without a key; None if the catalog itself carries it out."""
        kind = await self._router.kind_of(request)
        if kind is None:
            return None
        operation = self._operation(request, kind, caller)
        answer = await answer_once(self._context, caller, operation.work, None)
        is_missing = isinstance(read_refusal(answer), NotFound)
        if is_missing and await self._router.kind_of(request) is None:
            return None  # the remembered row of the name was stale
        return await finish_operation(operation, read_result(answer))

    def work(
        self, request: NativeRequest, caller: Caller, plain: IdempotentWork, renderer: Renderer
    ) -> IdempotentWork:
        """A request as work under its key; `plain` is how the catalog itself would carry it out."""
        return KeyedNativeWork(
            plain,
            lambda: self._router.kind_of(request),
            lambda kind: self._operation(request, kind, caller),
            renderer,
        )

    async def view(self, name: TableName) -> Metadata:
        """The metadata of a view, or `NotFound`."""
        try:
            resolved = await resolve_name(self._context, _name(name), ObjectKind.VIEW)
        except NoSuchView as missing:
            raise NotFound(f"there is no view {name.table!r} in this schema") from missing
        return (await self._context.load(resolved.location)).metadata

    async def is_dead(self, table_id: str) -> bool:
        """Whether a table with an unresolved name does not exist, whatever the catalog says (P31)."""
        context = self._context
        table_head = await context.heads.of(table_id)
        if table_head.is_live:
            return False
        if table_head.undecided is None:
            context.after_commit.run_in_background(
                table_id, release_name(context, table_id, table_head)
            )
        return True

    async def release_dead(self, schema: SchemaName) -> None:
        """Release dead names, so that they do not keep a schema alive (P31)."""
        try:
            await Namespaces(self._context).release_dead(schema.catalog, schema.path)
        except NotFound:
            return  # the schema does not exist: the catalog answers that

    def _operation(
        self, request: NativeRequest, kind: ObjectKind, caller: Caller
    ) -> NativeOperation:
        """The operation that carries a request out on a table or a view."""
        operation = self._plain_operation(request, kind, caller)
        return NativeOperation(
            IfMatchWork(self._context, operation.work, request.expected), operation.finish
        )

    def _plain_operation(
        self, request: NativeRequest, kind: ObjectKind, caller: Caller
    ) -> NativeOperation:
        context = self._context
        if isinstance(request, CreateTable):
            return NativeOperation(
                CreateWork(context, table_creation(context, request, caller)), self._shown
            )
        if isinstance(request, CreateView):
            return NativeOperation(
                CreateWork(context, view_creation(context, request, caller)), self._view_result
            )
        if isinstance(request, Undrop):
            return NativeOperation(
                UndropWork(context, request.id, request.name, caller), self._shown
            )
        if isinstance(request, UpdateTable):
            return self._update(request, kind, caller)
        if isinstance(request, DropTable):
            return NativeOperation(
                DropWork(context, _name(request.target), kind, caller), self._shown
            )
        if isinstance(request, AddColumns | UpdateColumn | DropColumn):
            return self._columns(request, kind, caller)
        raise Invalid("the request is not about a table or a view")

    def _update(self, request: UpdateTable, kind: ObjectKind, caller: Caller) -> NativeOperation:
        context, source, target = self._context, request.target, destination(request)
        _check_amendment(request)
        if isinstance(request, UpdateView):
            return self._update_view(request, caller)
        check_name(target.table, "table")
        work = RenameWork(context, _name(source), _name(target), kind, caller)

        async def finish(result: OperationResult) -> ChangeResult:
            return await self._describe(request, target, result, caller)

        return NativeOperation(work, finish)

    def _update_view(self, request: UpdateView, caller: Caller) -> NativeOperation:
        context, target, redefinition = self._context, destination(request), request.redefinition
        columns = () if redefinition.columns is UNSET else redefinition.columns
        work: IdempotentWork
        if not redefinition.is_empty:
            if target != request.target:
                raise Invalid("rename a view and change its query in two requests")
            check_columns(columns)
            work = ViewCommitWork(context, _name(target), redefinition, caller)
        elif target != request.target:
            work = RenameWork(
                context, _name(request.target), _name(target), ObjectKind.VIEW, caller
            )
        else:
            work = DescribeWork(
                context, UpdateTable(target=target, **_description(request)), caller
            )

        async def finish(result: OperationResult) -> ChangeResult:
            if not redefinition.is_empty:
                await show_columns(
                    context, _id(result), target, column_classifications(columns), caller.actor
                )
            if not isinstance(work, DescribeWork):
                await self._describe(request, target, result, caller)
            return await self._view_result(result)

        return NativeOperation(work, finish)

    async def _describe(
        self, request: UpdateTable, target: TableName, result: OperationResult, caller: Caller
    ) -> ChangeResult:
        """Change the catalog's part of a request, unless an earlier try did."""
        done = await self._shown(result)
        described = UpdateTable(target=target, **_description(request))
        row = table_row_of(done).row
        requested = amended_fields(described, row)
        if all(getattr(row, name) == value for name, value in requested.items()):
            return done
        return await change(self._context.committer, described, caller.actor)

    def _columns(self, request: ColumnRequest, kind: ObjectKind, caller: Caller) -> NativeOperation:
        context, target = self._context, request.target
        if kind is not ObjectKind.TABLE:
            raise Invalid("the columns of a view are those of its query: redefine the view")
        check_columns(_specs(request))
        work = ColumnCommitWork(context, _name(target), request, caller)

        async def finish(result: OperationResult) -> ChangeResult:
            return await show_columns(
                context, _id(result), target, classifications_of(request), caller.actor
            )

        return NativeOperation(work, finish)

    async def _shown(self, result: OperationResult) -> ChangeResult:
        return await read_shown(self._context, _id(result))

    async def _view_result(self, result: OperationResult) -> ChangeResult:
        """A view with its metadata, if it still exists."""
        context, done = self._context, await self._shown(result)
        table_head = await context.heads.of(_id(result))
        if table_head.location is None:
            return done
        metadata = (await context.load(table_head.location)).metadata
        return DefinedView(
            number=done.number,
            commit_ulid=done.commit_ulid,
            operation=done.operation,
            object=done.object,
            columns=done.columns,
            metadata=metadata,
        )


def plain_request(request: NativeRequest) -> Ddl:
    """The catalog's form of a request that changes nothing of Iceberg's."""
    if isinstance(request, CreateView):
        raise Invalid("a view is created in Iceberg, not by the catalog alone")
    if isinstance(request, UpdateView):
        fields = {name: getattr(request, name) for name in UpdateTable.__struct_fields__}
        return UpdateTable(**fields)
    if isinstance(request, DropView):
        return DropTable(target=request.target, expected=request.expected)
    return request


def _check_amendment(request: Amendment) -> None:
    """`Invalid` if the catalog would refuse its part, checked before Iceberg's part is done."""
    if isinstance(request.comment, str):
        check_comment(request.comment)
    if isinstance(request.properties, dict):
        check_properties({k: v for k, v in request.properties.items() if v is not None})
    if request.tags is not UNSET:
        check_tags(request.tags)
    if isinstance(request.owner, str):
        check_owner(request.owner)


def _specs(request: ColumnRequest) -> tuple[ColumnSpec, ...]:
    """The columns of a request as specs; unset members have valid placeholders."""
    if isinstance(request, AddColumns):
        return request.columns
    if isinstance(request, DropColumn):
        return ()
    anything = ColumnSpec(name="c", data_type="int")
    members = {name: getattr(request, name) for name in ColumnSpec.__struct_fields__}
    asked = {name: value for name, value in members.items() if value is not UNSET}
    return (msgspec.structs.replace(anything, **asked),)


def _description(request: UpdateTable) -> dict[str, Any]:
    return {name: getattr(request, name) for name in _DESCRIBED}


def _name(name: TableName) -> FullName:
    return FullName(name.catalog, name.schema, name.table)


def _id(result: OperationResult) -> str:
    if result.table_id is None:
        raise Invalid("the operation has no table id in its result")
    return result.table_id
