"""Making a table or view: the first pointer, then its name in the catalog, which decides (P31).

Until the name is there nothing exists: a lost race or a crash leaves a chain that nobody finds. Under a key
everything happens under the id that the claim has fixed, so whoever takes over finds the first pointer
already there and goes on with it.

Round trips one after the other, in a warm process: metadata, pointer, the four of a change of the catalog,
and a last look at the chain: 7. Whether the name is free is first looked up in the snapshot that the
process remembers: the catalog decides on the newest one.
"""
# DOC birth: """Births: what is about to be made, under which name, and why it may not be."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import cast

from arco.catalog.ddl import AttachTable
from arco.catalog.model import ObjectKind, TableRow
from arco.core.errors import AlreadyExists, ArcoError, Conflict, NotFound, Unavailable, Unknown
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.catalog_change import Verdict, base_number, name_under, named_under
from arco.iceberg.context import Caller, Desk
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import Metadata, current_schema, properties_of
from arco.iceberg.engine.requirement import ADD, was_applied
from arco.iceberg.errors import (
    Refused,
    commit_failed,
    dotted,
    exists,
    in_own_words,
    no_such_namespace,
)
from arco.iceberg.idempotency import Told, refused, succeeded
from arco.iceberg.name_resolution import Name, occupant, release, seems_free
from arco.iceberg.pointer import Pointer, pointer_of
from arco.iceberg.pointer_head import Standing
from arco.iceberg.prepared_commit import attempt, facts_of, write_attempt
from arco.iceberg.publication import published_attempt
from arco.iceberg.table_paths import is_place_taken, paths_beside
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms
from arco.storage.chain import Head
from arco.storage.link import Entry


@dataclass(frozen=True)
class Newborn:
    """The metadata of something new, and where they are if they are stored already."""

    metadata: Metadata
    location: str | None = None
    also: frozenset[str] = frozenset()  # other ids than its own whose place it may have


@dataclass(frozen=True)
class Birth:
    """What is made, by whom, under which name. `make` builds it for an id."""

    name: Name
    kind: ObjectKind
    caller: Caller
    operation: str
    make: Callable[[str], Newborn]
    wanted_id: str | None = None  # what was staged, or tried out, has its id already
    is_required: bool = False  # whether a taken name fails a requirement

    def attach(self, desk: Desk, table_id: str, pointer: Pointer) -> AttachTable:
        """How the catalog is asked for the name."""
        newborn = self.make(table_id)
        metadata = newborn.metadata
        placed = desk.locations.placed(
            str(metadata["location"]), table_id=table_id, also=newborn.also
        )
        uuid = pointer.table_uuid
        return AttachTable(
            table_id=table_id,
            schema=self.name.schema,
            name=self.name.name,
            kind=self.kind,
            location=placed.stored,
            paths=paths_beside(desk.locations, metadata),
            table_uuid=None if uuid == table_id else uuid,
            comment=properties_of(metadata).get("comment"),
            columns=columns_of(current_schema(metadata)),
            born=0,
            projected=0,
        )


def check_new(
    desk: Desk, metadata: Metadata, table_id: str, also: frozenset[str] = frozenset()
) -> None:
    """`Invalid` if something new lies, or keeps its files, where it may not, or has odd columns."""
    location = str(metadata["location"])
    desk.locations.placed(location, table_id=table_id, also=also)
    desk.locations.check_properties(properties_of(metadata))
    desk.locations.check_metadata(metadata, location)
    paths_beside(desk.locations, metadata)
    # What the catalog could not show is refused before it is there.
    columns_of(current_schema(metadata))


def remembered(make: Callable[[str], Newborn]) -> Callable[[str], Newborn]:
    """The same newborn whenever it is asked for under the same id."""
    made: dict[str, Newborn] = {}

    def once(table_id: str) -> Newborn:
        if table_id not in made:
            made[table_id] = make(table_id)
        return made[table_id]

    return once


def birth_refusal(birth: Birth, problem: ArcoError, taken: TableRow | None) -> Refused:
    """Why something could not be made, in Iceberg's words."""
    if taken is not None and isinstance(problem, AlreadyExists):
        return name_taken(birth, taken.kind)
    if isinstance(problem, NotFound):
        return no_such_namespace(birth.name.namespace)
    if isinstance(problem, Conflict):  # the place belongs to another table
        return exists(str(problem))
    return in_own_words(problem)


