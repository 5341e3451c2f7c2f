"""Books that die: from one call on nothing they ask for is ever answered, as after a kill.

Workers and people live on. Whatever they asked of a dead book is not answered; they wait until there is
another, and ask again, as clients of a service do.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.catalog.publication import Attempt, Numbered
from arco.core.errors import ArcoError
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.flow.coordinator.ports import TableHead
from arco.storage.backend import Backend, Meta
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.coordinator.chains import Chains
from tests.flow.coordinator.rig import Rig
from tests.ledger.simulated import Calm
from tests.sim.future import Future
from tests.sim.process import Life, Process
from tests.sim.store import SimBackend
from tests.sim.task import SimTask
from tests.sim.world import SECOND_MS

T = TypeVar("T")

CHANGES = ("create", "put", "fence")

_LOOK_MS = 20


@dataclass
class Fate:
    """When lives end: at call number `call` of a life, before it is made or after it was answered."""

    deaths: list[tuple[int, bool]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)  # of this life

    def counted(self, verb: str) -> tuple[bool, bool]:
        """Whether somebody dies now, and whether the call is made before that."""
        self.calls.append(verb)
        if self.deaths and self.deaths[0][0] == len(self.calls):
            return True, self.deaths.pop(0)[1]
        return False, False


class Calls:
    """The calls of one book to the world, any of which may be its last."""

    def __init__(self, fate: Fate, die: Callable[[], None]) -> None:
        self._fate = fate
        self._die = die

    async def make(self, verb: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        dies, after = self._fate.counted(verb)
        if not dies:
            return await work()
        if after:
            with suppress(ArcoError):  # whatever it was told, nobody is there to hear it
                await work()
        self._die()
        return await Future[T]()


class MortalBackend:
    """The store as one life reaches it."""

    def __init__(self, inner: SimBackend, calls: Calls) -> None:
        self._inner = inner
        self._calls = calls

    async def get(self, key: str) -> bytes:
        return await self._calls.make("get", lambda: self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._calls.make("get", lambda: self._inner.get_range(key, start, length))

    async def head(self, key: str) -> Meta:
        return await self._calls.make("get", lambda: self._inner.head(key))

    async def create(self, key: str, body: bytes) -> None:
        await self._calls.make("create", lambda: self._inner.create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._calls.make("put", lambda: self._inner.put(key, body))

    async def delete(self, key: str) -> None:
        await self._calls.make("delete", lambda: self._inner.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in self._inner.list(prefix, after):
            yield meta

    async def settle(self, key: str) -> None:
        await self._inner.settle(key)

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._inner.sign(key, expires_s)


class MortalChains(Chains):
    """The chains as one life reaches them."""

    def __init__(self, inner: Chains, calls: Calls) -> None:
        self._inner = inner
        self._calls = calls
        self.ids = inner.ids

    async def place(self, table: str) -> TableHead | None:
        return await self._calls.make("get", lambda: self._inner.place(table))

    async def fence(self, table_id: str, attempt: Attempt, since: int) -> Numbered | int:
        return await self._calls.make("fence", lambda: self._inner.fence(table_id, attempt, since))

    async def versions(
        self, table_id: str, table_format: str
    ) -> tuple[str | None, Mapping[str, str]]:
        return await self._calls.make("get", lambda: self._inner.versions(table_id, table_format))


class Service:
    """A book in a process of its own, which is started again a second after each death."""

    def __init__(self, calm: Calm, fate: Fate) -> None:
        self.runtime: Runtime = calm.runtime
        self.fate = fate
        self.chains = Chains()
        self._objects = calm.objects
        self._process = Process(calm.life.world, "book", self._live)
        self._open: tuple[Life, Rig] | None = None

    @property
    def lives(self) -> int:
        """How many there were."""
        return len(self._process.lives)

    def start(self) -> None:
        """Begin the first life."""
        self._process.start()

    def kill(self) -> None:
        """End this life now; another follows."""
        self._open = None
        self._process.crash()
        self._process.world.after(SECOND_MS, self._process.restart)

    async def ask(self, what: Callable[[Rig], Coroutine[Any, Any, T]]) -> T:
        """The answer of a book that lived long enough to give it."""
        while True:
            if self._open is None:
                await self.runtime.clock.sleep(_LOOK_MS)
                continue
            life, rig = self._open
            answer = SimTask(life, what(rig), "asked")
            answer.watched = True
            while life.alive and not answer.done():
                await self.runtime.clock.sleep(_LOOK_MS)
            if answer.done():
                return await answer.wait()

    async def _live(self, life: Life) -> None:
        self.fate.calls.clear()
        calls = Calls(self.fate, self.kill)
        backend: Backend = MortalBackend(SimBackend(self._objects, life), calls)

        def store(role: Role) -> Store:
            return Store(backend, life.runtime, scope=Scope(), role=role)

        rig = Rig(store, life.runtime, MortalChains(self.chains, calls))
        try:
            await rig.book.begin()
        except ArcoError:
            self.kill()
            await Future[None]()
        self._open = life, rig
