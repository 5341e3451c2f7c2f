"""A commit to several tables at once: readers see all of it or none of it (P33).

Each table gets a pointer that names the transaction and the file before it; then one create of the
outcome decides all of them. A transaction that loses a race on a table is aborted and tried again under
the next number. A process that takes over under a key aborts what its predecessor may still commit: it
goes up these numbers to the first that is undecided.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from arco.catalog.change import ClaimId
from arco.catalog.ddl import AttachTables, TableName
from arco.catalog.pending_request import Caller
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Invalid,
    LocationTaken,
    NoSuchSchema,
    NoSuchTable,
    NotFound,
    TakenOver,
    Unavailable,
    Unknown,
    UnreservedPath,
)
from arco.core.ids import new_object_id, new_ulid
from arco.iceberg.catalog_change import CatalogRefusal, change_catalog, manifest_number
from arco.iceberg.commit import TABLE_ENGINE, CommitWork, check_deadline
from arco.iceberg.context import IcebergContext
from arco.iceberg.create import (
    CreateWork,
    Creation,
    creation_error,
    is_location_taken,
    is_repeated_create,
    location_taken_error,
    name_taken_error,
    write_first_pointer,
)
from arco.iceberg.drop import is_unresolved
from arco.iceberg.engine.requirement import is_create, was_applied
from arco.iceberg.errors import UNREADABLE
from arco.iceberg.idempotency import OperationResult, error_answer, run_once, success_answer
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName, find_object, find_occupant, not_found_error
from arco.iceberg.pointer import Pointer, PointerOperation
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import (
    PreparedCommit,
    prepare_commit,
    reserve_locations,
    write_metadata,
)
from arco.iceberg.publication import refuse_attempt
from arco.iceberg.tables import staged_creation
from arco.iceberg.transaction_record import Participant, TransactionRecords
from arco.iceberg.wire import CommitTableRequest, CommitTransactionRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms
from arco.storage.chain import Head
from arco.storage.entry import Entry

_MAX_RELEASES = 3  # after this many tries it is a uuid that is taken, not a name

MAX_TABLES = 100


@dataclass(frozen=True)
class TableChange:
    """The changes of one table in a transaction, in request order."""

    name: FullName
    requests: tuple[CommitTableRequest, ...]
    creation: Creation | None = None  # set if the table is created


@dataclass(frozen=True)
class _PreparedTable:
    """One table in one try: the prepared commit, and the head it follows."""

    table_id: str
    name: FullName
    prepared: PreparedCommit
    head: Head
    base: LoadedMetadata


class MultiTableCommitWork:
    """A transaction as work that takes effect once."""

    def __init__(
        self,
        context: IcebergContext,
        transactions: TransactionRecords,
        changes: Sequence[TableChange],
        caller: Caller,
    ) -> None:
        self._context = context
        self._transactions = transactions
        self._changes = [each for each in changes if each.creation is None]
        self._creations = [each for each in changes if each.creation is not None]
        self._caller = caller

    async def terms(self) -> ClaimTerms:
        context = self._context
        base = await manifest_number(context)
        resolved = await context.runtime.tasks.gather(
            *(find_object(context, each.name, TABLE_ENGINE.kind) for each in self._changes)
        )
        ids = {
            ClaimId.TRANSACTION: new_ulid(context.runtime),
            ClaimId.TABLES: ",".join("" if each is None else each.id for each in resolved),
        }
        return ClaimTerms(ids=ids, base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        earlier = ",".join((*_earlier(claim), claim.ids[ClaimId.TRANSACTION]))
        return claim.ids | {
            ClaimId.TRANSACTION: new_ulid(self._context.runtime),
            ClaimId.EARLIER: earlier,
        }

    async def find(self, claim: Claim) -> Answer | None:
        return (
            success_answer(OperationResult())
            if await was_committed(self._transactions, claim)
            else None
        )

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        for transaction in _earlier(claim):
            if await self._end_earlier(transaction):
                return success_answer(OperationResult())
        ids = claim.ids[ClaimId.TABLES].split(",") if self._changes else []
        for table_id, change in zip(ids, self._changes, strict=True):
            if not table_id:
                return error_answer(not_found_error(TABLE_ENGINE.kind, change.name))
        async with self._lock_all(ids):
            return await self._run(ids, claim, hold)

    async def _end_earlier(self, transaction: str) -> bool:
        """Whether an earlier holder has committed; if not, its transaction is aborted."""
        number = 0
        while True:
            outcome = await self._transactions.outcome(_numbered(transaction, number))
            if outcome is None:
                name = _numbered(transaction, number)
                return await self._transactions.decide(name, committed=False)
            if outcome:
                return True
            number += 1

    async def _run(self, ids: list[str], claim: Claim, hold: ClaimHold) -> Answer:
        number = 0
        while True:
            answer = await self._try_once(ids, claim, hold, number)
            if answer is not None:
                return answer
            number += 1
            check_deadline(self._context, self._caller, retry_after_ms=None)
            await hold.check()

    async def _try_once(
        self, ids: list[str], claim: Claim, hold: ClaimHold, number: int
    ) -> Answer | None:
        """One try; None if another request was faster and it must be tried again."""
        context, transaction = self._context, _numbered(claim.ids[ClaimId.TRANSACTION], number)
        decided = await self._prepare_or_answer(ids, claim, transaction)
        if isinstance(decided, Answer):
            return decided
        tables, creations = decided
        try:
            await self._begin(transaction, claim, tables, hold)
            entries = await self._append_pointers(tables)
            entries += await self._create_tables(creations, claim, hold, transaction)
        except (TakenOver, NoSuchTable, LocationTaken, UnreservedPath, *UNREADABLE):
            await self._abort(transaction)
            raise
        except Conflict:
            await self._abort(transaction)
            return None
        except CatalogRefusal as refusal:
            await self._abort(transaction)
            return await self._name_error(refusal.problem, number)
        except ArcoError as problem:
            await self._abort(transaction)
            raise Unavailable("the transaction could not be stored; retry") from problem
        if not await self._transactions.decide(transaction, committed=True):
            return None
        for table in tables:
            self._schedule_steps(table, entries)
        for table_id, entry in entries:
            context.after_commit.schedule(table_id, entry)
        return success_answer(OperationResult())

    async def _prepare_or_answer(
        self, ids: list[str], claim: Claim, transaction: str
    ) -> Answer | tuple[list[_PreparedTable], list[Creation]]:
        """The prepared tables and creations, or the answer if it is known already."""
        try:
            tables = await self._prepare_tables(ids, claim, transaction)
            return tables, [await self._check_creation(each) for each in self._creations]
        except (NoSuchTable, NoSuchSchema, AlreadyExists, Invalid, Conflict) as refusal:
            if await self._is_repeated(ids):
                return success_answer(OperationResult(), has_landed=False)
            return error_answer(refusal)

    async def _is_repeated(self, ids: list[str]) -> bool:
        """Whether every table has the changes of this request already: its answer was lost."""
        for table_id, change in zip(ids, self._changes, strict=True):
            table_head = await self._context.heads.settle(await self._context.heads.of(table_id))
            if table_head.location is None:
                return False
            base = await self._context.load(table_head.location)
            if not all(was_applied(base.metadata, each.updates) for each in change.requests):
                return False
        for change in self._creations:
            occupant, creation = await find_occupant(self._context, change.name), change.creation
            if occupant is None or creation is None:
                return False
            if not await is_repeated_create(self._context, creation, occupant):
                return False
        return True

    async def _prepare_tables(
        self, ids: list[str], claim: Claim, transaction: str
    ) -> list[_PreparedTable]:
        """The prepared commit of each table, in the order of their ids; a refusal is raised."""
        tables = []
        for table_id, change in sorted(zip(ids, self._changes, strict=True), key=lambda x: x[0]):
            heads = self._context.heads
            table_head = await heads.settle(await heads.of(table_id))
            if table_head.location is None:
                raise not_found_error(TABLE_ENGINE.kind, change.name)
            base = await self._context.load(table_head.location)
            tables.append(
                self._prepare_table(
                    table_id, change, table_head, base, claim=claim, transaction=transaction
                )
            )
        return tables

    def _prepare_table(
        self,
        table_id: str,
        change: TableChange,
        table_head: PointerHead,
        base: LoadedMetadata,
        *,
        claim: Claim,
        transaction: str,
    ) -> _PreparedTable:
        context, metadata = self._context, base.metadata
        now_ms = context.runtime.clock.now_ms()
        for request in change.requests:
            TABLE_ENGINE.check(metadata, request.requirements)
            location = str(metadata["location"])
            context.locations.check_updates(request.updates, location, may_move=True)
            metadata = TABLE_ENGINE.apply(metadata, request.updates, now_ms, table_head.location)
        refuse_attempt(base.metadata, metadata)
        prepared = prepare_commit(
            context,
            metadata,
            number=table_head.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation=PointerOperation.COMMIT,
            previous=table_head.location,
            updates=[update for request in change.requests for update in request.updates],
            transaction=transaction,
            base=base.metadata,
            # A table without updates takes part too, so that no other request changes it meanwhile.
            stored=base if metadata is base.metadata else None,
        )
        return _PreparedTable(table_id, change.name, prepared, table_head.chain_head, base)

    async def _check_creation(self, change: TableChange) -> Creation:
        """The creation of a new table, if its name and its location are free."""
        creation = change.creation
        if creation is None:
            raise Invalid(f"{change.name.name} is not a table to create")
        occupant = await find_occupant(self._context, change.name)
        if occupant is not None:
            raise name_taken_error(creation, occupant.kind)
        if await is_location_taken(self._context, creation):
            raise location_taken_error()
        table_id = creation.wanted_id or str(new_object_id(self._context.runtime))
        refuse_attempt(None, creation.make(table_id).metadata)
        return creation

    async def _begin(
        self, transaction: str, claim: Claim, tables: list[_PreparedTable], hold: ClaimHold
    ) -> None:
        """Write the intent and all metadata files concurrently."""
        context = self._context
        participants = tuple(
            Participant(
                table_id=each.table_id,
                number=each.prepared.number,
                metadata_location=each.prepared.location,
            )
            for each in tables
        )
        await context.runtime.tasks.gather(
            self._transactions.begin(
                transaction, claim.request_id, self._caller.actor, participants
            ),
            *(self._store(each, hold) for each in tables),
        )

    async def _store(self, table: _PreparedTable, hold: ClaimHold) -> None:
        try:
            await reserve_locations(self._context, table.table_id, table.prepared, table.base)
        except NotFound as dropped:
            raise not_found_error(TABLE_ENGINE.kind, table.name) from dropped
        await write_metadata(self._context, table.table_id, table.prepared, hold)

    async def _append_pointers(self, tables: list[_PreparedTable]) -> list[tuple[str, Entry]]:
        """Append the pointers in the order of the tables' ids, so that transactions cannot deadlock."""
        entries = []
        for table in tables:
            chain = self._context.pointers.chain(table.table_id)
            head = await chain.append(table.head, table.prepared.pointer)
            if head.entry is not None:
                entries.append((table.table_id, head.entry))
        return entries

    async def _create_tables(
        self, creations: list[Creation], claim: Claim, hold: ClaimHold, transaction: str
    ) -> list[tuple[str, Entry]]:
        """Write the first pointers of new tables, then add all their names in one catalog change."""
        if not creations:
            return []
        context, attached = self._context, []
        for creation in creations:
            table_id, pointer = await self._first_pointer(creation, claim, hold, transaction)
            attached.append((table_id, creation.attach(context, table_id, pointer)))

        async def is_open(table_id: str, is_old: bool) -> bool:  # noqa: FBT001
            return await is_unresolved(context, table_id, is_old=is_old)

        await context.unresolved_names.add([table_id for table_id, _ in attached], is_open)
        # An old unresolved id may be forgotten.
        check_deadline(self._context, self._caller, retry_after_ms=None)
        naming = Claim(
            request_sha256="",
            request_id=new_ulid(context.runtime),  # each try creates other ids than the one before
            ids={ClaimId.OBJECT: attached[0][0]},
            base=await manifest_number(context),
            life_ms=0,
        )
        request = AttachTables(tables=tuple(each for _, each in attached))
        await change_catalog(context, naming, hold, request, self._caller.actor)
        heads = [
            (table_id, await context.pointers.chain(table_id).find(0)) for table_id, _ in attached
        ]
        return [(table_id, entry) for table_id, entry in heads if entry is not None]

    async def _first_pointer(
        self, creation: Creation, claim: Claim, hold: ClaimHold, transaction: str
    ) -> tuple[str, Pointer]:
        """Write the first pointer under the staged id, or under a new one if that is used."""
        wanted_id = creation.wanted_id or str(new_object_id(self._context.runtime))
        for table_id in (wanted_id, str(new_object_id(self._context.runtime))):
            try:
                pointer = await write_first_pointer(
                    self._context, creation, table_id, claim, hold, transaction=transaction
                )
            except Conflict:
                continue
            return table_id, pointer
        raise Unavailable("no id is free for this table; retry")

    async def _abort(self, transaction: str) -> None:
        """Abort it, so that no writer has to wait; a writer that meets it can do the same."""
        try:
            await self._transactions.decide(transaction, committed=False)
        except (Unavailable, Unknown):
            return

    async def _name_error(self, problem: ArcoError, number: int) -> Answer | None:
        """Why the names could not be added; None if those of dropped tables are free now."""
        for change in self._creations:
            if change.creation is None:
                continue
            occupant = await find_occupant(self._context, change.name)
            if occupant is not None:
                return error_answer(creation_error(change.creation, problem, occupant))
        if isinstance(problem, AlreadyExists) and number < _MAX_RELEASES:
            return None
        creation = next(each.creation for each in self._creations if each.creation is not None)
        return error_answer(creation_error(creation, problem, None))

    def _schedule_steps(self, table: _PreparedTable, entries: list[tuple[str, Entry]]) -> None:
        entry = next((each for table_id, each in entries if table_id == table.table_id), None)
        if entry is None:
            return
        entries.remove((table.table_id, entry))
        self._context.after_commit.schedule(
            table.table_id,
            entry,
            shape=table.prepared.shape,
            obsolete=table.prepared.obsolete_files(table.base.metadata),
        )

    @asynccontextmanager
    async def _lock_all(self, ids: list[str]) -> AsyncIterator[None]:
        async with AsyncExitStack() as locks:
            for table_id in sorted(set(ids)):
                await locks.enter_async_context(self._context.table_locks.hold(table_id))
            yield


