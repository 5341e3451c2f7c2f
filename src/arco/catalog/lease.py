"""The lease of a domain: processes take turns instead of losing races against each other (P28).

It is an optimization; safety comes from the create of the next manifest (law 3). Promises: tokens only
grow. If clocks run at the same speed and no renewal is garbage, two processes never hold a fresh lease at
once: a holder counts from before it sent its last renewal, the next one from after it read that renewal. A
process that read its token and then slept may still use an old one.

Requests: none while the lease is held and fresh; in the background a write and a read per third of its
life. To take it again after a rest: 1 create; for a single change: none. In a new process: the head of the
chain, 2 reads, 1 create.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from arco.catalog.epoch import MAX_LIFE_MS, Epoch, Epochs, LeaseCandidate, Renewal
from arco.core.errors import ArcoError, Invalid, Unavailable
from arco.core.ids import new_ulid
from arco.core.tasks import AsyncEvent, Task
from arco.storage.chain import Head
from arco.storage.store import Store

# How long all processes wait after a holder was killed. A third of it is the pause between two writes of
# one object, and some stores accept only one a second.
LIFE_MS = 3_000

IDLE_MS = 200  # a holder without work for this long releases the lease
TURN_MS = 1_000  # a holder releases it after this long if another process waits
PATIENCE_MS = 15_000


@dataclass
class _HeldEpoch:
    """An epoch that this process holds."""

    head: Head
    wake: AsyncEvent  # wakes its keeper
    renewed_ms: float  # before the last request that made or renewed it
    due_ms: float  # when it is to be renewed
    renewals: int = 0
    is_awaited: bool = False  # another process waits: no more renewals, and no more tokens

    @property
    def token(self) -> int:
        return self.head.number


class Lease:
    """The lease of one domain, for one worker of one process."""

    def __init__(self, store: Store, domain: str, *, holder: str, life_ms: int = LIFE_MS) -> None:
        if not 0 < life_ms <= MAX_LIFE_MS:
            raise Invalid(f"a lease lives 1 to {MAX_LIFE_MS} ms, not {life_ms}")
        runtime = store.runtime
        self._clock = runtime.clock
        self._tasks = runtime.tasks
        self._life_ms = life_ms
        self._tick_ms = min(life_ms / 3, TURN_MS)
        self._epochs = Epochs(store, domain)
        # With a unique id: two processes that are configured with one name must not share a lease.
        mine = Epoch(holder=f"{holder}/{new_ulid(runtime)}", life_ms=life_ms)
        self._turn = LeaseCandidate(runtime, self._epochs, mine)
        self._epoch: _HeldEpoch | None = None
        self._idle_ms: float | None = None
        self._waiting_callers = 0
        self._closed = False
        self._taking: Task[ArcoError | None] | None = None
        self._keeping: list[Task[None]] = []

    async def hold(self, patience_ms: float = PATIENCE_MS) -> int:
        """The fencing token, at once if it is held; `Unavailable` if others hold it for too long.

        The caller has work from now on, until it calls `idle`.
        """
        self._idle_ms = None
        token = self._fresh_token()
        return await self._wait_for_token(patience_ms) if token is None else token

    def reuse(self) -> int | None:
        """The token of our last epoch, for a single change after a rest; None: call `hold`.

        Nothing is held then, and another process may take the next epoch at any time: the compactor
        refuses a token that has a successor, and of two manifests with one number the first wins. So a
        single change neither takes an epoch nor releases it. The caller calls `lost` if it sees a newer
        token, and `idle` at its end.
        """
        idle_ms = self._idle_ms
        if idle_ms is None or self._epoch is not None or self._closed:
            return None
        if self._clock.elapsed_ms() - idle_ms < IDLE_MS:
            return None  # changes follow each other: take the lease for all of them
        token = self._turn.last_epoch()
        if token is not None:
            self._idle_ms = None
        return token

    @property
    def token(self) -> int | None:
        """The fencing token, if the lease is held and fresh just now."""
        epoch = self._epoch
        return None if epoch is None or self._is_stale(epoch) else epoch.token

    def idle(self) -> None:
        """There is no work now: release soon, unless `hold` is called before."""
        if self._idle_ms is None:
            self._idle_ms = self._clock.elapsed_ms()
        if self._epoch is not None:
            self._epoch.wake.set()

    def lost(self) -> None:
        """A newer token than ours exists: the next `hold` takes a new epoch."""
        self._turn.lost()
        if self._epoch is not None:
            self._drop(self._epoch)

    async def close(self) -> None:
        """Release the lease at once, and stop."""
        self._closed = True
        if self._taking is not None:
            await self._taking.wait()
        if self._epoch is not None:
            self._drop(self._epoch)
        for keeper in self._keeping:
            await keeper.wait()
        await self._epochs.chain.close()

    def _fresh_token(self) -> int | None:
        """The token, if it is valid for more work; else the lease ends here."""
        epoch = self._epoch
        if epoch is not None and (epoch.is_awaited or self._is_stale(epoch)):
            self._drop(epoch)
        return self.token

    async def _wait_for_token(self, patience_ms: float) -> int:
        token = None
        self._waiting_callers += 1
        try:
            token = await self._tasks.deadline(patience_ms, self._token())
        except TimeoutError as problem:
            message = f"others held the lease for {patience_ms:.0f} ms"
            raise Unavailable(message, retry_after_ms=self._life_ms) from problem
        finally:
            self._waiting_callers -= 1
            if token is None:
                self.idle()  # it may have come just as the caller gave up
        return token

    async def _token(self) -> int:
        while (token := self._fresh_token()) is None:
            if self._closed:
                raise Unavailable("the lease was closed")
            # In a separate task: a caller that is cancelled must not cancel the create of an epoch.
            if self._taking is None or self._taking.done():
                self._taking = self._tasks.spawn(self._take())
            problem = await self._taking.wait()
            if problem is not None:
                raise problem
        return token

    async def _take(self) -> ArcoError | None:
        """Take an epoch. A problem is returned, because all callers may have left."""
        try:
            head = await self._turn.take(lambda: self._waiting_callers > 0 and not self._closed)
        except ArcoError as problem:
            return problem
        if head is not None:
            due_ms = head.seen_ms + self._tick_ms
            epoch = _HeldEpoch(head, self._tasks.event(), renewed_ms=head.seen_ms, due_ms=due_ms)
            self._epoch = epoch
            self._idle_ms = None if self._waiting_callers else self._clock.elapsed_ms()
            self._keeping = [each for each in self._keeping if not each.done()]
            self._keeping.append(self._tasks.spawn(self._keep(epoch)))
        return None

    async def _keep(self, epoch: _HeldEpoch) -> None:
        """Renew an epoch while it is held, then write that it is released."""
        while self._epoch is epoch:
            now = self._clock.elapsed_ms()
            if self._is_stale(epoch):
                self._drop(epoch)
            elif self._idle_for(epoch, now):
                await self._release_idle(epoch)
            elif not epoch.is_awaited and now >= epoch.due_ms:
                await self._renew(epoch)
            else:
                await self._wait(epoch, now)
        await self._write_release(epoch)

    async def _wait(self, epoch: _HeldEpoch, now: float) -> None:
        """Wait until there is something to do for an epoch."""
        until = epoch.renewed_ms + self._life_ms if epoch.is_awaited else epoch.due_ms
        if self._idle_ms is not None:
            until = min(until, self._idle_ms + IDLE_MS)
        epoch.wake.clear()
        try:
            await self._tasks.deadline(max(1, until - now), epoch.wake.wait())
        except TimeoutError:
            return

    async def _renew(self, epoch: _HeldEpoch) -> None:
        sent_ms = self._clock.elapsed_ms()
        epoch.renewals += 1
        epoch.due_ms = sent_ms + self._tick_ms
        renewal = Renewal(epoch=epoch.token, count=epoch.renewals)
        # A late renewal does not count: a waiter may have found the lease expired before it read this.
        if await self._attempt(self._epochs.renew(renewal)) and not self._is_stale(epoch):
            epoch.renewed_ms = sent_ms
        if sent_ms - epoch.head.seen_ms >= TURN_MS:
            # Work in flight goes on with its token; the next `hold` queues behind the other processes.
            epoch.is_awaited = await self._attempt(self._epochs.is_awaited(epoch.token))

    async def _release_idle(self, epoch: _HeldEpoch) -> None:
        """Release an idle epoch, and let a process that waits go first."""
        awaited = epoch.is_awaited or await self._attempt(self._epochs.is_awaited(epoch.token))
        if self._epoch is epoch and self._idle_for(epoch, self._clock.elapsed_ms()):
            epoch.is_awaited = awaited
            self._drop(epoch)
            if not awaited:
                self._turn.ended_idle(epoch.head)

    async def _write_release(self, epoch: _HeldEpoch) -> None:
        """Write the release, until that succeeds or the epoch has expired anyway."""
        renewal = Renewal(epoch=epoch.token, count=epoch.renewals + 1, released=True)
        while not await self._attempt(self._epochs.renew(renewal)) and not self._is_stale(epoch):
            await self._clock.sleep(self._tick_ms)

    async def _attempt(self, request: Coroutine[Any, Any, bool]) -> bool:
        """A request about a hint: errors are ignored, and it must not delay the next one."""
        try:
            return await self._tasks.deadline(self._tick_ms, request)
        except (TimeoutError, ArcoError):
            return False

    def _drop(self, epoch: _HeldEpoch) -> None:
        """Give up an epoch; its keeper writes the release."""
        self._epoch = None
        if epoch.is_awaited:
            self._turn.handed_over(epoch.head)
        epoch.wake.set()

    def _idle_for(self, epoch: _HeldEpoch, now: float) -> bool:
        enough_ms = 0 if epoch.is_awaited else IDLE_MS
        return self._idle_ms is not None and now - self._idle_ms >= enough_ms

    def _is_stale(self, epoch: _HeldEpoch) -> bool:
        return self._clock.elapsed_ms() - epoch.renewed_ms >= self._life_ms
