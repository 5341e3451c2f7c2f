"""The reconciler: finishes what a crash or an unavailable store left half done.

It decides nothing. It reports commits that were not reported, updates columns in the catalog, releases
names of dropped tables, ends undecided transactions, and stores the outcomes of claims whose holders
are gone. Every 15 minutes it looks at what this process knows to be unfinished and at the unresolved
names; at start and once a day at every table.
"""

from dataclasses import dataclass
from typing import Protocol

from arco.catalog.change import ClaimId
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.pending_request import ChangeResult
from arco.catalog.snapshot import list_tables
from arco.core.errors import ArcoError, NotFound, Unknown
from arco.iceberg.after_commit import TableShape, is_reported
from arco.iceberg.catalog_change import find_catalog_change
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import current_schema
from arco.iceberg.idempotency import PROTOCOL, OperationResult, success_answer, table_answer
from arco.iceberg.multi_table_commit import was_committed
from arco.iceberg.name_resolution import release_name
from arco.iceberg.pointer import PointerOperation, find_request, pointer_of
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.transaction_record import TransactionRecords
from arco.ledger.claim import Answer, Claim, unfinished_claims
from arco.storage.entry import Entry

EVERY_MS = 15 * 60_000
_FULL_EVERY_MS = 24 * 3_600_000
_FIRST_MS = 30_000
_LOOKED_BACK = 1_000  # entries of one chain, at most
_PARALLEL_READS = 16
_REST = 4  # times the time that a batch took
_RECENT_MS = 24 * 3_600_000  # if an older entry was reported, all below it were
_RECEIPTS_KEPT_MS = 60 * 24 * 3_600_000  # older receipts may have been deleted

_MAX_CLAIMS = 10_000


@dataclass
class ReconcilerRound:
    """The counts of one round."""

    tables: int = 0
    reported: int = 0
    projected: int = 0
    released: int = 0
    finalised: int = 0
    problems: int = 0


class ReconcilerObserver(Protocol):
    """Receives the results of rounds, for metrics and the log."""

    def reconciled(self, done: ReconcilerRound, *, full: bool) -> None:
        """A round has ended."""

    def round_failed(self, problem: Exception, *, full: bool) -> None:
        """A round failed; the next one begins as usual."""

    def table_failed(self, table_id: str, problem: Exception) -> None:
        """One table failed and is left to the next round."""