def place_taken() -> Refused:
    """Another table lies where this one is to be."""
    return exists("another table lies at this location or path, in it or around it")


def name_taken(birth: Birth, by: ObjectKind) -> Refused:
    """The name is taken by a table or a view."""
    if birth.is_required and by is birth.kind:
        return commit_failed("Requirement failed: table already exists")
    label = "View" if by is ObjectKind.VIEW else "Table"
    same = "" if by is birth.kind else " with same name"
    return exists(f"{label}{same} already exists: {dotted(birth.name.namespace, birth.name.name)}")


_MOST_TRIES = 3


class CreateWork:
    """A birth as work that takes effect once."""

    def __init__(self, desk: Desk, birth: Birth) -> None:
        self._desk = desk
        self._birth = birth

    async def terms(self) -> Terms:
        return await birth_terms(self._desk, self._birth.wanted_id)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        return await born_under(self._desk, claim)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        desk, birth = self._desk, self._birth
        if birth.caller.key is None:
            # What was staged may be there already by this very request: look, and write no second one.
            is_new = not birth.is_required and await seems_free(desk, birth.name)
            taken = None if is_new else await occupant(desk, birth.name)
            if taken is not None:
                return await _met(desk, birth, taken)
            # Under a key the catalog alone may refuse, since another holder may be landing it (P12).
            if await is_crowded(desk, birth, [claim.ids["object"], claim.ids["spare"]]):
                return refused(place_taken())
        table_id, pointer = await first_pointer(desk, birth, claim, hold)
        request = birth.attach(desk, table_id, pointer)
        tries = 0
        while True:
            tries += 1
            try:
                await name_under(desk, claim, hold, request, birth.caller.actor)
            except Verdict as verdict:
                taken = await occupant(desk, birth.name)
                was_dead = taken is None and isinstance(verdict.problem, AlreadyExists)
                if was_dead and tries < _MOST_TRIES:
                    continue  # the name was a dead one, and is released now
                if taken is not None and isinstance(verdict.problem, AlreadyExists):
                    return await _met(desk, birth, taken)
                return refused(birth_refusal(birth, verdict.problem, taken))
            return await self._alive(table_id, pointer)

    async def _alive(self, table_id: str, pointer: Pointer) -> Answer:
        """Look at the chain again: a janitor may have taken it for one that nobody wants (P31)."""
        desk = self._desk
        standing, first = await self._look(table_id)
        if standing.tombstone is not None and _was_buried(standing.pointer):
            desk.aftermath.beside(table_id, release(desk, table_id, standing))
            raise Unavailable("the table was not made in time; retry", retry_after_ms=1_000)
        if first is not None:
            desk.aftermath.follow(table_id, first)
        return succeeded(Told(table_id=table_id, metadata_location=pointer.metadata_location))

    async def _look(self, table_id: str) -> tuple[Standing, Entry | None]:
        """How a table stands that has its name by now, and its first number."""
        desk = self._desk
        try:
            standing = await desk.standings.of(table_id)
            first = standing.head.entry
            if first is None or first.number > 0:  # somebody has gone on from it already
                first = await desk.pointers.chain(table_id).find(0)
        except Unavailable as problem:  # which would say that nothing has happened
            raise Unknown("the table has its name, and could not be looked at again") from problem
        return standing, first


async def birth_terms(desk: Desk, wanted_id: str | None = None) -> Terms:
    """The ids that something new may get, and a manifest that is there before it."""
    runtime = desk.runtime
    ids = {
        "object": wanted_id or str(new_object_id(runtime)),
        "spare": str(new_object_id(runtime)),
    }
    return Terms(ids=ids, base=await base_number(desk))


async def is_crowded(desk: Desk, birth: Birth, ids: Collection[str] = ()) -> bool:
    """Whether another table lies where this one is to be or to write; one of `ids` is its own.

    A namespace that is not there is refused first.
    """
    table_id = next(iter(ids), None) or birth.wanted_id or str(new_object_id(desk.runtime))
    metadata, own_ids = birth.make(table_id).metadata, {table_id, *ids}
    location = str(metadata["location"])
    places = [*paths_beside(desk.locations, metadata)]
    if desk.locations.owner(location) not in own_ids:  # else the folder was made for it
        places.append(desk.locations.stored(location))
    taken = [await is_place_taken(desk, each, own_ids) for each in places]
    if not any(taken):
        return False
    try:
        await (await desk.reader.head()).schema(birth.name.schema)
    except NotFound as missing:
        raise no_such_namespace(birth.name.namespace) from missing
    return True


