"""Creating a table or view: the first pointer, then the name in the catalog, which decides (P31).

Nothing exists before the name does: a lost race or a crash leaves a chain that no name leads to. Under
an idempotency key the claim fixes the id, so a takeover continues from the first pointer. Sequential
round trips in a warm process: metadata and pointer, the three of a catalog change, and a last read of the
chain: 5. Under a key 1 more for the pointer, besides the claim.
"""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from arco.catalog.change import ClaimId
from arco.catalog.ddl import AttachTable
from arco.catalog.model import ObjectKind, TableRow
from arco.catalog.name import check_property_sizes
from arco.catalog.pending_request import Caller
from arco.core.errors import AlreadyExists, ArcoError, Conflict, NotFound, Unavailable, Unknown
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.catalog_change import (
    CatalogRefusal,
    change_catalog,
    find_catalog_change,
    manifest_number,
)
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import Metadata, current_schema, properties_of
from arco.iceberg.engine.requirement import ADD, requirement_failed, was_applied
from arco.iceberg.errors import (
    already_exists,
    dotted,
    message_with_advice,
    no_such_namespace,
)
from arco.iceberg.idempotency import FixedIdsWork, error_answer, table_answer
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName, find_occupant, is_probably_free, release_name
from arco.iceberg.pointer import Pointer, PointerOperation, pointer_of
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import prepare_commit, write_metadata
from arco.iceberg.publication import published_attempt
from arco.iceberg.table_paths import is_place_taken, paths_beside
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms
from arco.storage.chain import Head
from arco.storage.entry import Entry

_MAX_TRIES = 3


@dataclass(frozen=True)
class InitialMetadata:
    """The first metadata of a table or view, and their file if they are stored already."""

    metadata: Metadata
    stored: LoadedMetadata | None = None
    extra_owner_ids: frozenset[str] = frozenset()  # other ids whose managed location it may use


@dataclass(frozen=True)
class Creation:
    """A table or view to create: its name, its caller, and `make`, which builds it for an id."""

    name: FullName
    kind: ObjectKind
    caller: Caller
    operation: str
    make: Callable[[str], InitialMetadata]
    wanted_id: str | None = None  # a staged table has its id already
    is_required: bool = False  # whether a taken name fails a requirement

    def attach(self, context: IcebergContext, table_id: str, pointer: Pointer) -> AttachTable:
        """The catalog request that adds the name."""
        initial = self.make(table_id)
        metadata = initial.metadata
        placed = context.locations.table_location(
            str(metadata["location"]), table_id=table_id, extra_owner_ids=initial.extra_owner_ids
        )
        uuid = pointer.table_uuid
        return AttachTable(
            table_id=table_id,
            schema=self.name.schema,
            name=self.name.name,
            kind=self.kind,
            location=placed.stored,
            paths=paths_beside(context.locations, metadata),
            table_uuid=None if uuid == table_id else uuid,
            comment=properties_of(metadata).get("comment"),
            columns=columns_of(current_schema(metadata)),
            born=0,
            projected=0,
        )


def check_new_metadata(
    context: IcebergContext,
    metadata: Metadata,
    table_id: str,
    extra_owner_ids: frozenset[str] = frozenset(),
) -> None:
    """`Invalid` if a new object has a forbidden location or path, or columns that cannot be shown."""
    location = str(metadata["location"])
    context.locations.table_location(location, table_id=table_id, extra_owner_ids=extra_owner_ids)
    check_property_sizes(properties_of(metadata))
    context.locations.check_properties(properties_of(metadata))
    context.locations.check_metadata(metadata, location)
    paths_beside(context.locations, metadata)
    # Columns that the catalog could not show are refused before anything is written.
    columns_of(current_schema(metadata))


def build_once(make: Callable[[str], InitialMetadata]) -> Callable[[str], InitialMetadata]:
    """`make` with its results cached by id."""
    built: dict[str, InitialMetadata] = {}

    def once(table_id: str) -> InitialMetadata:
        if table_id not in built:
            built[table_id] = make(table_id)
        return built[table_id]

    return once


def creation_error(creation: Creation, problem: ArcoError, occupant: TableRow | None) -> ArcoError:
    """Why the object could not be created, with the message for Iceberg's clients."""
    if occupant is not None and isinstance(problem, AlreadyExists):
        return name_taken_error(creation, occupant.kind)
    if isinstance(problem, NotFound):
        return no_such_namespace(creation.name.namespace)
    if isinstance(problem, Conflict):  # the location belongs to another table
        return already_exists(message_with_advice(problem))
    return problem


