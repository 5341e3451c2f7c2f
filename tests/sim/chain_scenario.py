"""The story of one numbered chain (P1 to P9): writers, readers and a janitor, over many retentions.

Writers come in rushes and alone, keep heads for hours, and sleep through retentions between reading
the head and appending to it; hints are lost and spoiled; the janitor collects whatever it may.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from arco.core.errors import Conflict, NotFound, Unavailable, Unknown
from arco.core.scope import Scope
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain
from arco.storage.chain_gc import collect
from arco.storage.roles import Role

from .chain_audit import ChainAudit
from .chain_client import Client
from .chain_notes import TICK, Notes, Order
from .chaos import Chaos, Storm
from .faults import drawn
from .objects import SimObjects
from .opening import opened
from .process import Ambush, Life, Process
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

PATH = "manifests/catalog"
HINT = f"{Scope().prefix}{PATH}/head.json"

_WRITERS = 3
_CLIENTS = 2
_ORDERS = 7
_SLEEPY = Storm(crash=1.0, stall=1.0, lid=8.0)
_CHAOS_MS = 16.0 * HOUR_MS
_CALM_MS = 4.0 * HOUR_MS


class ChainScenario:
    """Writers, readers and a janitor of one chain."""

    name = "chain"

    def __init__(self) -> None:
        self.notes = Notes()
        self._world: World
        self._objects: SimObjects

    def build(self, world: World) -> None:
        self._world = world
        self._objects = SimObjects(world, drawn(world.stream("weather")))
        world.end_ms = _CHAOS_MS + _CALM_MS
        writers = [self._process(f"writer{n}", self._writer(n)) for n in range(_WRITERS)]
        reader = self._process("reader", self._read)
        janitors = [self._process(f"janitor{n}", self._tidy) for n in range(2)]
        processes = [*writers, reader, *janitors]
        for process in processes:
            process.start()
        pranks = {
            "loses the hint": self._lose_hint,
            "spoils the hint": self._spoil_hint,
            "lets the reader oversleep": lambda: self._doze(reader),
            "lets two writers oversleep": lambda: self._oversleep(writers),
        }
        storm = world.stream("storms").choice((Storm(), _SLEEPY))
        Chaos(
            world, self._objects, processes, until_ms=_CHAOS_MS, storm=storm, pranks=pranks
        ).start()
        Process(world, "last", self._conclude).start()

    def audit(self, world: World) -> list[str]:
        return ChainAudit(self._objects, self.notes, f"{Scope().prefix}{PATH}").violations()

    def _process(self, name: str, main: Callable[[Life], Coroutine[Any, Any, None]]) -> Process:
        """A process whose wall clock may be days off: a chain decides nothing by it."""
        return Process(self._world, name, main, furthest_clock_ms=72.0 * HOUR_MS)

    def _writer(self, number: int) -> Callable[[Life], Coroutine[Any, Any, None]]:
        books = {f"w{number}c{n}": self._book(f"w{number}c{n}") for n in range(_CLIENTS)}

        async def main(life: Life) -> None:
            chain = await self._open(life, Role.COMPACTOR)
            clients = [
                Client(name, life, chain, self._objects, self.notes, orders, _CHAOS_MS)
                for name, orders in books.items()
            ]
            await life.runtime.tasks.gather(*(client.run() for client in clients))
            await chain.close()

        return main

    def _book(self, client: str) -> list[Order]:
        """What one user wants; every third operation is one that cannot be told from others."""
        orders = [Order(TICK if n % 3 == 2 else f"{client}-{n}") for n in range(_ORDERS)]
        self.notes.orders += orders
        return orders

    async def _read(self, life: Life) -> None:
        warm = await self._open(life, Role.READER)
        rng = self._world.stream("reader whims")
        while self._world.now_ms < _CHAOS_MS:
            await self._sight("warm", warm)
            if rng.random() < 0.3:
                await self._sight("cold", Chain(warm.store, PATH))
            await life.runtime.clock.sleep(rng.random() * 30 * MINUTE_MS)

    async def _sight(self, reader: str, chain: Chain) -> bool:
        before = len(self._objects.log)
        try:
            head = await chain.head()
        except Unavailable:
            return False
        self.notes.saw(reader, before, len(self._objects.log), head)
        return True

    async def _tidy(self, life: Life) -> None:
        chain = await self._open(life, Role.JANITOR)
        rng = self._world.stream("janitor whims")
        while True:
            calm = self._world.now_ms >= _CHAOS_MS
            try:
                done = await collect(chain, retention_ms=SHORTEST_RETENTION_MS)
            except (Unavailable, Unknown, Conflict, NotFound):
                self._world.tally["collections given up"] += 1
            else:
                self._world.tally["numbers collected"] += done.deleted
                self.notes.collected_in_calm |= calm
            await life.runtime.clock.sleep((0.3 + 1.5 * rng.random()) * HOUR_MS)

    async def _conclude(self, life: Life) -> None:
        """Once all is done in the calm, a reader that knows nothing must find the head."""
        clock = life.runtime.clock
        await clock.sleep(_CHAOS_MS)
        while any(order.is_open for order in self.notes.orders) or not self.notes.collected_in_calm:
            await clock.sleep(MINUTE_MS)
        await clock.sleep(30 * SECOND_MS)
        chain = await self._open(life, Role.READER)
        self.notes.read_at_the_end = await self._sight("last", chain)
        self._world.stop()

    async def _open(self, life: Life, role: Role) -> Chain:
        return Chain(await opened(self._objects, life, role), PATH)

    def _doze(self, reader: Process) -> None:
        """Suspend the reader in the middle of a search, past the retention."""
        rng = self._world.stream("dozing")
        ms = rng.uniform(2.5, 5) * HOUR_MS
        if reader.life is not None and self._world.now_ms + ms < _CHAOS_MS:
            reader.life.ambush(Ambush(rng.randint(1, 6), lambda: reader.suspend(ms)))

    def _oversleep(self, writers: list[Process]) -> None:
        """Suspend one writer with a create under way, and another, past the retention."""
        rng = self._world.stream("oversleeping")
        first, second = rng.sample(writers, 2)
        ms = rng.uniform(2.5, 5) * HOUR_MS

        def strike() -> None:
            if self._world.now_ms + ms < _CHAOS_MS:
                first.suspend(ms + rng.random() * MINUTE_MS)
                second.suspend(ms)

        if first.life is not None:
            first.life.ambush(Ambush(1, strike, for_creates=True))

    def _lose_hint(self) -> None:
        self._objects.delete("chaos", HINT)

    def _spoil_hint(self) -> None:
        self._objects.put("chaos", HINT, b'{"format":1,"number":')