async def born_under(desk: Desk, claim: Claim) -> Answer | None:
    """The answer of a claim under which something was made."""
    done = await named_under(desk, claim)
    if done is None:
        return None
    table_id = cast("TableRow", done.object.row).table_id
    first = pointer_of(await desk.pointers.chain(table_id).read(0))
    return succeeded(Told(table_id=table_id, metadata_location=first.metadata_location))


async def _met(desk: Desk, birth: Birth, taken: TableRow) -> Answer:
    """The answer where the name is taken: by another, or by this very request, whose answer was lost."""
    if await is_by_same_hand(desk, birth, taken):
        return succeeded(Told(table_id=taken.table_id), has_landed=False)
    return refused(name_taken(birth, taken.kind))


async def is_by_same_hand(desk: Desk, birth: Birth, taken: TableRow) -> bool:
    """Whether what has the name is what was staged for this request, with all that it wants to add.

    Some clients send a create again when its answer is lost, and remove their files if it is refused.
    """
    wanted = birth.wanted_id
    if not birth.is_required or wanted is None or wanted not in {taken.table_id, taken.table_uuid}:
        return False
    snapshots = birth.make(wanted).metadata.get("snapshots") or []
    standing = await desk.standings.of(taken.table_id)
    if standing.location is None or not isinstance(snapshots, list):
        return False
    adding: list[dict[str, Json]] = [{"action": ADD, "snapshot": each} for each in snapshots]
    return not adding or was_applied((await desk.load(standing.location)).metadata, adding)


async def first_pointer(desk: Desk, birth: Birth, claim: Claim, hold: Hold) -> tuple[str, Pointer]:
    """The id under which it is born, and its first pointer: those of the claim, or the spare ones."""
    for table_id in (claim.ids["object"], claim.ids["spare"]):
        try:
            return table_id, await write_first(desk, birth, table_id, claim, hold)
        except Conflict:
            first = pointer_of(await desk.pointers.chain(table_id).read(0))
            if first.request_id == claim.request_id:
                return table_id, first  # an earlier attempt under the same claim
    raise Unavailable("another attempt to make this table is under way", retry_after_ms=1_000)


async def write_first(
    desk: Desk,
    birth: Birth,
    table_id: str,
    claim: Claim,
    hold: Hold,
    *,
    transaction: str | None = None,
) -> Pointer:
    """Create number 0 of a chain; `Conflict` if it is there."""
    newborn, chain = birth.make(table_id), desk.pointers.chain(table_id)
    nothing = Head(None, desk.runtime.clock.elapsed_ms())
    try:
        if newborn.location is not None:
            body = _to_stored(birth, newborn, claim, transaction)
            await hold.check()
            await chain.append(nothing, body)
            return body
        task = published_attempt(None, newborn.metadata)
        made = attempt(
            desk,
            newborn.metadata,
            number=0,
            caller=birth.caller,
            request_id=claim.request_id,
            operation=birth.operation,
            previous=None,
            transaction=transaction,
            # Nothing can have happened yet to a table that is made here, so nothing is looked at.
            publication=None if task is None else task.publication(),
        )
        # Not side by side: whoever takes over goes on with a pointer that is there, so its file must be.
        await write_attempt(desk, table_id, made, hold)
        await chain.append(nothing, made.pointer)
    except Unknown as unclear:  # without a name it does not exist
        raise Unavailable("the first version could not be stored; retry") from unclear
    return made.pointer


def _to_stored(birth: Birth, newborn: Newborn, claim: Claim, transaction: str | None) -> Pointer:
    """A pointer to metadata that are there already."""
    return Pointer(
        request_id=claim.request_id,
        operation=birth.operation,
        actor=birth.caller.actor,
        engine=birth.caller.engine,
        update_source=birth.caller.update_source,
        metadata_location=str(newborn.location),
        transaction=transaction,
        **facts_of(newborn.metadata),
    )


def _was_buried(pointer: Pointer | None) -> bool:
    return pointer is not None and pointer.operation == "bury"
