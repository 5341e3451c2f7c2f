"""The backend of one simulated process: requests that travel, and may not arrive or not come back."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from arco.core.errors import AlreadyExists, ArcoError, Unavailable
from arco.storage.backend import Meta

from .faults import Fate, lateness_ms
from .future import Future
from .objects import SimObjects
from .process import Incarnation

T = TypeVar("T")


class SimBackend:
    """The store as one incarnation of a process reaches it, as `arco.storage.backend.Backend`."""

    def __init__(self, objects: SimObjects, incarnation: Incarnation) -> None:
        self._objects = objects
        self._incarnation = incarnation
        self._world = objects.world

    async def get(self, key: str) -> bytes:
        return await self._ask("get", key, lambda: self._objects.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        body = await self._ask("get_range", key, lambda: self._objects.get(key))
        return body[start : start + length]

    async def head(self, key: str) -> Meta:
        return await self._ask("head", key, lambda: self._objects.head(key))

    async def create(self, key: str, body: bytes) -> None:
        who = self._incarnation.name
        await self._ask("create", key, lambda: self._objects.create(who, key, body))

    async def put(self, key: str, body: bytes) -> None:
        who = self._incarnation.name
        await self._ask("put", key, lambda: self._objects.put(who, key, body))

    async def delete(self, key: str) -> None:
        who = self._incarnation.name
        await self._ask("delete", key, lambda: self._objects.delete(who, key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        for meta in await self._ask("list", prefix, lambda: self._objects.list(prefix, after)):
            yield meta

    async def settle(self, key: str) -> None:
        """What the simulated store holds is durable."""

    async def sign(self, key: str, expires_s: int) -> str:
        return f"https://sim.invalid/{key}?expires_s={expires_s}"

    def _ask(self, verb: str, key: str, apply: Callable[[], T]) -> Future[T]:
        """Send a request; its answer may never come."""
        world, rng, faults = self._world, self._objects.rng, self._objects.faults
        fate = faults.fate(rng, verb)
        if verb == "list" and fate in (Fate.LOST, Fate.UNANSWERED):
            fate = Fate.REFUSED  # a list has no deadline of ours: the client's own ends it
        answer: Future[T] = Future()
        world.tally["requests"] += 1
        if verb == "create":
            self._incarnation.creates()
        if fate is not Fate.FINE:
            world.tally[f"fault: {fate.value}"] += 1
            world.note(self._incarnation.name, f"asks {verb} {key}, which is {fate.value}")
        if fate is not Fate.LOST:
            way_ms = lateness_ms(rng) if fate is Fate.LATE else faults.travel_ms(rng)
            world.after(way_ms, lambda: self._arrive(fate, verb, key, apply, answer))
        if fate is Fate.DOUBLED:
            world.after(lateness_ms(rng), lambda: self._apply(verb, key, apply, Future()))
        return answer

    def _arrive(
        self, fate: Fate, verb: str, key: str, apply: Callable[[], T], answer: Future[T]
    ) -> None:
        response: Future[T] = Future()
        if fate is Fate.REFUSED:
            response.fail(Unavailable(f"503 on {verb} {key}"))
        elif fate is Fate.PHANTOM:
            response.fail(AlreadyExists(f"409 on {verb} {key}"))
        else:
            self._apply(verb, key, apply, response)
        if fate is Fate.MISREPORTED:
            response = Future()
            response.fail(Unavailable(f"500 on {verb} {key}"))
        if fate is not Fate.UNANSWERED:
            way_ms = self._objects.faults.travel_ms(self._objects.rng)
            self._world.after(way_ms, lambda: answer.follow(response), self._incarnation)

    def _apply(self, verb: str, key: str, apply: Callable[[], T], response: Future[T]) -> None:
        try:
            response.resolve(apply())
            outcome = "done"
        except ArcoError as problem:
            # Without its traceback, which would hold this frame, and so the future that holds it.
            response.fail(problem.with_traceback(None))
            outcome = problem.code
        self._world.note("store", f"{verb} {key} for {self._incarnation.name}: {outcome}")
