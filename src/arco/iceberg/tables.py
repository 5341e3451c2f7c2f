"""Tables: all that Iceberg's clients can ask about them."""
# DOC recent: """Looks of a moment ago, shared by requests that came at once.
#
# Whoever asks must see what was committed before. So the answer of a look will do if the look began after the
# request had come: of many that wait to be answered, the first looks, and the others have what it has found.
# """

from collections.abc import Coroutine
from typing import Any, cast
from uuid import UUID
from weakref import ref

from arco.catalog.ddl import SchemaName
from arco.catalog.model import Found, ObjectKind, TableRow
from arco.catalog.name import check_name
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid, NotFound, Unknown
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.catalog_change import RenameWork
from arco.iceberg.commit import TABLES, CommitWork
from arco.iceberg.context import Caller, Desk, missing_file
from arco.iceberg.create import (
    Birth,
    CreateWork,
    Newborn,
    check_new,
    is_crowded,
    name_taken,
    place_taken,
    remembered,
)
from arco.iceberg.drop import DropWork
from arco.iceberg.engine.metadata import encode_metadata
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.engine.requirement import is_create
from arco.iceberg.engine.table import NEW_TABLE
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.errors import Refused, no_such_namespace
from arco.iceberg.idempotency import Told, run
from arco.iceberg.loaded_metadata import Loaded
from arco.iceberg.name_resolution import Name, check_namespace, is_ours, occupant, resolve
from arco.iceberg.register import RegisterWork
from arco.iceberg.table_paths import check_strays
from arco.iceberg.wire import (
    CommitTableRequest,
    CreateTableRequest,
    RegisterTableRequest,
    RenameRequest,
)

_MOST = 1_000


class Recent:
    """The last look at each name."""

    def __init__(self) -> None:
        self._looks: dict[Name, tuple[float, ref[Loaded]]] = {}

    def since(self, since_ms: float, name: Name) -> Loaded | None:
        """What a look has found that began at this moment or later."""
        began_ms, found = self._looks.get(name, (0.0, None))
        return None if found is None or began_ms < since_ms else found()

    def note(self, began_ms: float, name: Name, found: Loaded) -> None:
        """A look that began then has found this."""
        if len(self._looks) >= _MOST:
            self._looks.clear()
        self._looks[name] = began_ms, ref(found)


KIND = ObjectKind.TABLE