def location_taken_error() -> AlreadyExists:
    """Another table has the requested location."""
    return already_exists(
        "another table has this location or path, or one inside or around it: choose another location"
    )


def name_taken_error(creation: Creation, by: ObjectKind) -> AlreadyExists | Conflict:
    """The name is taken by a table or a view."""
    if creation.is_required and by is creation.kind:
        return requirement_failed("table already exists")
    label = "View" if by is ObjectKind.VIEW else "Table"
    same = "" if by is creation.kind else " with same name"
    return already_exists(
        f"{label}{same} already exists: {dotted(creation.name.namespace, creation.name.name)}"
    )


class CreateWork(FixedIdsWork):
    """A creation as work that takes effect once."""

    def __init__(self, context: IcebergContext, creation: Creation) -> None:
        self._context = context
        self._creation = creation

    async def terms(self) -> ClaimTerms:
        return await creation_terms(self._context, self._creation.wanted_id)

    async def find(self, claim: Claim) -> Answer | None:
        return await find_created(self._context, claim)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        context, creation = self._context, self._creation
        if creation.caller.key is None:
            # An earlier send of this request may have created it: check, and write no second one.
            is_new = not creation.is_required and await is_probably_free(context, creation.name)
            occupant = None if is_new else await find_occupant(context, creation.name)
            if occupant is not None:
                return await _name_taken_answer(context, creation, occupant)
            # With a key only the catalog may refuse, since another holder may be creating it (P12).
            if await is_location_taken(
                context, creation, [claim.ids[ClaimId.OBJECT], claim.ids[ClaimId.SPARE]]
            ):
                return error_answer(location_taken_error())
        table_id, pointer = await create_first_pointer(context, creation, claim, hold)
        request = creation.attach(context, table_id, pointer)
        tries = 0
        while True:
            tries += 1
            try:
                await change_catalog(context, claim, hold, request, creation.caller.actor)
            except CatalogRefusal as refusal:
                occupant = await find_occupant(context, creation.name)
                was_dead = occupant is None and isinstance(refusal.problem, AlreadyExists)
                if was_dead and tries < _MAX_TRIES:
                    continue  # the name of a dropped table is released now
                if occupant is not None and isinstance(refusal.problem, AlreadyExists):
                    return await _name_taken_answer(context, creation, occupant)
                return error_answer(creation_error(creation, refusal.problem, occupant))
            return await self._alive(table_id, pointer)

    async def _alive(self, table_id: str, pointer: Pointer) -> Answer:
        """Read the chain again: garbage collection may have ended it as abandoned (P31)."""
        context = self._context
        table_head, first = await self._look(table_id)
        if table_head.tombstone is not None and _is_abandoned(table_head.pointer):
            context.after_commit.run_in_background(
                table_id, release_name(context, table_id, table_head)
            )
            raise Unavailable("the table was not created in time; retry", retry_after_ms=1_000)
        if first is not None:
            context.after_commit.schedule(table_id, first)
        return table_answer(table_id, pointer.metadata_location)

    async def _look(self, table_id: str) -> tuple[PointerHead, Entry | None]:
        """The head of a table that now has its name, and its first pointer."""
        context = self._context
        try:
            table_head = await context.heads.of(table_id)
            first = table_head.chain_head.entry
            if first is None or first.number > 0:  # another request has committed to it already
                first = await context.pointers.chain(table_id).find(0)
        except Unavailable as problem:  # `Unavailable` would mean that nothing has happened
            raise Unknown(
                "the table has its name, but its pointers could not be read again"
            ) from problem
        return table_head, first


async def creation_terms(context: IcebergContext, wanted_id: str | None = None) -> ClaimTerms:
    """The ids that a new object may get, and the number of an earlier manifest."""
    runtime = context.runtime
    ids = {
        ClaimId.OBJECT: wanted_id or str(new_object_id(runtime)),
        ClaimId.SPARE: str(new_object_id(runtime)),
    }
    return ClaimTerms(ids=ids, base=await manifest_number(context))