class Reconciler:
    """Runs rounds for as long as the service runs."""

    def __init__(self, context: IcebergContext, transactions: TransactionRecords) -> None:
        self._context = context
        self._transactions = transactions
        self._clock = context.runtime.clock
        self._ended = context.runtime.tasks.event()
        self._reported_up_to: dict[str, int] = {}
        self._full_ms = float("-inf")
        self._observer: ReconcilerObserver | None = None
        self.last_round: ReconcilerRound | None = None

    def observe(self, observer: ReconcilerObserver) -> None:
        """Report rounds to this observer from now on."""
        self._observer = observer

    async def run(self) -> None:
        """Run rounds until it is closed; a failed round does not end it."""
        await self._rest(_FIRST_MS)
        while not self._ended.is_set():
            await self.try_round()
            await self._rest(EVERY_MS)

    async def try_round(self) -> None:
        """A round, over all tables if one is due; a failure is reported to the observer."""
        is_full = self._clock.elapsed_ms() - self._full_ms >= _FULL_EVERY_MS
        observer = self._observer
        try:
            self.last_round = await self.round(full=is_full)
        except Exception as problem:  # the store may be available again by the next round
            if observer is not None:
                observer.round_failed(problem, full=is_full)
            elif not isinstance(problem, ArcoError):
                raise
            return
        if is_full:
            self._full_ms = self._clock.elapsed_ms()
        if observer is not None:
            observer.reconciled(self.last_round, full=is_full)

    def close(self) -> None:
        """Stop after the current round."""
        self._ended.set()

    async def round(self, *, full: bool) -> ReconcilerRound:
        """One round over all tables, or over those that are known to need it."""
        done = ReconcilerRound()
        await self._settle_unresolved(done)
        ids = list(self._context.after_commit.unfinished)
        self._context.after_commit.unfinished.clear()
        if full:
            snapshot = await self._context.reader.head()
            ids = [row.table_id async for row in list_tables(snapshot, TableFormat.ICEBERG)]
            ids += [
                row.table_id
                async for row in list_tables(snapshot, TableFormat.ICEBERG, dropped=True)
            ]
        for start in range(0, len(ids), _PARALLEL_READS):
            some, began_ms = ids[start : start + _PARALLEL_READS], self._clock.elapsed_ms()
            await self._context.runtime.tasks.gather(*(self._table(each, done) for each in some))
            if full:  # requests of clients come first
                await self._clock.sleep(_REST * (self._clock.elapsed_ms() - began_ms))
        if full:
            await self._finalise_claims(done)
        return done

    async def _finalise_claims(self, done: ReconcilerRound) -> None:
        """Store the outcomes of claims whose requests have landed.

        A retry would find the same by itself as long as the evidence is kept. This makes it cheap, and
        still works when the evidence is gone. Evidence that was collected before, as after a long outage,
        leaves the outcome unknown until the key expires: that is no failure, and no round can change it.
        """
        async for key in unfinished_claims(self._context.store, most=_MAX_CLAIMS):
            try:
                answer = await _landed_answer(self._context, self._transactions, key.claim)
                if answer is not None and await key.finish(answer):
                    done.finalised += 1
            except Unknown:
                continue
            except ArcoError as problem:  # left to the next round, or to a retry
                self._count(done, key.claim.request_id, problem)

    async def _settle_unresolved(self, done: ReconcilerRound) -> None:
        for table_id in sorted(await self._context.unresolved_names.open()):
            try:
                await self._release_if_dead(table_id, done)
            except ArcoError as problem:
                self._count(done, table_id, problem)

    async def _release_if_dead(self, table_id: str, done: ReconcilerRound) -> None:
        context = self._context
        try:
            await (await context.reader.head()).find(table_id)
        except NotFound:
            return  # its name is released already
        table_head = await context.heads.settle(await context.heads.of(table_id))
        if not table_head.is_live and table_head.pointer is not None:
            await release_name(context, table_id, table_head)
            done.released += 1
            await self._report(table_id, await context.heads.of(table_id), done)

    async def _table(self, table_id: str, done: ReconcilerRound) -> None:
        """Finish what is left to do for one table; a failure is left to the next round."""
        done.tables += 1
        try:
            await self._release_if_dead(table_id, done)
            table_head = await self._context.heads.of(table_id)
            await self._report(table_id, table_head, done)
            await self._project(table_id, table_head, done)
        except ArcoError as problem:
            self._count(done, table_id, problem)
            self._context.after_commit.unfinished[table_id] = None

    def _count(self, done: ReconcilerRound, table_id: str, problem: Exception) -> None:
        done.problems += 1
        if self._observer is not None:
            self._observer.table_failed(table_id, problem)

    async def _report(self, table_id: str, table_head: PointerHead, done: ReconcilerRound) -> None:
        """Report every entry without a receipt, down to those that are known to be reported."""
        chain, head = self._context.pointers.chain(table_id), table_head.number
        reported_up_to = self._reported_up_to.get(table_id, -1)
        lowest = max(reported_up_to + 1, await chain.floor(), head - _LOOKED_BACK, 0)
        number = head
        while number >= lowest:
            entry = await chain.find(number)
            if entry is None or self._age_ms(entry) > _RECEIPTS_KEPT_MS:
                break
            if await self._is_reportable(entry):
                if not await is_reported(self._context.store, table_id, entry):
                    await self._context.after_commit.report(table_id, entry)
                    done.reported += 1
                elif self._age_ms(entry) > _RECENT_MS:
                    break
            number -= 1
        if table_head.undecided is None:
            self._reported_up_to[table_id] = head

    async def _is_reportable(self, entry: Entry) -> bool:
        """Whether an entry is reported: not if its transaction was aborted or it is a fence."""
        pointer = pointer_of(entry)
        transaction = pointer.transaction
        if pointer.operation == PointerOperation.FENCE:
            return False
        return transaction is None or await self._transactions.outcome(transaction) is True

    def _age_ms(self, entry: Entry) -> int:
        return self._clock.now_ms() - entry.created_ms

    async def _project(self, table_id: str, table_head: PointerHead, done: ReconcilerRound) -> None:
        """Update the columns in the catalog if it has older ones."""
        if table_head.location is None or table_head.undecided is not None:
            return
        context = self._context
        snapshot = await context.reader.head()
        try:
            row = (await snapshot.find(table_id)).row
        except NotFound:
            return  # the table was dropped
        projected = getattr(row, "projected", None)
        if projected is not None and projected >= table_head.number:
            return
        metadata = (await context.load(table_head.location)).metadata
        columns = columns_of(current_schema(metadata))
        location = context.locations.stored(str(metadata["location"]))
        shown = [each.row for each in await snapshot.columns(table_id)]
        same = [(c.field_id, c.name, c.data_type, c.nullable, c.comment) for c in shown] == [
            (c.field_id, c.name, c.data_type, c.nullable, c.comment) for c in columns
        ]
        if same and getattr(row, "location", None) == location:
            return
        await context.after_commit.project(
            table_id, table_head.number, TableShape(columns, location)
        )
        done.projected += 1

    async def _rest(self, ms: float) -> None:
        try:
            await self._context.runtime.tasks.deadline(ms, self._wait())
        except TimeoutError:
            return

    async def _wait(self) -> None:
        await self._ended.wait()


async def _catalog_result(
    context: IcebergContext, claim: Claim, done: ChangeResult
) -> OperationResult:
    """The result of a catalog change; that of a creation has its first metadata file."""
    row = done.object.row
    if not isinstance(row, TableRow):
        return OperationResult()
    if ClaimId.SPARE not in claim.ids:
        return OperationResult(table_id=row.table_id)
    first = pointer_of(await context.pointers.chain(row.table_id).read(0))
    return OperationResult(table_id=row.table_id, metadata_location=first.metadata_location)


async def _landed_answer(
    context: IcebergContext, transactions: TransactionRecords, claim: Claim
) -> Answer | None:
    """The answer of an Iceberg claim that has landed; None for other protocols."""
    ids = claim.ids
    if ids.get(ClaimId.PROTOCOL) != PROTOCOL or ClaimId.REMOVED in ids:
        return None  # a retry can build the answer of a property update
    if ClaimId.TRANSACTION in ids:
        return (
            success_answer(OperationResult()) if await was_committed(transactions, claim) else None
        )
    if ClaimId.OBJECT in ids:
        done = await find_catalog_change(context, claim)
        return None if done is None else success_answer(await _catalog_result(context, claim, done))
    if not ids[ClaimId.TABLE]:
        return None
    chain = context.pointers.chain(ids[ClaimId.TABLE])
    landed = (await find_request(chain, claim.base, claim.request_id)).landed
    if landed is None:
        return None
    location = pointer_of(landed).metadata_location
    return table_answer(ids[ClaimId.TABLE], location)
