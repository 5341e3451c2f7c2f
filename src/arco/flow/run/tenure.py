"""The right to keep the book of a workspace, where only the store can tell who has it.

Whoever has it says so again and again beside an epoch of `locks/runs` (the epochs of P28), and takes it
for lost once that could not be said for as long as an epoch lives; whoever wants it takes over only after
it has seen the silence for as long, on its own clock. So two processes do not keep the book at the same
moment. It is no fence: what a process does that slept through it is kept out by the chains of tables (P35).

Unlike the lease of the catalog it does not go round: who waits for it does not make its holder let go.
"""

from contextlib import suppress

from arco.catalog.epoch import LONGEST_LIFE_MS, Epoch, Epochs, Renewal
from arco.core.errors import ArcoError, Conflict
from arco.core.ids import new_ulid
from arco.core.tasks import Event, Task
from arco.storage.chain import Head
from arco.storage.store import Store

DOMAIN = "runs"
LIFE_MS = 10_000

_LOOK_MS = 500


class Tenure:
    """The book of one workspace for one process; `store` is that of role api, `holder` is for people."""

    def __init__(self, store: Store, holder: str, life_ms: int = LIFE_MS) -> None:
        self._clock = store.runtime.clock
        self._tasks = store.runtime.tasks
        self._epochs = Epochs(store, DOMAIN)
        self._mine = Epoch(holder=f"{holder}/{new_ulid(store.runtime)}", life_ms=life_ms)
        self._life_ms = life_ms
        self._head: Head | None = None
        self._renewed_ms = 0.0
        self._count = 0
        self._keeping: Task[None] | None = None
        self.lost: Event = self._tasks.event()

    async def take(self) -> str | None:
        """Have it, or the name of another process that has it and lives. A dead one is waited for."""
        if self._head is not None:
            return None
        head = await self._epochs.chain.head()
        if head.entry is not None:
            epoch = head.entry.body(Epoch)
            mine = epoch.holder == self._mine.holder
            if not mine and not await self._is_over(head.number, epoch.life_ms):
                return epoch.holder.rpartition("/")[0]
        sent_ms = self._clock.elapsed_ms()
        try:
            made = await self._epochs.chain.append(head, self._mine)
        except Conflict:
            return "it has just begun"
        self._head, self._renewed_ms, self._count = made, sent_ms, 0
        self.lost.clear()
        self._keeping = self._tasks.spawn(self._keep(made))
        return None

    async def release(self) -> None:
        """Let others have it at once."""
        head, self._head = self._head, None
        if self._keeping is not None:
            self._keeping.cancel()
        if head is not None and self._is_fresh():
            with suppress(ArcoError, TimeoutError):
                await self._tasks.deadline(self._life_ms / 3, self._say(head, released=True))
        await self._epochs.chain.close()

    async def _is_over(self, number: int, life_ms: int) -> bool:
        """Whether an epoch is over: released, or silent for as long as it lives, which is waited for.

        What nobody here can read, as of a later Arco, is no silence before as much time has passed.
        """
        first = now = await self._epochs.renewal(number)
        seen_ms = self._clock.elapsed_ms()
        while now is None or not now.released:
            if now != first:
                return False
            asked_ms = self._clock.elapsed_ms()
            now = await self._epochs.renewal(number)
            if now == first and asked_ms - seen_ms >= min(life_ms, LONGEST_LIFE_MS):
                return True
            await self._clock.sleep(_LOOK_MS)
        return True

    async def _keep(self, head: Head) -> None:
        while self._head is head:
            await self._clock.sleep(self._life_ms / 3)
            sent_ms, said = self._clock.elapsed_ms(), False
            with suppress(ArcoError, TimeoutError):
                said = await self._tasks.deadline(self._life_ms / 3, self._say(head))
            if not self._is_fresh():
                break  # said too late: somebody may have seen the silence before
            if said:
                self._renewed_ms = sent_ms
        if self._head is head:
            self._head = None
            self.lost.set()

    async def _say(self, head: Head, *, released: bool = False) -> bool:
        self._count += 1
        renewal = Renewal(epoch=head.number, count=self._count, released=released)
        return await self._epochs.renew(renewal)

    def _is_fresh(self) -> bool:
        return self._clock.elapsed_ms() - self._renewed_ms < self._life_ms
