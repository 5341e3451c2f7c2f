"""A commit to one table or view: check, apply, store the metadata, and create the next pointer.

A lost race is no conflict: whoever loses reads the new head, checks the requirements against it and
applies the updates again. A refusal rests on nothing but the head of the table's chain, so it can be kept
as the outcome of a key (P12). After the pointer's create nothing can turn the answer into a failure.

Round trips one after the other, in a warm process: name and head, metadata, pointer: 3. Under a key its
claim and a second look at the head come in between: 5. A commit that publishes an attempt at a task reads
what happened to the table since the attempt was dispatched, before each create (P35): 3 if nothing did;
else one more for every sixteen numbers that this process has not read yet, and one for the floor.
"""
# DOC kinds: """The two metadata engines behind one face: what tables and views have in common for a commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from arco.catalog.model import ObjectKind
from arco.core.errors import AttemptFenced, Conflict, Invalid, NotFound, Unavailable
from arco.core.json import Json
from arco.iceberg.context import Caller, Desk
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.requirement import check_requirements, was_applied
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.engine.view_update import apply_view_updates, check_view_requirements
from arco.iceberg.idempotency import Told, refused, succeeded
from arco.iceberg.loaded_metadata import Loaded
from arco.iceberg.name_resolution import Name, Resolved, absent, look_up
from arco.iceberg.pointer import Look, look_above, pointer_of
from arco.iceberg.pointer_head import Standing
from arco.iceberg.prepared_commit import Attempt, attempt, reserve, write_attempt
from arco.iceberg.publication import published_attempt
from arco.iceberg.wire import CommitTableRequest, CommitViewRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms
from arco.storage.chain import Chain, Head
from arco.storage.link import Entry

Changes = Sequence[dict[str, Json]]


@dataclass(frozen=True)
class Engine:
    """How metadata of one kind are checked and changed."""

    kind: ObjectKind
    check: Callable[[Metadata | None, Changes], None]
    # base, updates, the time, where the base is stored
    apply: Callable[[Metadata | None, Changes, int, str | None], Metadata]


def _apply_to_table(
    base: Metadata | None, updates: Changes, now_ms: int, previous: str | None
) -> Metadata:
    return apply_updates(base, updates, now_ms=now_ms, previous_location=previous)


def _apply_to_view(
    base: Metadata | None, updates: Changes, now_ms: int, previous: str | None
) -> Metadata:
    del previous  # views keep no log of their files
    return apply_view_updates(base, updates, now_ms=now_ms)


TABLES = Engine(ObjectKind.TABLE, check_requirements, _apply_to_table)
VIEWS = Engine(ObjectKind.VIEW, check_view_requirements, _apply_to_view)


COMMIT = "commit"
LONGEST_MS = 20_000  # then the caller is told that nothing has happened; servers give up later

_WIDEST_SPREAD = 8


