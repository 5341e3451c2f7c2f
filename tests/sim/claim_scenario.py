"""The scenario of idempotency keys (P10 to P14): impatient users, several servers, one target chain.

Users send each request under a key, to any server, again and again until they have an answer;
servers crash, sleep and take over from each other. A request counts on, unless the counter shows what the
user shuns; so a request that is refused now would be taken after the next, and a verdict is only worth
the moment at which it was given.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Invalid, KeyReused, NotFound, Unavailable, Unknown
from arco.core.scope import Scope
from arco.core.tasks import AsyncEvent
from arco.ledger.claim import Answer, Claim, find_evidence, key_path
from arco.ledger.gc import collect_keys
from arco.ledger.idempotency import ClaimHold, ClaimTerms, Idempotency
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain, Head
from arco.storage.chain_gc import collect
from arco.storage.entry import Entry
from arco.storage.roles import Role

from .chaos import Chaos
from .claim_audit import ClaimAudit
from .faults import drawn
from .objects import SimObjects
from .opening import opened
from .process import Ambush, Incarnation, Process
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

TARGET = "_catalog/iceberg_pointers/counter"

_SERVERS = 3
_USERS = 4
_REQUESTS = 4
_KEY_LIFE_MS = 5 * HOUR_MS  # at least: each server gives its keys another
_PATIENCE_MS = 4 * HOUR_MS  # users stop before the key's advertised lifetime is over
_CHAOS_MS = 6.0 * HOUR_MS
_CALM_MS = 8.0 * HOUR_MS


class Step(msgspec.Struct, frozen=True):
    """What a number of the target chain carries."""

    request_id: str
    name: str
    counter: int


@dataclass
class Request:
    """What a user wants once: count on, unless the counter, modulo 3, is what they shun."""

    name: str
    shuns: int
    answers: list[int] = field(default_factory=list)  # statuses that the user was given
    given_up: bool = False
    first_ms: float | None = None

    @property
    def is_open(self) -> bool:
        return not self.answers and not self.given_up


@dataclass
class Call:
    """A request on its way to a server, and the way back."""

    request: Request
    sha256: str
    replied: AsyncEvent
    sent_ms: float
    answer: int | None = None


@dataclass
class Inbox:
    """Where a living server takes calls."""

    calls: list[Call]
    rung: AsyncEvent


class CountOn:
    """The work behind a request, as any API would write it (P11)."""

    def __init__(self, chain: Chain, request: Request) -> None:
        self._chain = chain
        self._request = request

    async def terms(self) -> ClaimTerms:
        return ClaimTerms(ids={}, base=(await self._chain.head()).number)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        seen = await find_evidence(self._chain, claim, _request_ids)
        return None if seen.landed is None else _success(seen.landed.body(Step))

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        while True:
            seen = await find_evidence(self._chain, claim, _request_ids)
            if seen.landed is not None:
                return _success(seen.landed.body(Step))
            counter = _counter(seen.head)
            if counter % 3 == self._request.shuns:
                return Answer(status=409, body=msgspec.Raw(json.encode(self._request.name)))
            await hold.check()
            step = Step(claim.request_id, self._request.name, counter + 1)
            try:
                await self._chain.append(seen.head, step)
            except Conflict:
                continue
            return _success(step)


class ClaimScenario:
    """Users, servers and a janitor."""

    name = "claims"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._inboxes: dict[str, Inbox] = {}
        self._world: World
        self._objects: SimObjects

    def build(self, world: World) -> None:
        self._world = world
        self._objects = SimObjects(world, drawn(world.stream("weather")))
        world.end_ms = _CHAOS_MS + _CALM_MS
        servers = [Process(world, f"server{n}", self._serve) for n in range(_SERVERS)]
        janitor = Process(world, "janitor", self._tidy)
        for process in (*servers, janitor):
            process.start()
        for number in range(_USERS):
            Process(world, f"user{number}", self._user(number)).start()
        doze = {"a server dozes off": lambda: self._doze(servers)}
        Chaos(world, self._objects, [*servers, janitor], until_ms=_CHAOS_MS, pranks=doze).start()

    def audit(self, world: World) -> list[str]:
        return ClaimAudit(self._objects, self.requests, f"{Scope().prefix}{TARGET}").violations()

    def _doze(self, servers: list[Process]) -> None:
        """Suspend a server between two steps of its next request, for longer than a takeover takes."""
        rng = self._world.stream("dozing")
        server, ms = rng.choice(servers), rng.uniform(5, 120) * SECOND_MS
        if server.incarnation is not None:
            server.incarnation.ambush(Ambush(rng.randint(1, 30), lambda: server.suspend(ms)))

    async def _serve(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.API)
        name = incarnation.name.partition(".")[0]
        life_ms = _KEY_LIFE_MS + int(name.removeprefix("server")) * HOUR_MS
        keys = Idempotency(store, life_ms=round(life_ms))
        chain = Chain(store, TARGET)
        inbox = self._inboxes[name] = Inbox([], incarnation.runtime.tasks.event())
        while True:
            await inbox.rung.wait()
            inbox.rung.clear()
            calls, inbox.calls = inbox.calls, []
            for call in calls:
                incarnation.runtime.tasks.spawn(self._answer(incarnation, keys, chain, call))

    async def _answer(
        self, incarnation: Incarnation, keys: Idempotency, chain: Chain, call: Call
    ) -> None:
        key = {
            "principal": "user:sim",
            "api": "sim",
            "operation": "count",
            "key": call.request.name,
        }
        path = key_path(Scope(), **key)
        try:
            work = CountOn(chain, call.request)
            waited_ms = incarnation.world.now_ms - call.sent_ms
            arrived_ms = incarnation.runtime.clock.elapsed_ms() - waited_ms
            answer = await keys.once(path, call.sha256, work, arrived_ms=arrived_ms)
            call.answer = answer.status
        except KeyReused:
            call.answer = 422
        except (Unavailable, Unknown):
            incarnation.world.tally["answered 503"] += 1
        except Invalid:
            incarnation.world.tally["keys expired"] += 1
        call.replied.set()

    def _user(self, number: int) -> Callable[[Incarnation], Coroutine[Any, Any, None]]:
        rng = self._world.stream(f"user{number} whims")
        user_requests = [
            Request(f"u{number}r{n}", shuns=rng.choice((0, 1, 2, 3, 3))) for n in range(_REQUESTS)
        ]
        self.requests += user_requests

        async def main(incarnation: Incarnation) -> None:
            for request in user_requests:
                await incarnation.runtime.clock.sleep(_pause_ms(incarnation, rng))
                while request.is_open:
                    await self._send(incarnation, request, rng)
                for _ in range(2):  # a proxy repeats what was answered already
                    await self._send(incarnation, request, rng)
            await incarnation.runtime.clock.sleep(3 * HOUR_MS * rng.random())
            for request in user_requests:  # a queue delivers once more what it had kept for hours
                await self._send(incarnation, request, rng)

        return main

    async def _send(self, incarnation: Incarnation, request: Request, rng: random.Random) -> None:
        now_ms = incarnation.world.now_ms
        request.first_ms = now_ms if request.first_ms is None else request.first_ms
        if now_ms - request.first_ms > _PATIENCE_MS:
            request.given_up = True
            return
        copies = 2 if rng.random() < 0.3 else 1  # to two servers at once
        calls = [self._deliver(incarnation, request, rng) for _ in range(copies)]
        patience_ms = float(200 * (300 ** rng.random()))
        for call in calls:
            if call is None:
                continue
            try:
                await incarnation.runtime.tasks.deadline(patience_ms, call.replied.wait())
            except TimeoutError:
                incarnation.world.tally["answers lost"] += 1
            self._hear(call, request)
        await incarnation.runtime.clock.sleep(float(100 * (100 ** rng.random())))

    def _deliver(
        self, incarnation: Incarnation, request: Request, rng: random.Random
    ) -> Call | None:
        inbox = self._inboxes.get(f"server{rng.randrange(_SERVERS)}")
        if inbox is None:
            return None
        # A key that was answered is sent with another body: it must be refused, and change nothing.
        other_body = bool(request.answers) and rng.random() < 0.3
        sha256 = "other" if other_body else request.name
        call = Call(request, sha256, incarnation.runtime.tasks.event(), incarnation.world.now_ms)
        inbox.calls.append(call)
        inbox.rung.set()
        return call

    def _hear(self, call: Call, request: Request) -> None:
        if call.answer is None:
            return
        if call.answer == 422:
            self._world.tally["keys reused"] += 1
            if call.sha256 == request.name:
                self._world.failures.append(
                    f"{request.name} was answered that its own key is reused"
                )
            return
        request.answers.append(call.answer)
        self._world.tally[f"answered {call.answer}"] += 1

    async def _tidy(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.JANITOR)
        rng = incarnation.world.stream("janitor whims")
        while True:
            try:
                collected_keys = await collect_keys(store)
                await collect(Chain(store, TARGET), retention_ms=4 * SHORTEST_RETENTION_MS)
                incarnation.world.tally["keys collected"] += collected_keys
            except (Unknown, Unavailable, Conflict, NotFound):
                incarnation.world.tally["collections given up"] += 1
            await incarnation.runtime.clock.sleep((0.2 + rng.random()) * HOUR_MS)


def _request_ids(entry: Entry) -> list[str]:
    return [entry.body(Step).request_id]


def _success(step: Step) -> Answer:
    return Answer(status=200, body=msgspec.Raw(json.encode(step)))


def _counter(head: Head) -> int:
    return 0 if head.entry is None else head.entry.body(Step).counter


def _pause_ms(incarnation: Incarnation, rng: random.Random) -> float:
    if incarnation.world.now_ms > _CHAOS_MS:
        return rng.random() * SECOND_MS
    if rng.random() < 0.5:  # all at once, to make them race
        return 10 * MINUTE_MS - incarnation.world.now_ms % (10 * MINUTE_MS) + rng.random() * 200
    return float(SECOND_MS * (3_000 ** rng.random()))