class Tables:
    """The tables of a workspace."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._recent = Recent()

    async def page(
        self, catalog: str, namespace: tuple[str, ...], *, after: str | None, limit: int | None
    ) -> list[str]:
        """The names of the tables in a namespace, in order."""
        return await names_in(self._desk, catalog, namespace, KIND, after=after, limit=limit)

    async def create(
        self, catalog: str, namespace: tuple[str, ...], request: CreateTableRequest, caller: Caller
    ) -> Loaded:
        """Make a table, or only say what it would be."""
        name = Name(catalog, check_namespace(namespace), check_name(request.name, "table"))
        make = remembered(lambda table_id: self._new(request, table_id))
        table_id = str(new_object_id(self._desk.runtime))
        birth = Birth(name, KIND, caller, "create", make, wanted_id=table_id)
        make(table_id)  # what is wrong with it is said before anything
        if request.stage_create:
            return await self._stage(birth)
        work = CreateWork(self._desk, birth)
        return await answer(self._desk, await run(self._desk, caller, work, [name, request]))

    async def load(
        self, catalog: str, namespace: tuple[str, ...], name: str, *, since_ms: float | None = None
    ) -> Loaded:
        """A table's metadata, by a look of its own or by one that began at `since_ms` or later."""
        whole = Name(catalog, tuple(namespace), name)
        began_ms = self._desk.runtime.clock.elapsed_ms()
        found = None if since_ms is None else self._recent.since(since_ms, whole)
        if found is None:
            found = await load(self._desk, whole, KIND)
            self._recent.note(began_ms, whole, found)
        return found

    async def exists(self, catalog: str, namespace: tuple[str, ...], name: str) -> None:
        """Nothing, if there is such a table."""
        await resolve(self._desk, Name(catalog, tuple(namespace), name), KIND)

    async def commit(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        name: str,
        request: CommitTableRequest,
        caller: Caller,
    ) -> Loaded:
        """Change a table, or make the one that was staged."""
        whole = Name(catalog, tuple(namespace), name)
        work: CommitWork | CreateWork
        if is_create(request.requirements):
            work = CreateWork(self._desk, staged_birth(self._desk, whole, request, caller))
        else:
            work = CommitWork(self._desk, whole, request, caller, TABLES)
        told = await run(self._desk, caller, work, [whole, request])
        return await answer(self._desk, told)

    async def drop(
        self, catalog: str, namespace: tuple[str, ...], name: str, caller: Caller, *, purge: bool
    ) -> None:
        """Drop a table; `purge` has its files removed, too."""
        whole = Name(catalog, tuple(namespace), name)
        work = DropWork(self._desk, whole, KIND, caller, purge=purge)
        await run(self._desk, caller, work, [whole, purge])

    async def unregister(
        self, catalog: str, namespace: tuple[str, ...], name: str, caller: Caller
    ) -> Loaded:
        """Give a table up without touching its files, and tell where they are."""
        whole = Name(catalog, tuple(namespace), name)
        work = DropWork(self._desk, whole, KIND, caller, operation="unregister")
        told = await run(self._desk, caller, work, [whole])
        return await answer(self._desk, told)

    async def register(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        request: RegisterTableRequest,
        caller: Caller,
    ) -> Loaded:
        """Give a name to metadata that are there already."""
        desk = self._desk
        name = Name(catalog, check_namespace(namespace), check_name(request.name, "table"))
        work = RegisterWork(
            desk, name, KIND, caller, request.metadata_location, overwrite=bool(request.overwrite)
        )
        told = await run(desk, caller, work, [name, request])
        return await answer(desk, told)

    async def rename(self, catalog: str, request: RenameRequest, caller: Caller) -> None:
        """Give a table another name."""
        await rename(self._desk, catalog, request, KIND, caller)

    def _new(self, request: CreateTableRequest, table_id: str) -> Newborn:
        desk = self._desk
        location = (request.location or "").rstrip("/") or desk.locations.managed(table_id)
        now_ms = desk.runtime.clock.now_ms()
        metadata = new_table(request, table_uuid=table_id, location=location, now_ms=now_ms)
        check_new(desk, metadata, table_id)
        return Newborn(metadata)

    async def _stage(self, birth: Birth) -> Loaded:
        """What the table would be; nothing is kept but the folders that some engines need."""
        desk = self._desk
        await _free(desk, birth)
        metadata = birth.make(birth.wanted_id or str(new_object_id(desk.runtime))).metadata
        await desk.files.make_folders(str(metadata["location"]))
        return Loaded(None, encode_metadata(metadata), config=desk.config, metadata=metadata)


def staged_birth(desk: Desk, name: Name, request: CommitTableRequest, caller: Caller) -> Birth:
    """The table that a commit with `assert-create` makes."""
    check_name(name.name, "table")
    given = next((u for u in request.updates if u.get("action") == "assign-uuid"), {}).get("uuid")
    wanted = None if given is None else _uuid(str(given))
    # As if by one request: what the client sets or removes comes later, and so wins.
    defaults: dict[str, Json] = {"action": "set-properties", "updates": {**NEW_TABLE}}
    updates: list[dict[str, Json]] = [defaults, *request.updates]

    also: frozenset[str] = frozenset() if wanted is None else frozenset({wanted})

    def build(table_id: str) -> Newborn:
        wished = list(updates)
        if given is None:
            wished.append({"action": "assign-uuid", "uuid": table_id})
        if not any(update.get("action") == "set-location" for update in wished):
            location = desk.locations.managed(wanted or table_id)
            wished.append({"action": "set-location", "location": location})
        now_ms = desk.runtime.clock.now_ms()
        desk.locations.check_updates(wished, None, is_create=True, table_id=table_id, also=also)
        metadata = apply_updates(None, wished, now_ms=now_ms, previous_location=None)
        check_new(desk, metadata, table_id, also)
        check_strays(desk.locations, metadata)
        return Newborn(metadata, also=also)

    make = remembered(build)
    make(wanted or str(new_object_id(desk.runtime)))
    return Birth(name, KIND, caller, "create", make, wanted_id=wanted, is_required=True)


