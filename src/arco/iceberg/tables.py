"""Tables: the operations that Iceberg's clients request."""

from collections.abc import Coroutine
from typing import Any, cast
from uuid import UUID
from weakref import ref

from arco.catalog.ddl import SchemaName
from arco.catalog.model import CommittedRow, ObjectKind, TableRow
from arco.catalog.name import check_name
from arco.catalog.pending_request import Caller
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid, NotFound, Unknown
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.catalog_change import RenameWork
from arco.iceberg.commit import TABLE_ENGINE, CommitWork
from arco.iceberg.context import IcebergContext
from arco.iceberg.create import (
    CreateWork,
    Creation,
    InitialMetadata,
    build_once,
    check_new_metadata,
    is_location_taken,
    location_taken_error,
    name_taken_error,
)
from arco.iceberg.drop import DropWork
from arco.iceberg.engine.metadata import encode_metadata
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.engine.requirement import is_create
from arco.iceberg.engine.table import NEW_TABLE
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.errors import UNREADABLE, missing_file, no_such_namespace
from arco.iceberg.idempotency import OperationResult, run_once
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import (
    FullName,
    check_namespace,
    find_occupant,
    is_iceberg,
    resolve_name,
)
from arco.iceberg.pointer import PointerOperation
from arco.iceberg.register import RegisterWork
from arco.iceberg.table_paths import check_strays
from arco.iceberg.wire import (
    CommitTableRequest,
    CreateTableRequest,
    RegisterTableRequest,
    RenameRequest,
)

_MAX_TABLES = 1_000

KIND = ObjectKind.TABLE


class RecentLoads:
    """The last load of each name, shared by requests that arrived before the load began."""

    def __init__(self) -> None:
        self._looks: dict[FullName, tuple[float, ref[LoadedMetadata]]] = {}

    def since(self, since_ms: float, name: FullName) -> LoadedMetadata | None:
        """The result of a load that began at `since_ms` or later."""
        began_ms, loaded = self._looks.get(name, (0.0, None))
        return None if loaded is None or began_ms < since_ms else loaded()

    def note(self, began_ms: float, name: FullName, loaded: LoadedMetadata) -> None:
        """Remember the result of a load."""
        if len(self._looks) >= _MAX_TABLES:
            self._looks.clear()
        self._looks[name] = began_ms, ref(loaded)