class CommitWork:
    """One commit as work that takes effect once."""

    def __init__(
        self,
        desk: Desk,
        name: Name,
        request: CommitTableRequest | CommitViewRequest,
        caller: Caller,
        engine: Engine,
    ) -> None:
        self._desk = desk
        self._name = name
        self._request = request
        self._caller = caller
        self._engine = engine
        self._found: Resolved | None = None
        self._until_ms = caller.arrived_ms + LONGEST_MS

    async def terms(self) -> Terms:
        self._found = await look_up(self._desk, self._name, self._engine.kind, ahead=True)
        if self._found is None:
            # Fixed by the claim, so that nobody who takes over can find another table instead.
            return Terms(ids={"table": ""}, base=-1)
        return Terms(ids={"table": self._found.id}, base=self._found.standing.number)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        return await landed_on(self._desk, claim)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        table_id = claim.ids["table"]
        if not table_id:
            return refused(absent(self._engine.kind, self._name))
        async with self._desk.lanes.enter(table_id):
            return await self._in_turn(table_id, claim, hold)

    async def _in_turn(self, table_id: str, claim: Claim, hold: Hold) -> Answer:
        desk, chain = self._desk, self._desk.pointers.chain(table_id)
        self._refuse_overtime()
        look, losses = await self._first_look(chain, claim), 0
        while look.mine is None:
            began_ms = desk.runtime.clock.elapsed_ms()
            standing = await desk.standings.decided(await desk.standings.at(look.head))
            if standing.location is None:
                return refused(absent(self._engine.kind, self._name))
            base = await desk.load(standing.location)
            try:
                made = self._decide(base, standing, claim)
                if made is not None:
                    made = await self._fence(chain, standing, base, made)
            except (Invalid, Conflict, NotFound, AttemptFenced) as verdict:
                return refused(verdict)
            if made is None:
                told = Told(table_id=table_id, metadata_location=standing.location)
                return succeeded(told, has_landed=False)
            await reserve(desk, table_id, made, base)
            await write_attempt(desk, table_id, made, hold)
            try:
                head = await chain.append(standing.head, made.pointer)
            except Conflict:
                losses += 1
                await self._stand_back(losses, began_ms)
                look = await look_above(chain, standing.number, claim.request_id)
                continue
            if head.entry is not None:
                desk.published.learn(chain, head.entry)
            self._follow(table_id, head, made, base)
            return succeeded(Told(table_id=table_id, metadata_location=made.location))
        return _landed(table_id, look.mine)

    async def _first_look(self, chain: Chain, claim: Claim) -> Look:
        """The head to begin with. Without a key, what was seen when the name was resolved will do."""
        if self._caller.key is not None or self._found is None:
            return await look_above(chain, claim.base, claim.request_id)
        seen, known = self._found.standing.head, chain.remembered()
        return Look(known if known is not None and known.number > seen.number else seen)

    def _decide(self, base: Loaded, standing: Standing, claim: Claim) -> Attempt | None:
        """What the request makes of the base; None if nothing."""
        desk, request = self._desk, self._request
        try:
            self._engine.check(base.metadata, request.requirements)
        except Conflict:
            if was_applied(base.metadata, request.updates):
                return None  # by this very request, whose answer was lost
            raise
        desk.locations.check_updates(request.updates, str(base.metadata["location"]), may_move=True)
        now_ms = desk.runtime.clock.now_ms()
        made = self._engine.apply(base.metadata, request.updates, now_ms, standing.location)
        if made is base.metadata:
            return None
        return attempt(
            desk,
            made,
            number=standing.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation=COMMIT,
            previous=standing.location,
            updates=request.updates,
            base=base.metadata,
        )

    async def _fence(
        self, chain: Chain, standing: Standing, base: Loaded, made: Attempt
    ) -> Attempt | None:
        """What is written names the attempt that it publishes; None if that has published already."""
        if made.pointer.operation != COMMIT:
            return made  # who registers other metadata publishes nothing
        task = published_attempt(base.metadata, made.metadata)
        if task is None:
            return made
        if await self._desk.published.own(chain, task, standing.head) is not None:
            return None
        said = msgspec.structs.replace(made.pointer, publication=task.publication())
        return replace(made, pointer=said)

    def _follow(self, table_id: str, head: Head, made: Attempt, base: Loaded) -> None:
        if head.entry is not None:
            self._desk.aftermath.follow(
                table_id,
                head.entry,
                shape=made.shape,
                spent=made.spent(base.metadata),
            )

    async def _stand_back(self, losses: int, began_ms: float) -> None:
        """After a lost race: spread out on the store's own scale, or give up with nothing done."""
        self._refuse_overtime()
        clock = self._desk.runtime.clock
        spread = min(losses, _WIDEST_SPREAD) * self._desk.runtime.rng.random()
        await clock.sleep((clock.elapsed_ms() - began_ms) * spread)

    def _refuse_overtime(self) -> None:
        if self._desk.runtime.clock.elapsed_ms() > self._until_ms:
            reason = "too many others are changing this table; retry"
            raise Unavailable(reason, retry_after_ms=1_000)


async def landed_on(desk: Desk, claim: Claim) -> Answer | None:
    """The answer of a claim whose request is on the chain of its table."""
    table_id = claim.ids["table"]
    if not table_id:
        return None
    seen = await look_above(desk.pointers.chain(table_id), claim.base, claim.request_id)
    return None if seen.mine is None else _landed(table_id, seen.mine)


def _landed(table_id: str, mine: Entry) -> Answer:
    told = Told(table_id=table_id, metadata_location=pointer_of(mine).metadata_location)
    return succeeded(told)
