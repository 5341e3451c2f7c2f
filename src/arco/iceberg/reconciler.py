"""The reconciler: finishes what a crash, or trouble with the store, has left half done.

None of it decides anything: drops are decided by their tombstones, transactions by their outcomes, commits
by their pointers. It tells of commits that nobody has told of, shows columns that changed, releases names
of dropped tables, ends transactions that were left undecided, and writes down the outcomes of claims whose
holders are gone.

Every quarter of an hour it looks at what this process knows to be unfinished and at the doubts, which costs
one request while there are none. At its start, and once a day, it looks at every table.
"""
# DOC claims: """Claims that were left without an outcome: what became of them is looked up and written down.
#
# A retry would find the same out by itself, as long as the evidence is kept. This makes it cheap, and holds
# when the evidence is gone.
# """

from dataclasses import dataclass
from typing import Protocol

from arco.catalog.done import Done
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.walk import every_table
from arco.core.errors import ArcoError, NotFound
from arco.iceberg.after_commit import Shape, is_told
from arco.iceberg.catalog_change import named_under
from arco.iceberg.context import Desk
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import current_schema
from arco.iceberg.errors import Refused
from arco.iceberg.idempotency import PROTOCOL, Told, succeeded
from arco.iceberg.multi_table_commit import committed_under
from arco.iceberg.name_resolution import release
from arco.iceberg.pointer import FENCE, look_above, pointer_of
from arco.iceberg.pointer_head import Standing
from arco.iceberg.transaction_record import Transactions
from arco.ledger.claim import Answer, Claim
from arco.ledger.unfinished import unfinished_claims
from arco.storage.link import Entry

EVERY_MS = 15 * 60_000
_FULL_EVERY_MS = 24 * 3_600_000
_FIRST_MS = 30_000
_LOOKED_BACK = 1_000  # numbers of one chain, at most
_AT_ONCE = 16
_REST = 4  # times as long as it has worked
_RECENT_MS = 24 * 3_600_000  # below an older number that was told of, all were told of
_RECEIPTS_KEPT_MS = 60 * 24 * 3_600_000  # for longer than that no receipt may be there any more


@dataclass
class Reconciled:
    """What one round has done."""

    tables: int = 0
    told: int = 0
    projected: int = 0
    released: int = 0
    finalised: int = 0
    problems: int = 0


class ReconcilerObserver(Protocol):
    """Learns what rounds have done, for metrics and the log."""

    def reconciled(self, done: Reconciled, *, full: bool) -> None:
        """A round has ended."""

    def round_failed(self, problem: Exception, *, full: bool) -> None:
        """A round was given up; the next one begins as usual."""

    def table_failed(self, table_id: str, problem: Exception) -> None:
        """One table was left to the next round."""


