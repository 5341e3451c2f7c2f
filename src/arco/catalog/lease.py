"""The lease of a domain: processes take turns in place of losing races against each other (P28).

It is politeness; safety is the create of the next manifest (law 3). What it promises: tokens only grow;
and as long as clocks run at the same speed and no renewal is garbage, two processes never find their
leases fresh at the same moment, because a holder counts from before it sent its last renewal and a taker
from after it has read that one. Someone who looked at its token and then slept may still use an old one.

Cost in requests: none while it is held and fresh; beside the work, a write and a read each third of its
life. To take it again after a rest: 1 create; for one change alone: none. Cold: the head of the chain,
2 reads, 1 create.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from arco.catalog.epoch import LONGEST_LIFE_MS, Epoch, Epochs, LeaseCandidate, Renewal
from arco.core.errors import ArcoError, Invalid, Unavailable
from arco.core.ids import new_ulid
from arco.core.tasks import Event, Task
from arco.storage.chain import Head
from arco.storage.store import Store

# How long everybody waits after a holder was killed. Its third is the pause between two writes of one
# name, and some stores take no more than one a second.
LIFE_MS = 3_000

IDLE_MS = 200  # without work for so long, a holder lets go
TURN_MS = 1_000  # held for so long, it lets go if somebody waits
PATIENCE_MS = 15_000


@dataclass
class _Held:
    """An epoch of ours."""

    head: Head
    stir: Event  # wakes its keeper
    renewed_ms: float  # before the last request that made or renewed it
    due_ms: float  # when it is to be renewed
    renewals: int = 0
    is_awaited: bool = False  # our turn is over: no more renewals, and no more tokens

    @property
    def token(self) -> int:
        return self.head.number


class Lease:
    """The lease of one domain, for one worker of one process."""

    def __init__(self, store: Store, domain: str, *, holder: str, life_ms: int = LIFE_MS) -> None:
        if not 0 < life_ms <= LONGEST_LIFE_MS:
            raise Invalid(f"a lease lives 1 to {LONGEST_LIFE_MS} ms, not {life_ms}")
        runtime = store.runtime
        self._clock = runtime.clock
        self._tasks = runtime.tasks
        self._life_ms = life_ms
        self._tick_ms = min(life_ms / 3, TURN_MS)
        self._epochs = Epochs(store, domain)
        # With an id of its own: two processes that were given one name must not share a lease.
        mine = Epoch(holder=f"{holder}/{new_ulid(runtime)}", life_ms=life_ms)
        self._turn = LeaseCandidate(runtime, self._epochs, mine)
        self._held: _Held | None = None
        self._idle_ms: float | None = None
        self._wanted = 0
        self._closed = False
        self._taking: Task[ArcoError | None] | None = None
        self._keeping: list[Task[None]] = []

    async def hold(self, patience_ms: float = PATIENCE_MS) -> int:
        """The fencing token, at once if it is held; `Unavailable` if others have it for too long.

        The caller has work from now on, until it says `idle`.
        """
        self._idle_ms = None
        token = self._fresh_token()
        return await self._wait_for_token(patience_ms) if token is None else token

    def reuse(self) -> int | None:
        """The token of our last epoch, for one change that comes alone after a rest; None: ask `hold`.

        Nothing is held then, and anybody may take the next epoch at any time: the compactor refuses a
        token that has a successor, and of two manifests with one number the first counts. In return a
        change that comes alone neither takes an epoch nor releases it. The caller says `lost` if it sees
        a newer token, and `idle` at its end.
        """
        idle_ms = self._idle_ms
        if idle_ms is None or self._held is not None or self._closed:
            return None
        if self._clock.elapsed_ms() - idle_ms < IDLE_MS:
            return None  # changes come one after the other: take it for all of them
        token = self._turn.last()
        if token is not None:
            self._idle_ms = None
        return token

    @property
    def token(self) -> int | None:
        """The fencing token, if the lease is held and fresh just now."""
        held = self._held
        return None if held is None or self._is_stale(held) else held.token

    def idle(self) -> None:
        """There is no work just now: let go soon, unless `hold` is called before."""
        if self._idle_ms is None:
            self._idle_ms = self._clock.elapsed_ms()
        if self._held is not None:
            self._held.stir.set()

    def lost(self) -> None:
        """Somebody has seen a newer token than ours: the next `hold` takes a new epoch."""
        self._turn.passed()
        if self._held is not None:
            self._drop(self._held)

    async def close(self) -> None:
        """Let go at once, and of everything."""
        self._closed = True
        if self._taking is not None:
            await self._taking.wait()
        if self._held is not None:
            self._drop(self._held)
        for keeper in self._keeping:
            await keeper.wait()
        await self._epochs.chain.close()

    def _fresh_token(self) -> int | None:
        """The token, if it is good for more work; a lease that is not ends here."""
        held = self._held
        if held is not None and (held.is_awaited or self._is_stale(held)):
            self._drop(held)
        return self.token

    async def _wait_for_token(self, patience_ms: float) -> int:
        token = None
        self._wanted += 1
        try:
            token = await self._tasks.deadline(patience_ms, self._token())
        except TimeoutError as late:
            message = f"others held the lease for {patience_ms:.0f} ms"
            raise Unavailable(message, retry_after_ms=self._life_ms) from late
        finally:
            self._wanted -= 1
            if token is None:
                self.idle()  # it may have come just as the caller gave up
        return token

    async def _token(self) -> int:
        while (token := self._fresh_token()) is None:
            if self._closed:
                raise Unavailable("the lease was closed")
            # In a task of its own: a caller that leaves must not take an epoch's name with it.
            if self._taking is None or self._taking.done():
                self._taking = self._tasks.spawn(self._take())
            problem = await self._taking.wait()
            if problem is not None:
                raise problem
        return token

    async def _take(self) -> ArcoError | None:
        """Take an epoch. A problem is the result, because all who wanted it may have left."""
        try:
            head = await self._turn.take(lambda: self._wanted > 0 and not self._closed)
        except ArcoError as problem:
            return problem
        if head is not None:
            due_ms = head.seen_ms + self._tick_ms
            held = _Held(head, self._tasks.event(), renewed_ms=head.seen_ms, due_ms=due_ms)
            self._held = held
            self._idle_ms = None if self._wanted else self._clock.elapsed_ms()
            self._keeping = [each for each in self._keeping if not each.done()]
            self._keeping.append(self._tasks.spawn(self._keep(held)))
        return None

    async def _keep(self, held: _Held) -> None:
        """Renew an epoch while it is held, and say at last that it is released."""
        while self._held is held:
            now = self._clock.elapsed_ms()
            if self._is_stale(held):
                self._drop(held)
            elif self._idle_for(held, now):
                await self._let_go(held)
            elif not held.is_awaited and now >= held.due_ms:
                await self._renew(held)
            else:
                await self._doze(held, now)
        await self._say_released(held)

    async def _doze(self, held: _Held, now: float) -> None:
        """Until there is something to do for an epoch."""
        until = held.renewed_ms + self._life_ms if held.is_awaited else held.due_ms
        if self._idle_ms is not None:
            until = min(until, self._idle_ms + IDLE_MS)
        held.stir.clear()
        try:
            await self._tasks.deadline(max(1, until - now), held.stir.wait())
        except TimeoutError:
            return

    async def _renew(self, held: _Held) -> None:
        sent_ms = self._clock.elapsed_ms()
        held.renewals += 1
        held.due_ms = sent_ms + self._tick_ms
        renewal = Renewal(epoch=held.token, count=held.renewals)
        # Said in time, or not at all: a waiter may have seen the silence before it saw this.
        if await self._attempt(self._epochs.renew(renewal)) and not self._is_stale(held):
            held.renewed_ms = sent_ms
        if sent_ms - held.head.seen_ms >= TURN_MS:
            # Its work may go on with the token it has; the next `hold` queues up behind the others.
            held.is_awaited = await self._attempt(self._epochs.is_awaited(held.token))

    async def _let_go(self, held: _Held) -> None:
        """Nothing to do for a while: let go, and do not come back before somebody who waits."""
        awaited = held.is_awaited or await self._attempt(self._epochs.is_awaited(held.token))
        if self._held is held and self._idle_for(held, self._clock.elapsed_ms()):
            held.is_awaited = awaited
            self._drop(held)
            if not awaited:
                self._turn.rested(held.head)

    async def _say_released(self, held: _Held) -> None:
        """Until it is heard, or was not renewed for so long that it need not be said any more."""
        renewal = Renewal(epoch=held.token, count=held.renewals + 1, released=True)
        while not await self._attempt(self._epochs.renew(renewal)) and not self._is_stale(held):
            await self._clock.sleep(self._tick_ms)

    async def _attempt(self, request: Coroutine[Any, Any, bool]) -> bool:
        """A request about a hint, which is worth no trouble and must not hold up the next one."""
        try:
            return await self._tasks.deadline(self._tick_ms, request)
        except (TimeoutError, ArcoError):
            return False

    def _drop(self, held: _Held) -> None:
        """No longer ours; its keeper says so."""
        self._held = None
        if held.is_awaited:
            self._turn.yielded(held.head)
        held.stir.set()

    def _idle_for(self, held: _Held, now: float) -> bool:
        enough_ms = 0 if held.is_awaited else IDLE_MS
        return self._idle_ms is not None and now - self._idle_ms >= enough_ms

    def _is_stale(self, held: _Held) -> bool:
        return self._clock.elapsed_ms() - held.renewed_ms >= self._life_ms
