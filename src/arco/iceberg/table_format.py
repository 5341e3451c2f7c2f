"""Iceberg as a table format of the catalog: the port that its own API reaches Iceberg tables and views by.

Name, type, nullability, default and comment of a column belong to Iceberg, as does the existence of a
table; owner, tags, comment, properties and PII classifications belong to the catalog. A request about
both first changes Iceberg, which decides, and then the catalog.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from arco.catalog.change import ClaimId, change
from arco.catalog.ddl import (
    AddColumns,
    Amendment,
    ColumnRequest,
    ColumnSpec,
    CreateTable,
    CreateView,
    DropColumn,
    DropTable,
    Request,
    SchemaName,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateTable,
    UpdateView,
    destination,
)
from arco.catalog.decision import amended_fields, refuse_stale
from arco.catalog.model import ObjectKind, TableRow
from arco.catalog.name import check_comment, check_name, check_owner, check_properties, check_tags
from arco.catalog.pending_request import Caller, ChangeResult
from arco.catalog.table_format import DefinedView, FormatOperation, ViewDefinition
from arco.core.errors import (
    ArcoError,
    Corrupt,
    Invalid,
    MissingMetadata,
    NoSuchView,
    NotFound,
    PreconditionFailed,
    Unknown,
)
from arco.iceberg.catalog_change import DescribeWork, RenameWork
from arco.iceberg.column_commit import (
    ColumnCommitWork,
    classifications_of,
    column_classifications,
    project_columns,
    read_catalog_result,
    table_row_of,
)
from arco.iceberg.context import IcebergContext
from arco.iceberg.create import CreateWork
from arco.iceberg.described_creation import check_columns, table_creation, view_creation
from arco.iceberg.drop import DropWork, UndropWork
from arco.iceberg.idempotency import (
    OperationResult,
    WrappedWork,
    error_answer,
    read_refusal,
    read_result,
)
from arco.iceberg.name_resolution import (
    FullName,
    find_occupant,
    release_name_later,
    release_name_now,
    resolve_name,
)
from arco.iceberg.namespaces import Namespaces
from arco.iceberg.view_commit import ViewCommitWork, view_definition
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms, IdempotentWork

FinishStep = Callable[[OperationResult], Awaitable[ChangeResult]]

_CATALOG_FIELDS = ("comment", "properties", "tags", "owner")
_ICEBERG_COLUMN_FIELDS = ("name", "data_type", "nullable", "comment", "default_value", "position")


class IcebergTableFormat:
    """Implements the catalog's port of a table format (`TableFormatPort`)."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context

    def decides(self, request: UpdateTable | DropTable | ColumnRequest) -> bool:
        if isinstance(request, UpdateView):
            return True
        if isinstance(request, UpdateTable):
            return destination(request) != request.target
        if isinstance(request, UpdateColumn):
            return any(getattr(request, name) is not UNSET for name in _ICEBERG_COLUMN_FIELDS)
        return True

    def create(self, request: CreateTable | CreateView, caller: Caller) -> FormatOperation:
        context = self._context
        if isinstance(request, CreateView):
            work = CreateWork(context, view_creation(context, request, caller))
            return self._operation(request, work, self._view_result)
        work = CreateWork(context, table_creation(context, request, caller))
        return self._operation(request, work, self._catalog_result)

    def alter(
        self, request: UpdateTable | ColumnRequest, kind: ObjectKind, caller: Caller
    ) -> FormatOperation:
        if isinstance(request, UpdateView):
            return self._update_view(request, caller)
        if isinstance(request, UpdateTable):
            return self._rename(request, kind, caller)
        return self._change_columns(request, kind, caller)

    def drop(self, request: DropTable, kind: ObjectKind, caller: Caller) -> FormatOperation:
        work = DropWork(self._context, _name(request.target), kind, caller)
        return self._operation(request, work, self._catalog_result)

    def undrop(self, request: Undrop, caller: Caller) -> FormatOperation:
        work = UndropWork(self._context, request.id, request.name, caller)
        return self._operation(request, work, self._catalog_result)

    async def describe(self, view: TableName) -> ViewDefinition:
        try:
            resolved = await resolve_name(self._context, _name(view), ObjectKind.VIEW)
        except NoSuchView as missing:
            raise NotFound(f"there is no view {view.table!r} in this schema") from missing
        return view_definition((await self._context.load(resolved.location)).metadata)

    async def is_dropped(self, table_id: str) -> bool:
        table_head = await self._context.heads.of(table_id)
        if table_head.is_live:
            return False
        release_name_later(self._context, table_id, table_head)
        return True

    async def release_name(self, name: TableName) -> None:
        await find_occupant(self._context, _name(name))  # releases the name of a dropped table

    async def release_name_of(self, row: TableRow) -> None:
        context = self._context
        table_head = await context.heads.of(row.table_id)
        if table_head.is_live:
            return
        if table_head.undecided is not None:
            raise NotFound(f"there is no table {row.name!r} in this schema")
        await release_name_now(context, row.table_id, table_head)

    async def release_names(self, schema: SchemaName) -> None:
        try:
            await Namespaces(self._context).release_names(schema.catalog, schema.path)
        except NotFound:
            return  # the schema does not exist: the catalog answers that

    def _operation(
        self, request: Request, work: IdempotentWork, finish: FinishStep
    ) -> FormatOperation:
        return _IcebergOperation(_IfMatchWork(self._context, work, request.expected), finish)

    def _rename(self, request: UpdateTable, kind: ObjectKind, caller: Caller) -> FormatOperation:
        context, source, target = self._context, request.target, destination(request)
        _check_amendment(request)
        check_name(target.table, "table")
        work = RenameWork(context, _name(source), _name(target), kind, caller)

        async def finish(result: OperationResult) -> ChangeResult:
            return await self._describe(request, target, result, caller)

        return self._operation(request, work, finish)

    def _update_view(self, request: UpdateView, caller: Caller) -> FormatOperation:
        _check_amendment(request)
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
                await project_columns(
                    context, _id(result), target, column_classifications(columns), caller.actor
                )
            if not isinstance(work, DescribeWork):
                await self._describe(request, target, result, caller)
            return await self._view_result(result)

        return self._operation(request, work, finish)

    async def _describe(
        self, request: UpdateTable, target: TableName, result: OperationResult, caller: Caller
    ) -> ChangeResult:
        """Change the catalog's part of a request, unless an earlier try did."""
        done = await self._catalog_result(result)
        described = UpdateTable(target=target, **_description(request))
        row = table_row_of(done).row
        requested = amended_fields(described, row)
        if all(getattr(row, name) == value for name, value in requested.items()):
            return done
        return await change(self._context.committer, described, caller.actor)

    def _change_columns(
        self, request: ColumnRequest, kind: ObjectKind, caller: Caller
    ) -> FormatOperation:
        context, target = self._context, request.target
        if kind is not ObjectKind.TABLE:
            raise Invalid("the columns of a view are those of its query: redefine the view")
        check_columns(_specs(request))
        work = ColumnCommitWork(context, _name(target), request, caller)

        async def finish(result: OperationResult) -> ChangeResult:
            return await project_columns(
                context, _id(result), target, classifications_of(request), caller.actor
            )

        return self._operation(request, work, finish)

    async def _catalog_result(self, result: OperationResult) -> ChangeResult:
        return await read_catalog_result(self._context, _id(result))

    async def _view_result(self, result: OperationResult) -> ChangeResult:
        """A view with its metadata, if it still exists."""
        context, done = self._context, await self._catalog_result(result)
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
            definition=view_definition(metadata),
        )


