"""The head of a table's pointer chain, and the metadata file that is in effect there.

The head entry may belong to a transaction that is undecided or was aborted: then the file before it is
in effect. Readers never wait for a transaction. Writers do, and abort one that takes too long (P33).
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.core.errors import Corrupt
from arco.core.lru_cache import LruCache
from arco.core.runtime import Runtime
from arco.iceberg.pointer import Pointer, Pointers, pointer_of
from arco.iceberg.transaction_record import TransactionRecords
from arco.storage.chain import Head
from arco.storage.entry import Entry

# How long a writer waits for an undecided transaction before it aborts it. Longer than a healthy one
# takes; after a crash in the middle of one, other writers of its tables wait this long at worst.
GRACE_MS = 3_000

_POLL_MS = 50
_REMEMBERED = 1_000


@dataclass(frozen=True)
class PointerHead:
    """The head of a pointer chain, resolved to the metadata file in effect."""

    chain_head: Head
    pointer: Pointer | None  # the pointer in the head entry; None for an empty chain
    location: str | None  # the metadata file in effect; None if there is no table
    undecided: str | None = None  # the undecided transaction of the head

    @property
    def is_live(self) -> bool:
        """Whether the table exists."""
        return self.location is not None

    @property
    def number(self) -> int:
        return self.chain_head.number

    @property
    def tombstone(self) -> int | None:
        """The number of the tombstone, if the chain ends in one."""
        entry = self.chain_head.entry
        return entry.number if entry is not None and entry.record.tombstone else None


class PointerHeads:
    """Resolves the heads of pointer chains."""

    def __init__(
        self, pointers: Pointers, transactions: TransactionRecords, runtime: Runtime
    ) -> None:
        self._pointers = pointers
        self._transactions = transactions
        self._runtime = runtime
        self._first_seen_ms = LruCache[str, float](_REMEMBERED)

    async def of(
        self, table_id: str, *, glimpse: Callable[[Entry], None] | None = None
    ) -> PointerHead:
        """The head of a table now: one round trip if its head is remembered, else three.

        `glimpse` gets the probable head one round trip earlier, for reading ahead only.
        """
        return await self.resolve(await self._pointers.chain(table_id).head(glimpse=glimpse))

    async def resolve(self, head: Head) -> PointerHead:
        """Resolve this chain head."""
        if head.entry is None:
            return PointerHead(head, None, None)
        pointer = pointer_of(head.entry)
        if head.entry.record.tombstone:
            return PointerHead(head, pointer, None)
        if pointer.transaction is None:
            return PointerHead(head, pointer, pointer.metadata_location)
        committed = await self._transactions.outcome(pointer.transaction)
        if committed is None:
            return PointerHead(head, pointer, pointer.previous_location, pointer.transaction)
        location = pointer.metadata_location if committed else pointer.previous_location
        return PointerHead(head, pointer, location)

    async def settle(self, table_head: PointerHead) -> PointerHead:
        """Wait until the head's transaction is decided; abort it after a grace period (P33)."""
        transaction = table_head.undecided
        if transaction is None:
            return table_head
        while await self._transactions.outcome(transaction) is None:
            if self._waited_ms(transaction) >= GRACE_MS:
                await self._transactions.decide(transaction, committed=False)
                break
            await self._runtime.clock.sleep(_POLL_MS)
        settled = await self.resolve(table_head.chain_head)
        if settled.undecided is not None:
            raise Corrupt(f"transaction {transaction} has no outcome, although one was read")
        return settled

    def _waited_ms(self, transaction: str) -> float:
        now = self._runtime.clock.elapsed_ms()
        first_seen_ms = self._first_seen_ms.get(transaction)
        if first_seen_ms is None:
            self._first_seen_ms.put(transaction, now)
            return 0.0
        return now - first_seen_ms
