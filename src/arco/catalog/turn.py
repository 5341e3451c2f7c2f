"""A turn at the lease: how a process waits for one, and takes it (P28).

Whoever has to wait says so beside the epoch, in a hint that names the one who has waited longest, and
looks at the epoch's renewal five to ten times a second, one request each. An epoch is over when it
was released, or when its renewal was seen unchanged for its whole life on our own clock. Then the one who
is named goes at once; the others stand back for a moment, so that everybody gets a turn.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.catalog.epoch import LONGEST_LIFE_MS, Epoch, Epochs, Waiting
from arco.core.errors import Conflict, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.storage.chain import FRESH_MS, Head

_LOOK_MS = 200  # the longest pause between two looks

# How long others stand back for the one who is named: time for its next look and its create. After that
# it has left or died, and anybody may go.
_COURTESY_MS = 500


@dataclass
class _Sight:
    """What we have seen of one epoch."""

    epoch: int
    waited_ms: int = 0  # how long we had waited before
    count: int | None = None
    count_ms: float = 0.0  # when we first had seen this count
    stood_back_ms: float | None = None  # since when it is over, and another is to be next
    in_line: bool = False  # whether all can see that we wait, or somebody who waited longer


class Turn:
    """One process among those that want the lease of a domain."""

    def __init__(self, runtime: Runtime, epochs: Epochs, mine: Epoch) -> None:
        self._rng = runtime.rng
        self._clock = runtime.clock
        self._epochs = epochs
        self._mine = mine
        self._sight = _Sight(-1)
        self._after: Head | None = None
        self._waits_since_ms: float | None = None

    def rested(self, last: Head) -> None:
        """Our own epoch is over for want of work, and nobody waited for its end."""
        self._after = last

    def yielded(self, last: Head) -> None:
        """Our own epoch is over because another waits: it is to be next."""
        self._sight = _Sight(last.number, stood_back_ms=self._clock.elapsed_ms())

    def passed(self) -> None:
        """Another has taken an epoch after ours."""
        self._after = None

    def last(self) -> int | None:
        """Our last epoch, if nobody waited when we rested and none is known to have come after it."""
        after = self._after
        if after is None or self._clock.elapsed_ms() - after.seen_ms >= FRESH_MS:
            return None
        return after.number

    async def take(self, is_wanted: Callable[[], bool]) -> Head | None:
        """The next epoch, which is ours; None as soon as nobody wants it any more.

        Who gives up keeps its place: the next call goes on with what was seen and waited so far.
        """
        if self._waits_since_ms is None:
            self._waits_since_ms = self._clock.elapsed_ms()
        head = self._own_end()
        is_free = head is not None
        while is_wanted():
            head = head or await self._epochs.chain.head()
            if is_free or await self._is_free(head):
                taken = await self._append(head)
                if taken is not None:
                    self._waits_since_ms = None
                    return taken
                head, is_free = None, False
                continue
            await self._clock.sleep(_LOOK_MS * (0.5 + self._rng.random() / 2))
            if self._sight.stood_back_ms is not None:
                head = None  # the one who is named has taken it by now, or soon will
        return None

    def _own_end(self) -> Head | None:
        """Our last epoch, if nobody waited when we rested: mostly we are alone, and need not look.

        The create itself will tell, but not for a head so old that its successor may be collected.
        """
        after, self._after = self._after, None
        if after is None or self._clock.elapsed_ms() - after.seen_ms >= FRESH_MS:
            return None
        return after

    async def _append(self, after: Head) -> Head | None:
        """The epoch after `after`, or None if another has taken it."""
        try:
            return await self._epochs.chain.append(after, self._mine)
        except Conflict:
            return None
        except Unknown as unclear:
            # If it lands after all, it bears our name, and we know it again.
            raise Unavailable("could not take the lease; retry") from unclear

    async def _is_free(self, head: Head) -> bool:
        """Whether the epoch at the head is over, and it is for us to follow it."""
        if head.entry is None:
            return True
        epoch = head.entry.body(Epoch)
        if self._sight.epoch != head.number:
            self._sight = _Sight(head.number, self._waited_ms())
        sight = self._sight
        if sight.stood_back_ms is not None:
            return self._clock.elapsed_ms() - sight.stood_back_ms >= _COURTESY_MS
        # Our own is over too: we would not ask if we had it still.
        is_mine = epoch.holder == self._mine.holder
        if is_mine or await self._has_ended(sight, min(epoch.life_ms, LONGEST_LIFE_MS)):
            return await self._is_next(sight)
        await self._stand_in_line(sight)
        return False

    def _waited_ms(self) -> int:
        since_ms = self._waits_since_ms
        return 0 if since_ms is None else int(self._clock.elapsed_ms() - since_ms)

    async def _has_ended(self, sight: _Sight, life_ms: int) -> bool:
        """Whether another's epoch is over, at one more look."""
        sent_ms = self._clock.elapsed_ms()
        renewal = await self._epochs.renewal(sight.epoch)
        if renewal is None or renewal.released:
            return True
        if renewal.count != sight.count:
            sight.count, sight.count_ms = renewal.count, self._clock.elapsed_ms()
            return False
        return sent_ms - sight.count_ms >= life_ms

    async def _is_next(self, sight: _Sight) -> bool:
        """Whether nobody has waited longer for the end of an epoch than we have."""
        first = await self._epochs.waiting(sight.epoch)
        if first is None or first.waiter == self._mine.holder:
            return True
        sight.stood_back_ms = self._clock.elapsed_ms()
        return False

    async def _stand_in_line(self, sight: _Sight) -> None:
        """Let the holder know that somebody waits, and the others who has waited longest.

        Looked at once more after it was said: who has waited less may have spoken at the same time.
        """
        if sight.in_line:
            return
        mine = Waiting(epoch=sight.epoch, waiter=self._mine.holder, waited_ms=sight.waited_ms)
        first = await self._epochs.waiting(sight.epoch)
        sight.in_line = first is not None and first.waited_ms >= mine.waited_ms
        if not sight.in_line:
            await self._epochs.wait_in_line(mine)
