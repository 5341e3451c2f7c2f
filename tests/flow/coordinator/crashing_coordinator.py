"""Coordinators that crash: from one call on none of their calls is answered, as after a kill.

Workers go on. A call to a crashed coordinator gets no answer; they wait until there is another one and call
again, as clients of a service do.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.catalog.publication import DispatchedAttempt, NumberedPublication
from arco.core.errors import ArcoError
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.flow.coordinator.ports import TableHead
from arco.storage.backend import Backend, Meta
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.coordinator.chains import Chains
from tests.flow.coordinator.coordinator_setup import CoordinatorSetup
from tests.ledger.simulated import Calm
from tests.sim.future import Future
from tests.sim.process import Incarnation, Process
from tests.sim.store import SimBackend
from tests.sim.task import SimTask
from tests.sim.world import SECOND_MS

T = TypeVar("T")

CHANGES = ("create", "put", "fence")

_LOOK_MS = 20


@dataclass
class CrashPoints:
    """When processes crash: at a call by its number, before it is made or after it was answered."""

    crashes: list[tuple[int, bool]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)  # of this process

    def count(self, verb: str) -> tuple[bool, bool]:
        """Whether the process crashes now, and whether the call is made before that."""
        self.calls.append(verb)
        if self.crashes and self.crashes[0][0] == len(self.calls):
            return True, self.crashes.pop(0)[1]
        return False, False


class Calls:
    """The calls of one coordinator, any of which may be its last."""

    def __init__(self, points: CrashPoints, crash: Callable[[], None]) -> None:
        self._points = points
        self._crash = crash

    async def make(self, verb: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        crashes, after = self._points.count(verb)
        if not crashes:
            return await work()
        if after:
            with suppress(ArcoError):  # no process is left to get the answer
                await work()
        self._crash()
        return await Future[T]()


class CrashingBackend:
    """The store as one process reaches it."""

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


class CrashingChains(Chains):
    """The chains as one process reaches them."""

    def __init__(self, inner: Chains, calls: Calls) -> None:
        self._inner = inner
        self._calls = calls
        self.ids = inner.ids

    async def head(self, table: str) -> TableHead | None:
        return await self._calls.make("get", lambda: self._inner.head(table))

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        return await self._calls.make("fence", lambda: self._inner.fence(table_id, attempt, since))

    async def versions(
        self, table_id: str, table_format: str
    ) -> tuple[str | None, Mapping[str, str]]:
        return await self._calls.make("get", lambda: self._inner.versions(table_id, table_format))


class Service:
    """A coordinator process, which is restarted a second after each crash."""

    def __init__(self, calm: Calm, points: CrashPoints) -> None:
        self.runtime: Runtime = calm.runtime
        self.points = points
        self.chains = Chains()
        self._objects = calm.objects
        self._process = Process(calm.incarnation.world, "coordinator", self._live)
        self._open: tuple[Incarnation, CoordinatorSetup] | None = None

    @property
    def processes(self) -> int:
        """How many there were."""
        return len(self._process.incarnations)

    def start(self) -> None:
        """Start the first process."""
        self._process.start()

    def crash(self) -> None:
        """End this process now; another one follows."""
        self._open = None
        self._process.crash()
        self._process.world.after(SECOND_MS, self._process.restart)

    async def call(self, call: Callable[[CoordinatorSetup], Coroutine[Any, Any, T]]) -> T:
        """The answer of a coordinator that lived long enough to give it."""
        while True:
            if self._open is None:
                await self.runtime.clock.sleep(_LOOK_MS)
                continue
            incarnation, setup = self._open
            answer = SimTask(incarnation, call(setup), "call")
            answer.watched = True
            while incarnation.alive and not answer.done():
                await self.runtime.clock.sleep(_LOOK_MS)
            if answer.done():
                return await answer.wait()

    async def _live(self, incarnation: Incarnation) -> None:
        self.points.calls.clear()
        calls = Calls(self.points, self.crash)
        backend: Backend = CrashingBackend(SimBackend(self._objects, incarnation), calls)

        def store(role: Role) -> Store:
            return Store(backend, incarnation.runtime, scope=Scope(), role=role)

        setup = CoordinatorSetup(store, incarnation.runtime, CrashingChains(self.chains, calls))
        try:
            await setup.coordinator.begin()
        except ArcoError:
            self.crash()
            await Future[None]()
        self._open = incarnation, setup
