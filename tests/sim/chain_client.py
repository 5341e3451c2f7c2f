"""A client of the simulated chain: does each operation once, whatever the answers.

It follows the tree of errors to the letter: a conflict means that nothing happened, an unknown
outcome means to look, from a number known to exist, before anything is tried again (P11).
"""

import random

from arco.core.errors import Conflict, NotFound, Unavailable, Unknown
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry

from .chain_notes import TICK, EntryBody, Notes, Order, State
from .objects import SimObjects
from .process import Incarnation
from .world import HOUR_MS, SECOND_MS

_RUSH_MS = 2.0 * HOUR_MS  # at these moments all come at once


class Client:
    """One user's part inside one incarnation of a process."""

    def __init__(
        self,
        name: str,
        incarnation: Incarnation,
        chain: Chain,
        objects: SimObjects,
        notes: Notes,
        orders: list[Order],
        hurry_ms: float,
    ) -> None:
        self._name = name
        self._world = incarnation.world
        self._clock = incarnation.runtime.clock
        self._rng: random.Random = incarnation.world.stream(f"{name} wishes")
        self._chain = chain
        self._objects = objects
        self._notes = notes
        self._orders = orders
        self._hurry_ms = hurry_ms  # from then on there is no idling
        self._slowest_thought_ms = incarnation.world.stream("tempers").choice((500, 5_000, 50_000))
        self._kept: Head | None = None
        self._antique: Head | None = None

    async def run(self) -> None:
        """All orders that are open, one after the other."""
        for order in self._orders:
            if order.is_open:
                order.doubtful = order.tried  # by an earlier incarnation, which cannot be asked
                await self._clock.sleep(self._pause_ms())
                while order.is_open:
                    await self._place(order)

    async def _place(self, order: Order) -> None:
        try:
            head = await self._choose_head(order)
            if order.doubtful:
                await self._look(order, head)
            if order.is_open:
                await self._clock.sleep(self._thinking_ms())
                order.base = head.number if order.base is None else order.base
                self._kept = await self._chain.append(head, EntryBody(order.operation))
                self._acknowledge(order, self._kept.entry)
        except Conflict:
            self._world.tally["conflicts"] += 1
            self._kept = None
        except Unknown:
            self._world.tally["unknowns"] += 1
            self._kept = None
            order.doubtful = True
        except Unavailable:
            self._world.tally["unavailable"] += 1
            await self._clock.sleep(SECOND_MS)

    async def _choose_head(self, order: Order) -> Head:
        """The head as it is now, or one that has been kept, for a while or for hours."""
        if not order.doubtful:
            old = self._antique if self._rng.random() < 0.1 else self._kept
            if old is not None and self._rng.random() < 0.4:
                return old
        before = len(self._objects.log)
        head = await self._chain.head()
        self._notes.saw(self._name, before, len(self._objects.log), head)
        self._kept = head
        if self._antique is None or self._rng.random() < 0.3:
            self._antique = head
        return head

    async def _look(self, order: Order, head: Head) -> None:
        """Find out what became of the earlier attempts, as far as the evidence is still there."""
        first = 0 if order.base is None else order.base + 1
        if order.operation == TICK:
            self._give_up(order)
            return
        try:
            entries = await self._chain.history(first, head.number)
        except NotFound:
            if await self._chain.floor() <= first:
                raise
            self._give_up(order)
            return
        for entry in entries:
            if entry.body(EntryBody).operation == order.operation:
                self._acknowledge(order, entry)

    def _acknowledge(self, order: Order, entry: Entry | None) -> None:
        if entry is None:
            raise TypeError("an append returned an empty chain")
        order.acknowledge(entry)
        self._world.tally["acknowledged"] += 1
        self._world.note(self._name, f"has {order.operation} done as number {entry.number}")

    def _give_up(self, order: Order) -> None:
        order.state = State.UNDECIDED
        self._world.tally["undecided"] += 1

    def _pause_ms(self) -> float:
        if self._world.now_ms >= self._hurry_ms:
            return self._rng.random() * 20 * SECOND_MS
        if self._rng.random() < 0.6:
            rushes = self._rng.randint(1, 2)
            return _RUSH_MS * rushes - self._world.now_ms % _RUSH_MS + self._rng.random() * 300
        return float(100 * (4.0 * HOUR_MS / 100) ** self._rng.random())

    def _thinking_ms(self) -> float:
        return float(self._slowest_thought_ms * self._rng.random() ** 4)