@dataclass(frozen=True)
class _IcebergOperation:
    """The work that changes Iceberg, and the finish step in the catalog."""

    work: IdempotentWork
    finish_step: FinishStep

    def refusal(self, answer: Answer) -> ArcoError:
        return read_refusal(answer)

    async def finish(self, answer: Answer) -> ChangeResult:
        try:
            return await self.finish_step(read_result(answer))
        except ArcoError as problem:
            if isinstance(problem, Unknown | Corrupt) and not isinstance(problem, MissingMetadata):
                raise
            raise Unknown(
                "the request has taken effect, but its last step failed; read the table, then retry"
            ) from problem


class _IfMatchWork(WrappedWork):
    """A work that is refused if the object does not have the version that If-Match names.

    The version is compared once, before the claim, with the snapshot that the terms of the work were read
    from, and the claim stores the result: a takeover must not take the request's own effect for another
    request's. So it does not see changes between that read and the commit, nor commits of engines that
    leave the table's row as it is, such as appends: the ETag is the version of that row.
    """

    def __init__(
        self, context: IcebergContext, work: IdempotentWork, expected: int | str | None
    ) -> None:
        super().__init__(work)
        self._context = context
        self._expected = expected

    async def terms(self) -> ClaimTerms:
        terms = await self._work.terms()
        stale = await self._stale(terms.ids.get(ClaimId.TABLE, ""))
        return (
            terms if stale is None else ClaimTerms({**terms.ids, ClaimId.STALE: stale}, terms.base)
        )

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        if ClaimId.STALE in claim.ids:
            return error_answer(PreconditionFailed(claim.ids[ClaimId.STALE]))
        return await self._work.perform(claim, hold)

    async def _stale(self, table_id: str) -> str | None:
        if self._expected is None or not table_id:
            return None
        reader = self._context.reader
        try:
            # To find the table by its name, the terms of the work have just read the head: this is it.
            table = await (reader.remembered() or await reader.head()).find(table_id)
            refuse_stale(self._expected, table)
        except NotFound:
            return None  # the work itself answers that there is no such table
        except PreconditionFailed as stale:
            return str(stale)
        return None


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
    placeholder = ColumnSpec(name="c", data_type="int")
    members = {name: getattr(request, name) for name in ColumnSpec.__struct_fields__}
    set_members = {name: value for name, value in members.items() if value is not UNSET}
    return (msgspec.structs.replace(placeholder, **set_members),)


def _description(request: UpdateTable) -> dict[str, Any]:
    return {name: getattr(request, name) for name in _CATALOG_FIELDS}


def _name(name: TableName) -> FullName:
    return FullName(name.catalog, name.schema, name.table)


def _id(result: OperationResult) -> str:
    if result.table_id is None:
        raise Corrupt("the stored result of a request on a table has no table id")
    return result.table_id
