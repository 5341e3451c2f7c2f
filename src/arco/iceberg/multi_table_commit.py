"""A commit to several tables at once: all of it is seen, or nothing (P33).

Each table gets a pointer that names the transaction and what was in effect before; then one create of the
outcome decides all of them. A transaction that loses a race on one table is aborted and begun anew under
the next number; under a key whoever takes over aborts what its predecessor may still be about to commit,
by going up these numbers to the first that is undecided.
"""
# DOC transactions: """Commits to several tables, as clients send them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from arco.catalog.ddl import AttachTables, TableName
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Invalid,
    TakenOver,
    Unavailable,
    Unknown,
)
from arco.core.ids import new_object_id, new_ulid
from arco.iceberg.catalog_change import Verdict, base_number, name_under
from arco.iceberg.commit import LONGEST_MS, TABLES, CommitWork
from arco.iceberg.context import Caller, Desk
from arco.iceberg.create import (
    Birth,
    CreateWork,
    birth_refusal,
    is_by_same_hand,
    is_crowded,
    name_taken,
    place_taken,
    write_first,
)
from arco.iceberg.drop import is_doubtful
from arco.iceberg.engine.requirement import is_create, was_applied
from arco.iceberg.errors import Refused, Unreadable
from arco.iceberg.idempotency import Told, refused, run, succeeded
from arco.iceberg.loaded_metadata import Loaded
from arco.iceberg.name_resolution import Name, absent, look_up, occupant
from arco.iceberg.pointer import Pointer
from arco.iceberg.pointer_head import Standing
from arco.iceberg.prepared_commit import Attempt, attempt, reserve, write_attempt
from arco.iceberg.publication import refuse_attempt
from arco.iceberg.tables import staged_birth
from arco.iceberg.transaction_record import Participant, Transactions
from arco.iceberg.wire import CommitTableRequest, CommitTransactionRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms
from arco.storage.chain import Head
from arco.storage.link import Entry

_MOST_DEAD_NAMES = 3  # after so many attempts it is not the names that are taken, but a uuid


@dataclass(frozen=True)
class TableChange:
    """All that a transaction asks of one table, in the order in which it was asked."""

    name: Name
    requests: tuple[CommitTableRequest, ...]
    birth: Birth | None = None  # set if the table is to be made


@dataclass(frozen=True)
class _Part:
    """One table in one pass: what is written, and behind which head."""

    table_id: str
    made: Attempt
    head: Head
    base: Loaded


