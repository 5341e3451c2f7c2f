"""The catalog's own API on Iceberg tables and views: what it asks, and which of the room's works does it.

Name, type, nullability, default and comment of columns are Iceberg's, and so is whether a table is there;
owner, tags, comment, properties and what is personal are the catalog's own. A request about both is carried
out in this order: first Iceberg's part, which decides, then the catalog's.
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
from arco.catalog.decision import amended
from arco.catalog.done import Done
from arco.catalog.model import ObjectKind
from arco.catalog.name import check_comment, check_name, check_owner, check_properties, check_tags
from arco.core.errors import Invalid, NotFound
from arco.iceberg.catalog_change import DescribeWork, RenameWork
from arco.iceberg.context import Caller, Desk
from arco.iceberg.create import CreateWork
from arco.iceberg.drop import DropWork, UndropWork
from arco.iceberg.engine.columns import ColumnRequest
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.errors import Refused, Unreadable, core_error, unreadable
from arco.iceberg.format_routing import NativeRequest, Ruling, destination
from arco.iceberg.idempotency import Told, run
from arco.iceberg.name_resolution import Name, release, resolve
from arco.iceberg.namespaces import Namespaces
from arco.iceberg.native_commit import (
    ColumnCommit,
    ViewCommit,
    found_table,
    marks_in,
    marks_of,
    show_columns,
    shown,
)
from arco.iceberg.native_create import check_columns, table_birth, view_birth
from arco.iceberg.native_request import Errand, KeyedErrand, MatchedWork, finished
from arco.iceberg.view_request import CreateView, DropView, UpdateView
from arco.ledger.idempotency import Work

_DESCRIBED = ("comment", "properties", "tags", "owner")


class DefinedView(Done, frozen=True, kw_only=True):
    """What a request about a view has come to, and the view's metadata by then."""

    metadata: Metadata


