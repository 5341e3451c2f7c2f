"""Table format routing: which requests of the catalog's own API change Iceberg tables or views.

A new table is routed by the requested format, an existing one by the format of its row. A request that
concerns only the catalog's own facts about an Iceberg table is left to the catalog.
"""

from msgspec import UNSET

from arco.catalog.ddl import (
    AddColumns,
    CreateTable,
    Ddl,
    DropColumn,
    DropTable,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.snapshot import Snapshot
from arco.core.errors import ArcoError, NotFound, Unavailable
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.columns import ColumnRequest
from arco.iceberg.name_resolution import FullName, find_occupant, release_name
from arco.iceberg.view_request import CreateView, DropView, UpdateView, ViewRequest

NativeRequest = Ddl | ViewRequest

_COLUMN = ("name", "data_type", "nullable", "comment", "default_value", "position")


class FormatRouter:
    """Routes requests by the snapshot that this process remembers."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context

    async def kind_of(self, request: NativeRequest) -> ObjectKind | None:
        """The kind of Iceberg object that a request changes; None if the catalog carries it out.

        It uses the remembered snapshot: no request to the store, unless that has no such name.
        If the snapshot is stale, the catalog refuses the request and the caller retries. Dead names are
        released first, so that the catalog decides as if they did not exist (P31).
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

    async def _kind_of_named(
        self, request: UpdateTable | DropTable | ColumnRequest
    ) -> ObjectKind | None:
        row = await self._row(request.target)
        ruled = row is not None and row.format is TableFormat.ICEBERG
        if isinstance(request, UpdateView | DropView) and not (
            ruled and row is not None and row.kind is ObjectKind.VIEW
        ):
            raise NotFound(f"there is no view {request.target.table!r} in this schema")
        if row is not None and ruled and _changes_iceberg(request):
            return row.kind
        if row is not None and ruled:
            await self._release_if_dead(row)
        elif isinstance(request, UpdateTable) and destination(request) != request.target:
            await self._clear(destination(request))
        return None

    async def _kind_of_dropped(self, request: Undrop) -> ObjectKind | None:
        reader = self._context.reader
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
        reader = self._context.reader
        snapshot = reader.remembered()
        row = None if snapshot is None else await _find_row(snapshot, name)
        return await _find_row(await reader.head(), name) if row is None else row

    async def _clear(self, name: TableName) -> None:
        """Release a name that another object is about to get, if it is dead."""
        snapshot = self._context.reader.remembered()
        row = None if snapshot is None else await _find_row(snapshot, name)
        if row is not None and row.format is TableFormat.ICEBERG:
            await find_occupant(self._context, FullName(name.catalog, name.schema, name.table))

    async def _release_if_dead(self, row: TableRow) -> None:
        """Release the name of a dropped table, which cannot be described either."""
        context = self._context
        table_head = await context.heads.of(row.table_id)
        if table_head.is_live:
            return
        if table_head.undecided is not None:
            raise NotFound(f"there is no table {row.name!r} in this schema")
        try:
            await release_name(context, row.table_id, table_head)
        except ArcoError as problem:
            raise Unavailable("a dropped table still has this name; retry") from problem


def _changes_iceberg(request: UpdateTable | DropTable | ColumnRequest) -> bool:
    """Whether a request about an Iceberg table changes more than the catalog's own facts."""
    if isinstance(request, UpdateView):
        return True
    if isinstance(request, UpdateTable):
        return destination(request) != request.target
    if isinstance(request, UpdateColumn):
        return any(getattr(request, name) is not UNSET for name in _COLUMN)
    return True


def destination(request: UpdateTable) -> TableName:
    """The name of a table after a request."""
    old = request.target
    return TableName(
        old.catalog if request.catalog is UNSET else request.catalog,
        old.schema if request.schema is UNSET else request.schema,
        old.table if request.name is UNSET else request.name,
    )


async def _find_row(snapshot: Snapshot, name: TableName) -> TableRow | None:
    try:
        return (await snapshot.table(name)).row
    except NotFound:
        return None