class TransactWork:
    """A transaction as work that takes effect once."""

    def __init__(
        self,
        desk: Desk,
        transactions: Transactions,
        changes: Sequence[TableChange],
        caller: Caller,
    ) -> None:
        self._desk = desk
        self._transactions = transactions
        self._changes = [each for each in changes if each.birth is None]
        self._births = [each for each in changes if each.birth is not None]
        self._caller = caller

    async def terms(self) -> Terms:
        desk = self._desk
        base = await base_number(desk)
        found = await desk.runtime.tasks.gather(
            *(look_up(desk, each.name, TABLES.kind) for each in self._changes)
        )
        ids = {
            "transaction": new_ulid(desk.runtime),
            "tables": ",".join("" if each is None else each.id for each in found),
        }
        return Terms(ids=ids, base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        earlier = ",".join((*_earlier(claim), claim.ids["transaction"]))
        return claim.ids | {"transaction": new_ulid(self._desk.runtime), "earlier": earlier}

    async def find(self, claim: Claim) -> Answer | None:
        return succeeded(Told()) if await committed_under(self._transactions, claim) else None

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        for transaction in _earlier(claim):
            if await self._ended(transaction):
                return succeeded(Told())
        ids = claim.ids["tables"].split(",") if self._changes else []
        for table_id, change in zip(ids, self._changes, strict=True):
            if not table_id:
                return refused(absent(TABLES.kind, change.name))
        async with self._all_lanes(ids):
            return await self._passes(ids, claim, hold)

    async def _ended(self, transaction: str) -> bool:
        """Whether an earlier holder has committed; if not, it cannot any more after this."""
        number = 0
        while True:
            outcome = await self._transactions.outcome(_numbered(transaction, number))
            if outcome is None:
                name = _numbered(transaction, number)
                return await self._transactions.decide(name, committed=False)
            if outcome:
                return True
            number += 1

    async def _passes(self, ids: list[str], claim: Claim, hold: Hold) -> Answer:
        number = 0
        while True:
            answer = await self._pass(ids, claim, hold, number)
            if answer is not None:
                return answer
            number += 1
            self._refuse_overtime()
            await hold.check()

    def _refuse_overtime(self) -> None:
        now = self._desk.runtime.clock.elapsed_ms()
        if now > self._caller.arrived_ms + LONGEST_MS:
            raise Unavailable("too many others are changing these tables; retry")

    async def _pass(self, ids: list[str], claim: Claim, hold: Hold, number: int) -> Answer | None:
        """One attempt; None if somebody was in the way and it has to be begun anew."""
        desk, transaction = self._desk, _numbered(claim.ids["transaction"], number)
        decided = await self._decided(ids, claim, transaction)
        if isinstance(decided, Answer):
            return decided
        parts, births = decided
        try:
            await self._begin(transaction, claim, parts, hold)
            entries = await self._point(parts)
            entries += await self._bear(births, claim, hold, transaction)
        except Conflict:
            await self._abort(transaction)
            return None
        except Verdict as verdict:
            await self._abort(transaction)
            return await self._name_refusal(verdict.problem, number)
        except (TakenOver, Refused):
            await self._abort(transaction)
            raise
        except ArcoError as problem:
            await self._abort(transaction)
            raise Unavailable("the transaction could not be stored; retry") from problem
        if not await self._transactions.decide(transaction, committed=True):
            return None
        for part in parts:
            self._follow(part, entries)
        for table_id, entry in entries:
            desk.aftermath.follow(table_id, entry)
        return succeeded(Told())

    async def _decided(
        self, ids: list[str], claim: Claim, transaction: str
    ) -> Answer | tuple[list[_Part], list[Birth]]:
        """What is to be written and made, or the answer if there is one already."""
        try:
            parts = await self._decide(ids, claim, transaction)
            return parts, [await self._expect(each) for each in self._births]
        except Unreadable:
            raise  # the store is in trouble, and not the request
        except (Refused, Invalid, Conflict) as verdict:
            if await self._was_done(ids):
                return succeeded(Told(), has_landed=False)
            return refused(verdict)

    async def _was_done(self, ids: list[str]) -> bool:
        """Whether every table holds what this very request has left there: its answer was lost."""
        for table_id, change in zip(ids, self._changes, strict=True):
            standing = await self._desk.standings.decided(await self._desk.standings.of(table_id))
            if standing.location is None:
                return False
            base = await self._desk.load(standing.location)
            if not all(was_applied(base.metadata, each.updates) for each in change.requests):
                return False
        for change in self._births:
            taken, birth = await occupant(self._desk, change.name), change.birth
            if taken is None or birth is None:
                return False
            if not await is_by_same_hand(self._desk, birth, taken):
                return False
        return True

    async def _decide(self, ids: list[str], claim: Claim, transaction: str) -> list[_Part]:
        """What each table becomes, in the order of their ids; a refusal is raised."""
        parts = []
        for table_id, change in sorted(zip(ids, self._changes, strict=True), key=lambda x: x[0]):
            standings = self._desk.standings
            standing = await standings.decided(await standings.of(table_id))
            if standing.location is None:
                raise absent(TABLES.kind, change.name)
            base = await self._desk.load(standing.location)
            parts.append(
                self._part(table_id, change, standing, base, claim=claim, transaction=transaction)
            )
        return parts

    def _part(
        self,
        table_id: str,
        change: TableChange,
        standing: Standing,
        base: Loaded,
        *,
        claim: Claim,
        transaction: str,
    ) -> _Part:
        desk, metadata = self._desk, base.metadata
        now_ms = desk.runtime.clock.now_ms()
        for request in change.requests:
            TABLES.check(metadata, request.requirements)
            location = str(metadata["location"])
            desk.locations.check_updates(request.updates, location, may_move=True)
            metadata = TABLES.apply(metadata, request.updates, now_ms, standing.location)
        refuse_attempt(base.metadata, metadata)
        made = attempt(
            desk,
            metadata,
            number=standing.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation="commit",
            previous=standing.location,
            updates=[update for request in change.requests for update in request.updates],
            transaction=transaction,
            base=base.metadata,
            # What only has to stay as it is takes part, too, so that nobody changes it meanwhile.
            stored=standing.location if metadata is base.metadata else None,
        )
        return _Part(table_id, made, standing.head, base)

    async def _expect(self, change: TableChange) -> Birth:
        """A table to be made, if its name and its place are free."""
        birth = change.birth
        if birth is None:
            raise Invalid(f"{change.name.name} is not to be made")
        taken = await occupant(self._desk, change.name)
        if taken is not None:
            raise name_taken(birth, taken.kind)
        if await is_crowded(self._desk, birth):
            raise place_taken()
        wanted = birth.wanted_id or str(new_object_id(self._desk.runtime))
        refuse_attempt(None, birth.make(wanted).metadata)
        return birth

    async def _begin(self, transaction: str, claim: Claim, parts: list[_Part], hold: Hold) -> None:
        """The intent and all metadata files, side by side."""
        desk = self._desk
        participants = tuple(
            Participant(
                table_id=each.table_id,
                number=each.made.number,
                metadata_location=each.made.location,
            )
            for each in parts
        )
        await desk.runtime.tasks.gather(
            self._transactions.begin(
                transaction, claim.request_id, self._caller.actor, participants
            ),
            *(self._store(each, hold) for each in parts),
        )

    async def _store(self, part: _Part, hold: Hold) -> None:
        await reserve(self._desk, part.table_id, part.made, part.base)
        await write_attempt(self._desk, part.table_id, part.made, hold)

    async def _point(self, parts: list[_Part]) -> list[tuple[str, Entry]]:
        """The pointers, in the order of the tables' ids, so that two transactions never wait in a ring."""
        entries = []
        for part in parts:
            chain = self._desk.pointers.chain(part.table_id)
            head = await chain.append(part.head, part.made.pointer)
            if head.entry is not None:
                entries.append((part.table_id, head.entry))
        return entries

    async def _bear(
        self, births: list[Birth], claim: Claim, hold: Hold, transaction: str
    ) -> list[tuple[str, Entry]]:
        """First pointers of tables that are made here, then all their names in one change."""
        if not births:
            return []
        desk, born = self._desk, []
        for birth in births:
            table_id, pointer = await self._first(birth, claim, hold, transaction)
            born.append((table_id, birth.attach(desk, table_id, pointer)))

        async def is_open(table_id: str, is_old: bool) -> bool:  # noqa: FBT001
            return await is_doubtful(desk, table_id, is_old=is_old)

        await desk.doubts.add([table_id for table_id, _ in born], is_open)
        self._refuse_overtime()  # what was in doubt for long may be forgotten
        naming = Claim(
            request_sha256="",
            request_id=new_ulid(desk.runtime),  # each pass names other tables than the one before
            ids={"object": born[0][0]},
            base=await base_number(desk),
            life_ms=0,
        )
        request = AttachTables(tables=tuple(each for _, each in born))
        await name_under(desk, naming, hold, request, self._caller.actor)
        heads = [(table_id, await desk.pointers.chain(table_id).find(0)) for table_id, _ in born]
        return [(table_id, entry) for table_id, entry in heads if entry is not None]

    async def _first(
        self, birth: Birth, claim: Claim, hold: Hold, transaction: str
    ) -> tuple[str, Pointer]:
        """The first pointer under the id that was staged, or under another if that was used."""
        wanted = birth.wanted_id or str(new_object_id(self._desk.runtime))
        for table_id in (wanted, str(new_object_id(self._desk.runtime))):
            try:
                pointer = await write_first(
                    self._desk, birth, table_id, claim, hold, transaction=transaction
                )
            except Conflict:
                continue
            return table_id, pointer
        raise Unavailable("no id is free for this table; retry")

    async def _abort(self, transaction: str) -> None:
        """End it, so that nobody has to wait; whoever meets it later can do the same."""
        try:
            await self._transactions.decide(transaction, committed=False)
        except (Unavailable, Unknown):
            return

    async def _name_refusal(self, problem: ArcoError, number: int) -> Answer | None:
        """Why the names could not be had; None if they were dead ones and are free now."""
        for change in self._births:
            if change.birth is None:
                continue
            taken = await occupant(self._desk, change.name)
            if taken is not None:
                return refused(birth_refusal(change.birth, problem, taken))
        if isinstance(problem, AlreadyExists) and number < _MOST_DEAD_NAMES:
            return None
        birth = next(each.birth for each in self._births if each.birth is not None)
        return refused(birth_refusal(birth, problem, None))

    def _follow(self, part: _Part, entries: list[tuple[str, Entry]]) -> None:
        entry = next((each for table_id, each in entries if table_id == part.table_id), None)
        if entry is None:
            return
        entries.remove((part.table_id, entry))
        self._desk.aftermath.follow(
            part.table_id,
            entry,
            shape=part.made.shape,
            spent=part.made.spent(part.base.metadata),
        )

    @asynccontextmanager
    async def _all_lanes(self, ids: list[str]) -> AsyncIterator[None]:
        async with AsyncExitStack() as lanes:
            for table_id in sorted(set(ids)):
                await lanes.enter_async_context(self._desk.lanes.enter(table_id))
            yield


async def committed_under(transactions: Transactions, claim: Claim) -> bool:
    """Whether anybody who has held this claim has committed."""
    for transaction in (*_earlier(claim), claim.ids["transaction"]):
        number = 0
        while (outcome := await transactions.outcome(_numbered(transaction, number))) is False:
            number += 1
        if outcome:
            return True
    return False


def _numbered(transaction: str, number: int) -> str:
    return f"{transaction}-{number:04d}"


def _earlier(claim: Claim) -> tuple[str, ...]:
    """The transactions of those who have held this claim before."""
    return tuple(each for each in claim.ids.get("earlier", "").split(",") if each)


MOST_TABLES = 100


class Commits:
    """Transactions over the tables of a catalog."""

    def __init__(self, desk: Desk, records: Transactions) -> None:
        self._desk = desk
        self._records = records

    async def commit(self, catalog: str, request: CommitTransactionRequest, caller: Caller) -> None:
        """Change all tables, or none; one alone is a plain commit."""
        changes = self._changes(catalog, request, caller)
        work: CommitWork | CreateWork | TransactWork
        if len(changes) == 1 and len(changes[0].requests) == 1:
            [only] = changes
            [wish] = only.requests
            if only.birth is not None:
                work = CreateWork(self._desk, only.birth)
            else:
                work = CommitWork(self._desk, only.name, wish, caller, TABLES)
        else:
            work = TransactWork(self._desk, self._records, changes, caller)
        await run(self._desk, caller, work, [catalog, request])

    def _changes(
        self, catalog: str, request: CommitTransactionRequest, caller: Caller
    ) -> list[TableChange]:
        """What is asked of each table; what is asked of one twice comes one after the other."""
        asked: dict[TableName, list[CommitTableRequest]] = {}
        names: dict[TableName, Name] = {}
        for wish in request.table_changes:
            if wish.identifier is None:
                raise Invalid(
                    "every change of a transaction names its table: identifier is missing"
                )
            name = Name(catalog, wish.identifier.namespace, wish.identifier.name)
            names[name.table] = name
            asked.setdefault(name.table, []).append(wish)
        if not 0 < len(asked) <= MOST_TABLES:
            raise Invalid(f"a transaction changes 1 to {MOST_TABLES} tables, not {len(asked)}")
        return [self._change(names[each], wishes, caller) for each, wishes in asked.items()]

    def _change(self, name: Name, wishes: list[CommitTableRequest], caller: Caller) -> TableChange:
        if not is_create(wishes[0].requirements):
            return TableChange(name, tuple(wishes))
        first = wishes[0]
        if len(wishes) > 1:
            updates = tuple(update for wish in wishes for update in wish.updates)
            first = CommitTableRequest(requirements=first.requirements, updates=updates)
        return TableChange(name, (first,), staged_birth(self._desk, name, first, caller))