class NativeTables:
    """Iceberg tables and views, ruled by requests of the catalog's own API."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ruling = Ruling(desk)

    async def carry_out(self, request: NativeRequest, caller: Caller) -> Done | None:
        """Carry a request out that has no key; None if it is the catalog's own to carry out."""
        kind = await self._ruling.kind_of(request)
        if kind is None:
            return None
        errand = self._errand(request, kind, caller)
        try:
            told = await run(self._desk, caller, errand.work, None)
        except Refused as verdict:
            if verdict.status == 404 and await self._ruling.kind_of(request) is None:
                return None  # what we remembered of the name was old
            raise core_error(verdict) from verdict
        return await finished(errand, told)

    def work(self, request: NativeRequest, caller: Caller, plain: Work, renderer: Renderer) -> Work:
        """A request as work under its key; `plain` is how the catalog itself would carry it out."""
        return KeyedErrand(
            plain,
            lambda: self._ruling.kind_of(request),
            lambda kind: self._errand(request, kind, caller),
            renderer,
        )

    async def view(self, name: TableName) -> Metadata:
        """The metadata of a view, or `NotFound`."""
        try:
            found = await resolve(self._desk, _name(name), ObjectKind.VIEW)
        except Refused as missing:
            raise NotFound(f"there is no view {name.table!r} in this schema") from missing
        try:
            return (await self._desk.load(found.location)).metadata
        except Unreadable as problem:
            raise unreadable(problem) from problem

    async def is_dead(self, table_id: str) -> bool:
        """Whether a table that is in doubt is not there, whatever the catalog says (P31)."""
        desk = self._desk
        standing = await desk.standings.of(table_id)
        if standing.is_live:
            return False
        if standing.undecided is None:
            desk.aftermath.beside(table_id, release(desk, table_id, standing))
        return True

    async def release_dead(self, schema: SchemaName) -> None:
        """Release names that only seem to be there, so that they keep no schema alive (P31)."""
        try:
            await Namespaces(self._desk).release_dead(schema.catalog, schema.path)
        except (Refused, NotFound):
            return  # there is no such schema: the catalog will say so

    def _errand(self, request: NativeRequest, kind: ObjectKind, caller: Caller) -> Errand:
        """How the room carries a request out on a table or a view."""
        errand = self._unmatched(request, kind, caller)
        return Errand(MatchedWork(self._desk, errand.work, request.expected), errand.finish)

    def _unmatched(self, request: NativeRequest, kind: ObjectKind, caller: Caller) -> Errand:
        desk = self._desk
        if isinstance(request, CreateTable):
            return Errand(CreateWork(desk, table_birth(desk, request, caller)), self._shown)
        if isinstance(request, CreateView):
            return Errand(CreateWork(desk, view_birth(desk, request, caller)), self._defined)
        if isinstance(request, Undrop):
            return Errand(UndropWork(desk, request.id, request.name, caller), self._shown)
        if isinstance(request, UpdateTable):
            return self._update(request, kind, caller)
        if isinstance(request, DropTable):
            return Errand(DropWork(desk, _name(request.target), kind, caller), self._shown)
        if isinstance(request, AddColumns | UpdateColumn | DropColumn):
            return self._columns(request, kind, caller)
        raise Invalid("this is no request about a table or a view")

    def _update(self, request: UpdateTable, kind: ObjectKind, caller: Caller) -> Errand:
        desk, source, target = self._desk, request.target, destination(request)
        _check_amendment(request)
        if isinstance(request, UpdateView):
            return self._update_view(request, caller)
        check_name(target.table, "table")
        work = RenameWork(desk, _name(source), _name(target), kind, caller)

        async def finish(told: Told) -> Done:
            return await self._describe(request, target, told, caller)

        return Errand(work, finish)

    def _update_view(self, request: UpdateView, caller: Caller) -> Errand:
        desk, target, wish = self._desk, destination(request), request.redefinition
        columns = () if wish.columns is UNSET else wish.columns
        work: Work
        if not wish.is_empty:
            if target != request.target:
                raise Invalid("rename a view and change its query in two requests")
            check_columns(columns)
            work = ViewCommit(desk, _name(target), wish, caller)
        elif target != request.target:
            work = RenameWork(desk, _name(request.target), _name(target), ObjectKind.VIEW, caller)
        else:
            work = DescribeWork(desk, UpdateTable(target=target, **_said(request)), caller)

        async def finish(told: Told) -> Done:
            if not wish.is_empty:
                await show_columns(desk, _id(told), target, marks_in(columns), caller.actor)
            if not isinstance(work, DescribeWork):
                await self._describe(request, target, told, caller)
            return await self._defined(told)

        return Errand(work, finish)

    async def _describe(
        self, request: UpdateTable, target: TableName, told: Told, caller: Caller
    ) -> Done:
        """The catalog's part of a request whose first part is done, unless that is done, too."""
        done = await self._shown(told)
        described = UpdateTable(target=target, **_said(request))
        row = found_table(done).row
        wished = amended(described, row)
        if all(getattr(row, name) == value for name, value in wished.items()):
            return done
        return await change(self._desk.committer, described, caller.actor)

    def _columns(self, request: ColumnRequest, kind: ObjectKind, caller: Caller) -> Errand:
        desk, target = self._desk, request.target
        if kind is not ObjectKind.TABLE:
            raise Invalid("the columns of a view are those of its query: redefine the view")
        check_columns(_specs(request))
        work = ColumnCommit(desk, _name(target), request, caller)

        async def finish(told: Told) -> Done:
            return await show_columns(desk, _id(told), target, marks_of(request), caller.actor)

        return Errand(work, finish)

    async def _shown(self, told: Told) -> Done:
        return await shown(self._desk, _id(told))

    async def _defined(self, told: Told) -> Done:
        """A view with what it shows, as far as it is still there."""
        desk, done = self._desk, await self._shown(told)
        standing = await desk.standings.of(_id(told))
        if standing.location is None:
            return done
        metadata = (await desk.load(standing.location)).metadata
        return DefinedView(
            number=done.number,
            commit_ulid=done.commit_ulid,
            operation=done.operation,
            object=done.object,
            columns=done.columns,
            metadata=metadata,
        )


def plain_request(request: NativeRequest) -> Ddl:
    """The request as the catalog itself is asked, where it concerns nothing of Iceberg's."""
    if isinstance(request, CreateView):
        raise Invalid("a view is not the catalog's own to make")
    if isinstance(request, UpdateView):
        fields = {name: getattr(request, name) for name in UpdateTable.__struct_fields__}
        return UpdateTable(**fields)
    if isinstance(request, DropView):
        return DropTable(target=request.target, expected=request.expected)
    return request


def _check_amendment(request: Amendment) -> None:
    """`Invalid` if the catalog would refuse its part: by then the first part would be done."""
    if isinstance(request.comment, str):
        check_comment(request.comment)
    if isinstance(request.properties, dict):
        check_properties({k: v for k, v in request.properties.items() if v is not None})
    if request.tags is not UNSET:
        check_tags(request.tags)
    if isinstance(request.owner, str):
        check_owner(request.owner)


def _specs(request: ColumnRequest) -> tuple[ColumnSpec, ...]:
    """The columns that a request is about, as far as it says how they shall be."""
    if isinstance(request, AddColumns):
        return request.columns
    if isinstance(request, DropColumn):
        return ()
    anything = ColumnSpec(name="c", data_type="int")
    wished = {name: getattr(request, name) for name in ColumnSpec.__struct_fields__}
    asked = {name: value for name, value in wished.items() if value is not UNSET}
    return (msgspec.structs.replace(anything, **asked),)


def _said(request: UpdateTable) -> dict[str, Any]:
    return {name: getattr(request, name) for name in _DESCRIBED}


def _name(name: TableName) -> Name:
    return Name(name.catalog, name.schema, name.table)


def _id(told: Told) -> str:
    if told.table_id is None:
        raise Invalid("an errand has ended without its table")
    return told.table_id