async def was_committed(transactions: TransactionRecords, claim: Claim) -> bool:
    """Whether any holder of this claim has committed."""
    for transaction in (*_earlier(claim), claim.ids[ClaimId.TRANSACTION]):
        number = 0
        while (outcome := await transactions.outcome(_numbered(transaction, number))) is False:
            number += 1
        if outcome:
            return True
    return False


def _numbered(transaction: str, number: int) -> str:
    return f"{transaction}-{number:04d}"


def _earlier(claim: Claim) -> tuple[str, ...]:
    """The transactions of earlier holders of this claim."""
    return tuple(each for each in claim.ids.get(ClaimId.EARLIER, "").split(",") if each)


class Transactions:
    """TransactionRecords over the tables of a catalog."""

    def __init__(self, context: IcebergContext, records: TransactionRecords) -> None:
        self._context = context
        self._records = records

    async def commit(self, catalog: str, request: CommitTransactionRequest, caller: Caller) -> None:
        """Change all tables, or none; a single table is a plain commit."""
        changes = self._changes(catalog, request, caller)
        work: CommitWork | CreateWork | MultiTableCommitWork
        if len(changes) == 1 and len(changes[0].requests) == 1:
            [only] = changes
            [change] = only.requests
            if only.creation is not None:
                work = CreateWork(self._context, only.creation)
            else:
                work = CommitWork(self._context, only.name, change, caller, TABLE_ENGINE)
        else:
            work = MultiTableCommitWork(self._context, self._records, changes, caller)
        await run_once(self._context, caller, work, [catalog, request])

    def _changes(
        self, catalog: str, request: CommitTransactionRequest, caller: Caller
    ) -> list[TableChange]:
        """The changes by table; several changes of one table keep their order."""
        requests: dict[TableName, list[CommitTableRequest]] = {}
        names: dict[TableName, FullName] = {}
        for change in request.table_changes:
            if change.identifier is None:
                raise Invalid(
                    "every change of a transaction names its table: identifier is missing"
                )
            name = FullName(catalog, change.identifier.namespace, change.identifier.name)
            names[name.table] = name
            requests.setdefault(name.table, []).append(change)
        if not 0 < len(requests) <= MAX_TABLES:
            raise Invalid(f"a transaction changes 1 to {MAX_TABLES} tables, not {len(requests)}")
        return [self._change(names[each], changes, caller) for each, changes in requests.items()]

    def _change(
        self, name: FullName, changes: list[CommitTableRequest], caller: Caller
    ) -> TableChange:
        if not is_create(changes[0].requirements):
            return TableChange(name, tuple(changes))
        first = changes[0]
        if len(changes) > 1:
            updates = tuple(update for change in changes for update in change.updates)
            first = CommitTableRequest(requirements=first.requirements, updates=updates)
        return TableChange(name, (first,), staged_creation(self._context, name, first, caller))