async def is_location_taken(
    context: IcebergContext, creation: Creation, ids: Collection[str] = ()
) -> bool:
    """Whether another table has a location that this one is to have or to write to; `ids` are this table's.

    A namespace that is not there is refused first.
    """
    table_id = next(iter(ids), None) or creation.wanted_id or str(new_object_id(context.runtime))
    metadata, own_ids = creation.make(table_id).metadata, {table_id, *ids}
    location = str(metadata["location"])
    places = [*paths_beside(context.locations, metadata)]
    if context.locations.owner(location) not in own_ids:  # else the folder was made for it
        places.append(context.locations.stored(location))
    are_taken = [await is_place_taken(context, each, own_ids) for each in places]
    if not any(are_taken):
        return False
    try:
        await (await context.reader.head()).schema(creation.name.schema)
    except NotFound as missing:
        raise no_such_namespace(creation.name.namespace) from missing
    return True


async def find_created(context: IcebergContext, claim: Claim) -> Answer | None:
    """The answer of a claim under which an object was created."""
    done = await find_catalog_change(context, claim)
    if done is None:
        return None
    table_id = cast("TableRow", done.object.row).table_id
    first = pointer_of(await context.pointers.chain(table_id).read(0))
    return table_answer(table_id, first.metadata_location)


async def _name_taken_answer(
    context: IcebergContext, creation: Creation, occupant: TableRow
) -> Answer:
    """The answer where the name is taken: by another, or by this very request, whose answer was lost."""
    if await is_repeated_create(context, creation, occupant):
        return table_answer(occupant.table_id, has_landed=False)
    return error_answer(name_taken_error(creation, occupant.kind))


async def is_repeated_create(
    context: IcebergContext, creation: Creation, occupant: TableRow
) -> bool:
    """Whether what has the name is what was staged for this request, with all that it wants to add.

    Some clients send a create again when its answer is lost, and remove their files if it is refused.
    """
    wanted_id = creation.wanted_id
    if (
        not creation.is_required
        or wanted_id is None
        or wanted_id not in {occupant.table_id, occupant.table_uuid}
    ):
        return False
    snapshots = creation.make(wanted_id).metadata.get("snapshots") or []
    table_head = await context.heads.of(occupant.table_id)
    if table_head.location is None or not isinstance(snapshots, list):
        return False
    adding: list[dict[str, Json]] = [{"action": ADD, "snapshot": each} for each in snapshots]
    return not adding or was_applied((await context.load(table_head.location)).metadata, adding)


async def create_first_pointer(
    context: IcebergContext, creation: Creation, claim: Claim, hold: ClaimHold
) -> tuple[str, Pointer]:
    """The id of the new object and its first pointer; the claim has a spare id."""
    for table_id in (claim.ids[ClaimId.OBJECT], claim.ids[ClaimId.SPARE]):
        try:
            return table_id, await write_first_pointer(context, creation, table_id, claim, hold)
        except Conflict:
            first = pointer_of(await context.pointers.chain(table_id).read(0))
            if first.request_id == claim.request_id:
                return table_id, first  # written earlier under the same claim
    raise Unavailable("another request is creating this table; retry", retry_after_ms=1_000)


async def write_first_pointer(
    context: IcebergContext,
    creation: Creation,
    table_id: str,
    claim: Claim,
    hold: ClaimHold,
    *,
    transaction: str | None = None,
) -> Pointer:
    """Create pointer 0 of a chain; `Conflict` if it exists."""
    initial, chain = creation.make(table_id), context.pointers.chain(table_id)
    nothing = Head(None, context.runtime.clock.elapsed_ms())
    try:
        # A registered file may be of a table that a pipeline made elsewhere.
        task = None if initial.stored else published_attempt(None, initial.metadata)
        prepared = prepare_commit(
            context,
            initial.metadata,
            number=0,
            caller=creation.caller,
            request_id=claim.request_id,
            operation=creation.operation,
            previous=None,
            transaction=transaction,
            stored=initial.stored,
            # A new table has no earlier publications, so none are read.
            publication=None if task is None else task.publication(),
        )
        writing = write_metadata(context, table_id, prepared, hold)
        if creation.caller.key is None and transaction is None:
            # No name leads here yet, and no other process continues this request.
            await context.runtime.tasks.gather(
                cast("Coroutine[Any, Any, object]", writing),
                chain.append(nothing, prepared.pointer),
            )
        else:
            # A takeover continues from an existing pointer, so its file must exist.
            await writing
            await chain.append(nothing, prepared.pointer)
    except Unknown as unclear:  # without a name the table does not exist
        raise Unavailable("the first version could not be stored; retry") from unclear
    return prepared.pointer


def _is_abandoned(pointer: Pointer | None) -> bool:
    return pointer is not None and pointer.operation == PointerOperation.ABANDON