async def load(desk: Desk, name: Name, kind: ObjectKind) -> Loaded:
    """The metadata in effect: one round trip in a warm process, three where only the catalog is."""
    found = await resolve(desk, name, kind, ahead=True)
    known = desk.shelf.get(found.location)
    if known is None:
        return await desk.load(found.location)
    if desk.files.is_local(found.location) and not await desk.files.exists(found.location):
        desk.shelf.forget(found.location)  # on a disk people move files by hand
        raise missing_file(found.location)
    return known


async def answer(desk: Desk, told: Told) -> Loaded:
    """The metadata that a change has led to; if they are gone by now, what is in effect instead.

    The change has happened, so whatever is missing, the answer is no refusal (P12).
    """
    if told.metadata_location is not None:
        try:
            return await desk.load(told.metadata_location)
        except Refused:
            pass  # the table has moved on, and given this file up
    standing = await desk.standings.of(told.table_id or "")
    if standing.location is None:
        raise Unknown("the change was made, but its metadata are gone by now")
    return await desk.load(standing.location)


async def rename(
    desk: Desk, catalog: str, request: RenameRequest, kind: ObjectKind, caller: Caller
) -> None:
    """Give a table or view another name."""
    source = Name(catalog, request.source.namespace, request.source.name)
    target = Name(
        catalog,
        check_namespace(request.destination.namespace),
        check_name(request.destination.name, "table"),
    )
    await run(desk, caller, RenameWork(desk, source, target, kind, caller), request)


async def names_in(
    desk: Desk,
    catalog: str,
    namespace: tuple[str, ...],
    kind: ObjectKind,
    *,
    after: str | None,
    limit: int | None,
) -> list[str]:
    """The names of one kind in a namespace, in order, without those that are dead (P31)."""
    levels = check_namespace(namespace)
    doubtful, snapshot = await _doubts_and_head(desk)
    try:
        schema = (await snapshot.schema(SchemaName(catalog, levels))).row
    except NotFound as missing:
        raise no_such_namespace(levels) from missing
    names: list[str] = []
    while limit is None or len(names) < limit:
        found = await snapshot.tables(schema.schema_id, after=after, limit=limit)
        names += [
            each.row.name
            for each in found
            if is_ours(each.row, kind) and not await _is_dead(desk, each, doubtful)
        ]
        if limit is None or len(found) < limit:
            break
        after = found[-1].row.name
    return names if limit is None else names[:limit]


async def _doubts_and_head(desk: Desk) -> tuple[frozenset[str], Snapshot]:
    """What is in doubt, and the newest snapshot, asked for at once."""
    doubtful, snapshot = await desk.runtime.tasks.gather(
        cast("Coroutine[Any, Any, frozenset[str] | Snapshot]", desk.doubts.open()),
        cast("Coroutine[Any, Any, frozenset[str] | Snapshot]", desk.reader.head()),
    )
    return cast("frozenset[str]", doubtful), cast("Snapshot", snapshot)


async def _is_dead(desk: Desk, found: Found[TableRow], doubtful: frozenset[str]) -> bool:
    if found.row.table_id not in doubtful:
        return False
    return not (await desk.standings.of(found.row.table_id)).is_live


async def _free(desk: Desk, birth: Birth) -> None:
    """A refusal if the name or the place is taken, or there is nothing to have it in."""
    taken = await occupant(desk, birth.name)
    if taken is not None:
        raise name_taken(birth, taken.kind)
    if await is_crowded(desk, birth):
        raise place_taken()
    try:
        await (await desk.reader.head()).schema(birth.name.schema)
    except NotFound as missing:
        raise no_such_namespace(birth.name.namespace) from missing


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError as problem:
        raise Invalid(f"{text[:60]!r} is not a UUID") from problem