class Tables:
    """Operations on tables."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context
        self._recent = RecentLoads()

    async def page(
        self, catalog: str, namespace: tuple[str, ...], *, after: str | None, limit: int | None
    ) -> list[str]:
        """The names of the tables in a namespace, in order."""
        return await list_names(self._context, catalog, namespace, KIND, after=after, limit=limit)

    async def create(
        self, catalog: str, namespace: tuple[str, ...], request: CreateTableRequest, caller: Caller
    ) -> LoadedMetadata:
        """Create a table, or stage its creation."""
        name = FullName(catalog, check_namespace(namespace), check_name(request.name, "table"))
        make = build_once(lambda table_id: self._new(request, table_id))
        table_id = str(new_object_id(self._context.runtime))
        creation = Creation(name, KIND, caller, PointerOperation.CREATE, make, wanted_id=table_id)
        make(table_id)  # a wrong request is refused before anything is written
        if request.stage_create:
            return await self._stage(creation)
        work = CreateWork(self._context, creation)
        return await load_result(
            self._context, await run_once(self._context, caller, work, [name, request])
        )

    async def load(
        self, catalog: str, namespace: tuple[str, ...], name: str, *, since_ms: float | None = None
    ) -> LoadedMetadata:
        """A table's metadata; `since_ms` allows the result of a load that began then or later."""
        full_name = FullName(catalog, tuple(namespace), name)
        began_ms = self._context.runtime.clock.elapsed_ms()
        loaded = None if since_ms is None else self._recent.since(since_ms, full_name)
        if loaded is None:
            loaded = await load_metadata(self._context, full_name, KIND)
            self._recent.note(began_ms, full_name, loaded)
        return loaded

    async def exists(self, catalog: str, namespace: tuple[str, ...], name: str) -> None:
        """Return if the table exists, else raise."""
        await resolve_name(self._context, FullName(catalog, tuple(namespace), name), KIND)

    async def commit(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        name: str,
        request: CommitTableRequest,
        caller: Caller,
    ) -> LoadedMetadata:
        """Commit to a table, or create a staged one."""
        full_name = FullName(catalog, tuple(namespace), name)
        work: CommitWork | CreateWork
        if is_create(request.requirements):
            work = CreateWork(
                self._context, staged_creation(self._context, full_name, request, caller)
            )
        else:
            work = CommitWork(self._context, full_name, request, caller, TABLE_ENGINE)
        result = await run_once(self._context, caller, work, [full_name, request])
        return await load_result(self._context, result)

    async def drop(
        self, catalog: str, namespace: tuple[str, ...], name: str, caller: Caller, *, purge: bool
    ) -> None:
        """Drop a table; `purge` also deletes its files."""
        full_name = FullName(catalog, tuple(namespace), name)
        work = DropWork(self._context, full_name, KIND, caller, purge=purge)
        await run_once(self._context, caller, work, [full_name, purge])

    async def unregister(
        self, catalog: str, namespace: tuple[str, ...], name: str, caller: Caller
    ) -> LoadedMetadata:
        """Remove a table from the catalog without touching its files; returns its metadata."""
        full_name = FullName(catalog, tuple(namespace), name)
        work = DropWork(
            self._context, full_name, KIND, caller, operation=PointerOperation.UNREGISTER
        )
        result = await run_once(self._context, caller, work, [full_name])
        return await load_result(self._context, result)

    async def register(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        request: RegisterTableRequest,
        caller: Caller,
    ) -> LoadedMetadata:
        """Register an existing metadata file under a name."""
        context = self._context
        name = FullName(catalog, check_namespace(namespace), check_name(request.name, "table"))
        work = RegisterWork(
            context,
            name,
            KIND,
            caller,
            request.metadata_location,
            overwrite=bool(request.overwrite),
        )
        result = await run_once(context, caller, work, [name, request])
        return await load_result(context, result)

    async def rename(self, catalog: str, request: RenameRequest, caller: Caller) -> None:
        """Rename a table."""
        await rename_object(self._context, catalog, request, KIND, caller)

    def _new(self, request: CreateTableRequest, table_id: str) -> InitialMetadata:
        context = self._context
        location = (request.location or "").rstrip("/") or context.locations.managed(table_id)
        now_ms = context.runtime.clock.now_ms()
        metadata = new_table(request, table_uuid=table_id, location=location, now_ms=now_ms)
        check_new_metadata(context, metadata, table_id)
        return InitialMetadata(metadata)

    async def _stage(self, creation: Creation) -> LoadedMetadata:
        """The metadata of a staged table; only the folders that some engines need are written."""
        context = self._context
        await _check_free(context, creation)
        metadata = creation.make(creation.wanted_id or str(new_object_id(context.runtime))).metadata
        await context.files.make_folders(str(metadata["location"]))
        return LoadedMetadata(
            None, encode_metadata(metadata), config=context.config, metadata=metadata
        )


def staged_creation(
    context: IcebergContext, name: FullName, request: CommitTableRequest, caller: Caller
) -> Creation:
    """The creation of a table by a commit with `assert-create`."""
    check_name(name.name, "table")
    assign_uuid = next((u for u in request.updates if u.get("action") == "assign-uuid"), {}).get(
        "uuid"
    )
    wanted_id = None if assign_uuid is None else _uuid(str(assign_uuid))
    # The client's updates come after the defaults, and so win.
    defaults: dict[str, Json] = {"action": "set-properties", "updates": {**NEW_TABLE}}
    updates: list[dict[str, Json]] = [defaults, *request.updates]

    extra_owner_ids: frozenset[str] = frozenset() if wanted_id is None else frozenset({wanted_id})

    def build(table_id: str) -> InitialMetadata:
        all_updates = list(updates)
        if assign_uuid is None:
            all_updates.append({"action": "assign-uuid", "uuid": table_id})
        if not any(update.get("action") == "set-location" for update in all_updates):
            location = context.locations.managed(wanted_id or table_id)
            all_updates.append({"action": "set-location", "location": location})
        now_ms = context.runtime.clock.now_ms()
        context.locations.check_updates(
            all_updates, None, is_create=True, table_id=table_id, extra_owner_ids=extra_owner_ids
        )
        metadata = apply_updates(None, all_updates, now_ms=now_ms, previous_location=None)
        check_new_metadata(context, metadata, table_id, extra_owner_ids)
        check_strays(context.locations, metadata)
        return InitialMetadata(metadata, extra_owner_ids=extra_owner_ids)

    make = build_once(build)
    make(wanted_id or str(new_object_id(context.runtime)))
    return Creation(
        name, KIND, caller, PointerOperation.CREATE, make, wanted_id=wanted_id, is_required=True
    )