class Reconciler:
    """Runs rounds for as long as the service runs."""

    def __init__(self, desk: Desk, transactions: Transactions) -> None:
        self._desk = desk
        self._transactions = transactions
        self._clock = desk.runtime.clock
        self._ended = desk.runtime.tasks.event()
        self._told_up_to: dict[str, int] = {}
        self._full_ms = float("-inf")
        self._observer: ReconcilerObserver | None = None
        self.last: Reconciled | None = None

    def observe(self, observer: ReconcilerObserver) -> None:
        """Report rounds to this observer from now on."""
        self._observer = observer

    async def run(self) -> None:
        """Reconcile until it is closed; nothing that goes wrong ends it."""
        await self._rest(_FIRST_MS)
        while not self._ended.is_set():
            await self.try_round()
            await self._rest(EVERY_MS)

    async def try_round(self) -> None:
        """A round, over all tables if one is due; a failure is reported to the observer."""
        is_full = self._clock.elapsed_ms() - self._full_ms >= _FULL_EVERY_MS
        observer = self._observer
        try:
            self.last = await self.round(full=is_full)
        except Exception as problem:  # the store may be in order again by the next round
            if observer is not None:
                observer.round_failed(problem, full=is_full)
            elif not isinstance(problem, (ArcoError, Refused)):
                raise
            return
        if is_full:
            self._full_ms = self._clock.elapsed_ms()
        if observer is not None:
            observer.reconciled(self.last, full=is_full)

    def close(self) -> None:
        """Begin no other round."""
        self._ended.set()

    async def round(self, *, full: bool) -> Reconciled:
        """One round over all tables, or over those that are known to need it."""
        done = Reconciled()
        await self._settle_doubts(done)
        ids = list(self._desk.aftermath.unfinished)
        self._desk.aftermath.unfinished.clear()
        if full:
            snapshot = await self._desk.reader.head()
            ids = [row.table_id async for row in every_table(snapshot, TableFormat.ICEBERG)]
            ids += [
                row.table_id
                async for row in every_table(snapshot, TableFormat.ICEBERG, dropped=True)
            ]
        for start in range(0, len(ids), _AT_ONCE):
            some, began_ms = ids[start : start + _AT_ONCE], self._clock.elapsed_ms()
            await self._desk.runtime.tasks.gather(*(self._table(each, done) for each in some))
            if full:  # whoever asks for something comes first
                await self._clock.sleep(_REST * (self._clock.elapsed_ms() - began_ms))
        if full:
            done.finalised = await finalise_claims(self._desk, self._transactions)
        return done

    async def _settle_doubts(self, done: Reconciled) -> None:
        for table_id in sorted(await self._desk.doubts.open()):
            try:
                await self._release_if_dead(table_id, done)
            except ArcoError as problem:
                self._count(done, table_id, problem)

    async def _release_if_dead(self, table_id: str, done: Reconciled) -> None:
        desk = self._desk
        try:
            await (await desk.reader.head()).find(table_id)
        except NotFound:
            return  # its name is gone already
        standing = await desk.standings.decided(await desk.standings.of(table_id))
        if not standing.is_live and standing.pointer is not None:
            await release(desk, table_id, standing)
            done.released += 1
            await self._tell(table_id, await desk.standings.of(table_id), done)

    async def _table(self, table_id: str, done: Reconciled) -> None:
        """Whatever is left to do for one table; trouble with it is left to the next round."""
        done.tables += 1
        try:
            await self._release_if_dead(table_id, done)
            standing = await self._desk.standings.of(table_id)
            await self._tell(table_id, standing, done)
            await self._project(table_id, standing, done)
        except (ArcoError, Refused) as problem:
            self._count(done, table_id, problem)
            self._desk.aftermath.unfinished[table_id] = None

    def _count(self, done: Reconciled, table_id: str, problem: Exception) -> None:
        done.problems += 1
        if self._observer is not None:
            self._observer.table_failed(table_id, problem)

    async def _tell(self, table_id: str, standing: Standing, done: Reconciled) -> None:
        """Tell of every number that has no receipt, down to those that were surely told of."""
        chain, head = self._desk.pointers.chain(table_id), standing.number
        known = self._told_up_to.get(table_id, -1)
        lowest = max(known + 1, await chain.floor(), head - _LOOKED_BACK, 0)
        number = head
        while number >= lowest:
            entry = await chain.find(number)
            if entry is None or self._age_ms(entry) > _RECEIPTS_KEPT_MS:
                break
            if await self._counts(entry):
                if not await is_told(self._desk.store, table_id, entry):
                    await self._desk.aftermath.tell(table_id, entry)
                    done.told += 1
                elif self._age_ms(entry) > _RECENT_MS:
                    break
            number -= 1
        if standing.undecided is None:
            self._told_up_to[table_id] = head

    async def _counts(self, entry: Entry) -> bool:
        """Whether it is told of: aborted transactions never were in effect, and fences change nothing."""
        pointer = pointer_of(entry)
        transaction = pointer.transaction
        if pointer.operation == FENCE:
            return False
        return transaction is None or await self._transactions.outcome(transaction) is True

    def _age_ms(self, entry: Entry) -> int:
        return self._clock.now_ms() - entry.created_ms

    async def _project(self, table_id: str, standing: Standing, done: Reconciled) -> None:
        """Show the columns that the table has, if the catalog has read older ones."""
        if standing.location is None or standing.undecided is not None:
            return
        desk = self._desk
        snapshot = await desk.reader.head()
        try:
            row = (await snapshot.find(table_id)).row
        except NotFound:
            return  # it was dropped, and has nothing to show
        projected = getattr(row, "projected", None)
        if projected is not None and projected >= standing.number:
            return
        metadata = (await desk.load(standing.location)).metadata
        columns = columns_of(current_schema(metadata))
        place = desk.locations.stored(str(metadata["location"]))
        shown = [each.row for each in await snapshot.columns(table_id)]
        same = [(c.field_id, c.name, c.data_type, c.nullable, c.comment) for c in shown] == [
            (c.field_id, c.name, c.data_type, c.nullable, c.comment) for c in columns
        ]
        if same and getattr(row, "location", None) == place:
            return
        await desk.aftermath.project(table_id, standing.number, Shape(columns, place))
        done.projected += 1

    async def _rest(self, ms: float) -> None:
        try:
            await self._desk.runtime.tasks.deadline(ms, self._wait())
        except TimeoutError:
            return

    async def _wait(self) -> None:
        await self._ended.wait()


_MOST = 10_000


async def finalise_claims(desk: Desk, transactions: Transactions) -> int:
    """Write down the outcomes of claims that have landed; how many."""
    done = 0
    async for key in unfinished_claims(desk.store, most=_MOST):
        try:
            found = await _found(desk, transactions, key.claim)
            if found is not None and await key.finish(found):
                done += 1
        except ArcoError:
            continue  # the next round, or a retry, will see
    return done


async def _named(desk: Desk, claim: Claim, done: Done) -> Told:
    """What a change of names is remembered by; a create also by the metadata it began with."""
    row = done.object.row
    if not isinstance(row, TableRow):
        return Told()
    if "spare" not in claim.ids:
        return Told(table_id=row.table_id)
    first = pointer_of(await desk.pointers.chain(row.table_id).read(0))
    return Told(table_id=row.table_id, metadata_location=first.metadata_location)


async def _found(desk: Desk, transactions: Transactions, claim: Claim) -> Answer | None:
    """The answer of a claim of ours that has landed; those of other protocols are not ours to word."""
    ids = claim.ids
    if ids.get("protocol") != PROTOCOL or "removed" in ids:
        return None  # what was set and removed of properties, a retry can tell
    if "transaction" in ids:
        return succeeded(Told()) if await committed_under(transactions, claim) else None
    if "object" in ids:
        done = await named_under(desk, claim)
        return None if done is None else succeeded(await _named(desk, claim, done))
    if not ids["table"]:
        return None
    chain = desk.pointers.chain(ids["table"])
    mine = (await look_above(chain, claim.base, claim.request_id)).mine
    if mine is None:
        return None
    location = pointer_of(mine).metadata_location
    return succeeded(Told(table_id=ids["table"], metadata_location=location))
