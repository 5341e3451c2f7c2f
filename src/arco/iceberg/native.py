"""The catalog's own API on Iceberg tables and views: what it asks, and which of the room's works does it.

Name, type, nullability, default and comment of columns are Iceberg's, and so is whether a table is there;
owner, tags, comment, properties and what is personal are the catalog's own. A request about both is carried
out in this order: first Iceberg's part, which decides, then the catalog's.
"""

from collections.abc import Awaitable, Callable

from msgspec import UNSET

from arco.catalog.change import Renderer, change
from arco.catalog.ddl import (
    AddColumns,
    Amendment,
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
from arco.catalog.done import Done
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.name import check_comment, check_name, check_owner, check_properties, check_tags
from arco.catalog.snapshot import Snapshot
from arco.core.errors import ArcoError, Invalid, NotFound, Unavailable
from arco.iceberg.create import CreateWork
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.drop import DropWork
from arco.iceberg.errand import Errand, KeyedErrand, MatchedWork, core_error, finished
from arco.iceberg.keyed import Told, run
from arco.iceberg.metadata import Metadata
from arco.iceberg.names import Name, occupant, release, resolve
from arco.iceberg.namespaces import Namespaces
from arco.iceberg.native_birth import check_columns, table_birth, view_birth
from arco.iceberg.native_commit import (
    ColumnCommit,
    Marks,
    ViewCommit,
    marks_in,
    marks_of,
    show_columns,
    shown,
)
from arco.iceberg.refusal import Refused
from arco.iceberg.rename import RenameWork
from arco.iceberg.schema_change import ColumnRequest
from arco.iceberg.undrop import UndropWork
from arco.iceberg.view_request import CreateView, DropView, UpdateView, ViewRequest
from arco.ledger.idempotency import Work

NativeRequest = Ddl | ViewRequest

_DESCRIBED = ("comment", "properties", "tags", "owner")
_COLUMN = ("name", "data_type", "nullable", "comment", "default_value", "position")


class NativeTables:
    """Iceberg tables and views, ruled by requests of the catalog's own API."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def carry_out(self, request: NativeRequest, caller: Caller) -> Done | None:
        """Carry a request out that has no key; None if it is the catalog's own to carry out."""
        kind = await self.kind_of(request)
        if kind is None:
            return None
        errand = self._errand(request, kind, caller)
        try:
            told = await run(self._desk, caller, errand.work, None)
        except Refused as verdict:
            if verdict.status == 404 and await self.kind_of(request) is None:
                return None  # what we remembered of the name was old
            raise core_error(verdict) from verdict
        return await finished(errand, told)

    def work(self, request: NativeRequest, caller: Caller, plain: Work, renderer: Renderer) -> Work:
        """A request as work under its key; `plain` is how the catalog itself would carry it out."""
        return KeyedErrand(
            plain,
            lambda: self.kind_of(request),
            lambda kind: self._errand(request, kind, caller),
            renderer,
        )

    async def kind_of(self, request: NativeRequest) -> ObjectKind | None:
        """What a request would change, if that is Iceberg's to change; else None.

        It goes by what this process remembers: no request to the store, unless that knows no such name.
        If it was old, the catalog refuses to decide, and the caller retries. Names that are dead are
        released on the way, so that the catalog decides as if they were not there (P31).
        """
        if isinstance(request, CreateTable):
            if request.format is TableFormat.ICEBERG:
                return ObjectKind.TABLE
            await self._clear(TableName(request.schema.catalog, request.schema.path, request.name))
            return None
        if isinstance(request, CreateView):
            return ObjectKind.VIEW
        if isinstance(request, Undrop):
            return await self._kind_of_dropped(request)
        if isinstance(request, UpdateTable | DropTable | AddColumns | UpdateColumn | DropColumn):
            return await self._kind_of_named(request)
        return None

    async def view(self, name: TableName) -> Metadata:
        """The metadata of a view, or `NotFound`."""
        whole = Name(name.catalog, name.schema, name.table)
        try:
            found = await resolve(self._desk, whole, ObjectKind.VIEW)
            return (await self._desk.load(found.location)).metadata
        except Refused as missing:
            raise NotFound(f"there is no view {name.table!r} in this schema") from missing

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

    async def _kind_of_named(
        self, request: UpdateTable | DropTable | ColumnRequest
    ) -> ObjectKind | None:
        row = await self._row(request.target)
        ruled = row is not None and row.format is TableFormat.ICEBERG
        if isinstance(request, UpdateView | DropView) and not (
            ruled and row is not None and row.kind is ObjectKind.VIEW
        ):
            raise NotFound(f"there is no view {request.target.table!r} in this schema")
        if row is not None and ruled and _is_icebergs(request):
            return row.kind
        if row is not None and ruled:
            await self._release_if_dead(row)
        elif isinstance(request, UpdateTable) and _destination(request) != request.target:
            await self._clear(_destination(request))
        return None

    async def _kind_of_dropped(self, request: Undrop) -> ObjectKind | None:
        reader = self._desk.reader
        snapshot = reader.remembered() or await reader.head()
        try:
            row = (await snapshot.find(request.id, dropped=True)).row
        except NotFound:
            snapshot = await reader.head()
            try:
                row = (await snapshot.find(request.id, dropped=True)).row
            except NotFound:
                return None
        if not isinstance(row, TableRow):
            return None
        catalog, *schema, name = await snapshot.levels(row)
        await self._clear(TableName(catalog, tuple(schema), request.name or name))
        return row.kind if row.format is TableFormat.ICEBERG else None

    async def _row(self, name: TableName) -> TableRow | None:
        reader = self._desk.reader
        known = reader.remembered()
        row = None if known is None else await _at(known, name)
        return await _at(await reader.head(), name) if row is None else row

    async def _clear(self, name: TableName) -> None:
        """Release a name that is about to be given away, if it is a dead one."""
        known = self._desk.reader.remembered()
        row = None if known is None else await _at(known, name)
        if row is not None and row.format is TableFormat.ICEBERG:
            await occupant(self._desk, Name(name.catalog, name.schema, name.table))

    async def _release_if_dead(self, row: TableRow) -> None:
        """A table that was dropped is not described either."""
        desk = self._desk
        standing = await desk.standings.of(row.table_id)
        if standing.is_live:
            return
        if standing.undecided is not None:
            raise NotFound(f"there is no table {row.name!r} in this schema")
        try:
            await release(desk, row.table_id, standing)
        except ArcoError as problem:
            raise Unavailable("a dropped table still has this name; retry") from problem

    def _errand(self, request: NativeRequest, kind: ObjectKind, caller: Caller) -> Errand:
        """How the room carries a request out on a table or a view."""
        errand = self._unmatched(request, kind, caller)
        return Errand(MatchedWork(self._desk, errand.work, request.expected), errand.finish)

    def _unmatched(self, request: NativeRequest, kind: ObjectKind, caller: Caller) -> Errand:
        desk = self._desk
        if isinstance(request, CreateTable):
            return Errand(CreateWork(desk, table_birth(desk, request, caller)), self._shown)
        if isinstance(request, CreateView):
            return Errand(CreateWork(desk, view_birth(desk, request, caller)), self._shown)
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
        desk, source, target = self._desk, request.target, _destination(request)
        _check_amendment(request)
        finish = self._described(request, target, caller)
        work: Work
        if isinstance(request, UpdateView) and not request.redefinition.is_empty:
            if target != source:
                raise Invalid("rename a view and change its query in two requests")
            wish = request.redefinition
            columns = () if wish.columns is UNSET else wish.columns
            check_columns(columns)
            work = ViewCommit(desk, _name(source), wish, caller)
            finish = self._described(request, source, caller, marks_in(columns))
        else:
            check_name(target.table, "table")
            work = RenameWork(desk, _name(source), _name(target), kind, caller)
        return Errand(work, finish)

    def _described(
        self, request: UpdateTable, target: TableName, caller: Caller, marks: Marks | None = None
    ) -> Callable[[Told], Awaitable[Done]]:
        """The end of a change of a name or of a view: what it shows, and what is said of it."""
        desk = self._desk

        async def finish(told: Told) -> Done:
            if marks is not None:
                done = await show_columns(desk, _id(told), target, marks, caller.actor)
            said = {name: getattr(request, name) for name in _DESCRIBED}
            if any(value is not UNSET for value in said.values()):
                return await change(
                    desk.committer, UpdateTable(target=target, **said), caller.actor
                )
            return done if marks is not None else await shown(desk, _id(told))

        return finish

    def _columns(self, request: ColumnRequest, kind: ObjectKind, caller: Caller) -> Errand:
        desk, target = self._desk, request.target
        if kind is not ObjectKind.TABLE:
            raise Invalid("the columns of a view are those of its query: redefine the view")
        if isinstance(request, AddColumns):
            check_columns(request.columns)
        work = ColumnCommit(desk, _name(target), request, caller)

        async def finish(told: Told) -> Done:
            return await show_columns(desk, _id(told), target, marks_of(request), caller.actor)

        return Errand(work, finish)

    async def _shown(self, told: Told) -> Done:
        return await shown(self._desk, _id(told))


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


def _is_icebergs(request: UpdateTable | DropTable | ColumnRequest) -> bool:
    """Whether a request about an Iceberg table changes anything that is not the catalog's own."""
    if isinstance(request, UpdateView) and not request.redefinition.is_empty:
        return True
    if isinstance(request, UpdateTable):
        return _destination(request) != request.target
    if isinstance(request, UpdateColumn):
        return any(getattr(request, name) is not UNSET for name in _COLUMN)
    return True


def _destination(request: UpdateTable) -> TableName:
    """What a table is called after a request."""
    old = request.target
    return TableName(
        old.catalog if request.catalog is UNSET else request.catalog,
        old.schema if request.schema is UNSET else request.schema,
        old.table if request.name is UNSET else request.name,
    )


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


def _name(name: TableName) -> Name:
    return Name(name.catalog, name.schema, name.table)


def _id(told: Told) -> str:
    if told.table_id is None:
        raise Invalid("an errand has ended without its table")
    return told.table_id


async def _at(snapshot: Snapshot, name: TableName) -> TableRow | None:
    try:
        return (await snapshot.table(name)).row
    except NotFound:
        return None