async def load_metadata(
    context: IcebergContext, name: FullName, kind: ObjectKind
) -> LoadedMetadata:
    """The metadata in effect: one round trip in a warm process, three with only the catalog cached."""
    resolved = await resolve_name(context, name, kind, ahead=True)
    cached = context.metadata_cache.get(resolved.location)
    if cached is None:
        return await context.load(resolved.location)
    if context.files.is_local(resolved.location) and not await context.files.exists(
        resolved.location
    ):
        context.metadata_cache.forget(resolved.location)  # on a disk people move files by hand
        raise missing_file(resolved.location)
    return cached


async def load_result(context: IcebergContext, result: OperationResult) -> LoadedMetadata:
    """The metadata after a change; if that file is deleted by now, the metadata in effect.

    The change has happened, so a missing file is not a refusal (P12).
    """
    if result.metadata_location is not None:
        try:
            return await context.load(result.metadata_location)
        except UNREADABLE:
            pass  # a later commit made this file obsolete
    table_head = await context.heads.of(result.table_id or "")
    if table_head.location is None:
        raise Unknown(
            "the change was made, but its metadata file is deleted by now; load the table"
        )
    return await context.load(table_head.location)


async def rename_object(
    context: IcebergContext, catalog: str, request: RenameRequest, kind: ObjectKind, caller: Caller
) -> None:
    """Rename a table or view."""
    source = FullName(catalog, request.source.namespace, request.source.name)
    target = FullName(
        catalog,
        check_namespace(request.destination.namespace),
        check_name(request.destination.name, "table"),
    )
    await run_once(context, caller, RenameWork(context, source, target, kind, caller), request)


async def list_names(
    context: IcebergContext,
    catalog: str,
    namespace: tuple[str, ...],
    kind: ObjectKind,
    *,
    after: str | None,
    limit: int | None,
) -> list[str]:
    """The names of one kind in a namespace, in order, without those of dropped tables (P31)."""
    levels = check_namespace(namespace)
    unresolved, snapshot = await _unresolved_and_head(context)
    try:
        schema = (await snapshot.schema(SchemaName(catalog, levels))).row
    except NotFound as missing:
        raise no_such_namespace(levels) from missing
    names: list[str] = []
    while limit is None or len(names) < limit:
        page = await snapshot.tables(schema.schema_id, after=after, limit=limit)
        names += [
            each.row.name
            for each in page
            if is_iceberg(each.row, kind) and not await _is_dropped(context, each, unresolved)
        ]
        if limit is None or len(page) < limit:
            break
        after = page[-1].row.name
    return names if limit is None else names[:limit]


async def _unresolved_and_head(context: IcebergContext) -> tuple[frozenset[str], Snapshot]:
    """The unresolved ids and the newest snapshot, read concurrently."""
    unresolved, snapshot = await context.runtime.tasks.gather(
        cast("Coroutine[Any, Any, frozenset[str] | Snapshot]", context.unresolved_names.open()),
        cast("Coroutine[Any, Any, frozenset[str] | Snapshot]", context.reader.head()),
    )
    return cast("frozenset[str]", unresolved), cast("Snapshot", snapshot)


async def _is_dropped(
    context: IcebergContext, table: CommittedRow[TableRow], unresolved: frozenset[str]
) -> bool:
    if table.row.table_id not in unresolved:
        return False
    return not (await context.heads.of(table.row.table_id)).is_live


async def _check_free(context: IcebergContext, creation: Creation) -> None:
    """Raise if the name or the location is taken, or the namespace does not exist."""
    occupant = await find_occupant(context, creation.name)
    if occupant is not None:
        raise name_taken_error(creation, occupant.kind)
    if await is_location_taken(context, creation):
        raise location_taken_error()
    try:
        await (await context.reader.head()).schema(creation.name.schema)
    except NotFound as missing:
        raise no_such_namespace(creation.name.namespace) from missing


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError as problem:
        raise Invalid(f"{text[:60]!r} is not a UUID") from problem
