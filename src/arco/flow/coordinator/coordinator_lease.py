"""The lease of the coordinator role of a workspace, for stores that have no file locks.

The holder renews an epoch of `locks/runs` (the epochs of P28), and considers it lost once a renewal has
failed for as long as an epoch lives. Another process takes over only after it has seen no renewal for as
long, on its own clock, so two processes do not hold it at the same moment. It is no fence: writes of a
process that slept through it are kept out by the chains of tables (P35).

Unlike the catalog's lease it is not passed around: a waiting process does not make the holder release it.
"""

from contextlib import suppress

from arco.catalog.epoch import MAX_LIFE_MS, Epoch, Epochs, Renewal
from arco.core.errors import ArcoError, Conflict
from arco.core.ids import new_ulid
from arco.core.tasks import AsyncEvent, Task
from arco.storage.chain import Head
from arco.storage.store import Store

DOMAIN = "runs"
LIFE_MS = 10_000

_POLL_MS = 500


class CoordinatorLease:
    """The lease for one process; `store` has the role api, `holder` is shown to users."""

    def __init__(self, store: Store, holder: str, life_ms: int = LIFE_MS) -> None:
        self._clock = store.runtime.clock
        self._tasks = store.runtime.tasks
        self._epochs = Epochs(store, DOMAIN)
        self._epoch = Epoch(holder=f"{holder}/{new_ulid(store.runtime)}", life_ms=life_ms)
        self._life_ms = life_ms
        self._head: Head | None = None
        self._renewed_ms = 0.0
        self._count = 0
        self._renewing: Task[None] | None = None
        self.lost: AsyncEvent = self._tasks.event()

    async def take(self) -> str | None:
        """Take it, or return the name of the process that holds it. Waits for the lease of a dead one."""
        if self._head is not None:
            return None
        head = await self._epochs.chain.head()
        if head.entry is not None:
            epoch = head.entry.body(Epoch)
            is_own = epoch.holder == self._epoch.holder
            if not is_own and not await self._has_expired(head.number, epoch.life_ms):
                return epoch.holder.rpartition("/")[0]
        sent_ms = self._clock.elapsed_ms()
        try:
            new_head = await self._epochs.chain.append(head, self._epoch)
        except Conflict:
            return "it has just begun"
        self._head, self._renewed_ms, self._count = new_head, sent_ms, 0
        self.lost.clear()
        self._renewing = self._tasks.spawn(self._keep_renewing(new_head))
        return None

    async def release(self) -> None:
        """Let another process take it at once."""
        head, self._head = self._head, None
        if self._renewing is not None:
            self._renewing.cancel()
        if head is not None and self._is_valid():
            with suppress(ArcoError, TimeoutError):
                await self._tasks.deadline(self._life_ms / 3, self._renew(head, released=True))
        await self._epochs.chain.close()

    async def _has_expired(self, number: int, life_ms: int) -> bool:
        """Whether an epoch was released, or is not renewed while this waits for as long as it lives.

        A renewal that cannot be read, as of a newer version, counts as missing only after that time too.
        """
        first = renewal = await self._epochs.renewal(number)
        first_ms = self._clock.elapsed_ms()
        while renewal is None or not renewal.released:
            if renewal != first:
                return False
            asked_ms = self._clock.elapsed_ms()
            renewal = await self._epochs.renewal(number)
            if renewal == first and asked_ms - first_ms >= min(life_ms, MAX_LIFE_MS):
                return True
            await self._clock.sleep(_POLL_MS)
        return True

    async def _keep_renewing(self, head: Head) -> None:
        while self._head is head:
            await self._clock.sleep(self._life_ms / 3)
            sent_ms, renewed = self._clock.elapsed_ms(), False
            with suppress(ArcoError, TimeoutError):
                renewed = await self._tasks.deadline(self._life_ms / 3, self._renew(head))
            if not self._is_valid():
                break  # too late: another process may have seen it expire
            if renewed:
                self._renewed_ms = sent_ms
        if self._head is head:
            self._head = None
            self.lost.set()

    async def _renew(self, head: Head, *, released: bool = False) -> bool:
        self._count += 1
        renewal = Renewal(epoch=head.number, count=self._count, released=released)
        return await self._epochs.renew(renewal)

    def _is_valid(self) -> bool:
        return self._clock.elapsed_ms() - self._renewed_ms < self._life_ms
