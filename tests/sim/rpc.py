"""Calls between simulated processes: the API's way to a compactor, over a network that loses and doubles.

A call travels as bytes, as over HTTP, is carried out in the process that it reaches, and its
answer travels back, or does not. The caller sees what `arco.api.remote_compactor` would show it: a refusal
with one of our codes is a definite no, and whatever is not clear is `Unknown`.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import msgspec

from arco.catalog.compactor_port import (
    CompactorPort,
    Guard,
    PublishedCommit,
    SyncCompact,
    no_guard,
)
from arco.core import json
from arco.core.errors import ArcoError, Conflict, Denied, Fenced, Invalid, Unavailable, Unknown
from arco.fold.tier1 import DOMAIN

from .future import Future
from .process import Incarnation
from .world import MINUTE_MS, SECOND_MS, World

_ANSWER_MS = 20 * SECOND_MS  # what a caller waits
_LATEST_MS = 5 * MINUTE_MS  # what a second delivery, or a late one, takes at most

_REFUSALS: dict[str, type[ArcoError]] = {
    kind.code: kind for kind in (Conflict, Denied, Fenced, Invalid, Unavailable)
}


@dataclass(frozen=True)
class Wires:
    """How likely each misfortune of a call is."""

    lost: float = 0.0
    unanswered: float = 0.0
    doubled: float = 0.0
    late: float = 0.0

    def drawn(self, rng: random.Random) -> "Wires":
        """The wires of one seed: some are sound, some lose this, some that."""
        often = {kind: getattr(self, kind) * rng.choice((0, 1, 1, 4)) for kind in _KINDS}
        return replace(self, **often)


_KINDS = ("lost", "unanswered", "doubled", "late")
BAD = Wires(lost=0.03, unanswered=0.04, doubled=0.05, late=0.03)


@dataclass
class Called:
    """What an auditor wants to know of one call that publishes."""

    commit_ulid: str
    fencing_token: int
    base_manifest: int
    deliveries_ms: list[float] = field(default_factory=list)  # when it reached a compactor
    copies: int = 1


class Exchange:
    """Where processes find each other, and what may happen between them."""

    def __init__(self, world: World, wires: Wires) -> None:
        self.world = world
        self.wires = wires
        self.rng = world.stream("wires")
        self.calls: dict[str, Called] = {}  # by commit_ulid
        self._endpoints: dict[str, tuple[Incarnation, CompactorPort]] = {}

    def open(self, name: str, incarnation: Incarnation, compactor: CompactorPort) -> None:
        """From now on this incarnation answers for `name`."""
        self._endpoints[name] = (incarnation, compactor)

    def reach(self, name: str) -> tuple[Incarnation, CompactorPort] | None:
        """The process that answers for a name, if it is alive."""
        endpoint = self._endpoints.get(name)
        return endpoint if endpoint is not None and endpoint[0].alive else None

    @property
    def names(self) -> list[str]:
        return sorted(self._endpoints)


class RemotePort:
    """A `CompactorPort` of one incarnation, through the exchange."""

    def __init__(
        self, exchange: Exchange, incarnation: Incarnation, *, only: str | None = None
    ) -> None:
        self._exchange = exchange
        self._incarnation = incarnation
        self._only = only  # the one compactor that is called; else any
        self._world = exchange.world

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        await guard()
        note = Called(call.commit_ulid, call.fencing_token, call.base_manifest)
        self._exchange.calls[call.commit_ulid] = note
        raw = json.encode(call)

        async def work(port: CompactorPort) -> PublishedCommit:
            note.deliveries_ms.append(self._world.now_ms)
            return await port.sync_compact(json.decode(raw, SyncCompact))

        answer = await self._post("sync-compact", work, note)
        return json.decode(answer, PublishedCommit)

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        answer = await self._post("mark-orphans", lambda port: port.mark_orphans(before, domain))
        return json.decode(answer, PublishedCommit)

    async def merge(self) -> PublishedCommit | None:
        answer = await self._post("merge", lambda port: port.merge())
        return msgspec.json.decode(answer, type=PublishedCommit | None)

    async def _post(
        self,
        what: str,
        work: Callable[[CompactorPort], Awaitable[PublishedCommit | None]],
        note: Called | None = None,
    ) -> bytes:
        exchange, rng = self._exchange, self._exchange.rng
        answer: Future[bytes] = Future()
        name = self._only or (rng.choice(exchange.names) if exchange.names else "")
        if exchange.reach(name) is None:
            raise Unavailable("the compactor cannot be reached")
        fate = rng.random()
        wires = exchange.wires
        self._world.tally["calls"] += 1
        self._world.note(self._incarnation.name, f"calls {what} on {name}")
        if fate < wires.lost:
            self._tell(what, "lost")
        elif fate < wires.lost + wires.late:
            self._tell(what, "late")
            self._send(_late_ms(rng), name, work, answer)
        else:
            self._send(5 + 40 * rng.random() ** 4, name, work, answer)
        if rng.random() < wires.doubled:
            self._tell(what, "doubled")
            if note is not None:
                note.copies += 1
            other = rng.choice(exchange.names)
            self._send(_late_ms(rng), other, work, answer)
        try:
            return await self._incarnation.runtime.tasks.deadline(_ANSWER_MS, _wait(answer))
        except TimeoutError:
            raise Unknown("the compactor did not answer, and may have published") from None

    def _send(
        self,
        way_ms: float,
        name: str,
        work: Callable[[CompactorPort], Awaitable[PublishedCommit | None]],
        answer: Future[bytes],
    ) -> None:
        self._world.after(way_ms, lambda: self._arrive(name, work, answer))

    def _arrive(
        self,
        name: str,
        work: Callable[[CompactorPort], Awaitable[PublishedCommit | None]],
        answer: Future[bytes],
    ) -> None:
        endpoint = self._exchange.reach(name)
        if endpoint is None:
            return
        incarnation, port = endpoint
        incarnation.runtime.tasks.spawn(self._serve(work, port, answer))

    async def _serve(
        self,
        work: Callable[[CompactorPort], Awaitable[PublishedCommit | None]],
        port: CompactorPort,
        answer: Future[bytes],
    ) -> None:
        """In the compactor's incarnation: carry out, and send the answer off."""
        response: Future[bytes] = Future()
        try:
            response.resolve(json.encode(await work(port)))
        except ArcoError as problem:
            kind = _REFUSALS.get(problem.code, Unknown)
            response.fail(kind(f"the compactor says: {problem}"))
        rng = self._exchange.rng
        if rng.random() < self._exchange.wires.unanswered:
            self._tell("an answer", "lost")
            return
        self._world.after(
            5 + 40 * rng.random() ** 4, lambda: answer.follow(response), self._incarnation
        )

    def _tell(self, what: str, fate: str) -> None:
        self._world.tally[f"calls {fate}"] += 1
        self._world.note("wires", f"{what} is {fate}")


async def _wait(answer: Future[bytes]) -> bytes:
    return await answer


def _late_ms(rng: random.Random) -> float:
    return float(50 * (_LATEST_MS / 50) ** rng.random())


class LocalPort:
    """A `CompactorPort` of an incarnation that publishes itself, as the all-in-one server does."""

    def __init__(
        self, exchange: Exchange, incarnation: Incarnation, compactor: CompactorPort
    ) -> None:
        self._exchange = exchange
        self._world = incarnation.world
        self._compactor = compactor

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        note = Called(call.commit_ulid, call.fencing_token, call.base_manifest)
        note.deliveries_ms.append(self._world.now_ms)
        self._exchange.calls[call.commit_ulid] = note
        self._world.tally["calls within a process"] += 1
        return await self._compactor.sync_compact(call, guard)

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        return await self._compactor.mark_orphans(before, domain)

    async def merge(self) -> PublishedCommit | None:
        return await self._compactor.merge()
