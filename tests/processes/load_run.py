"""A run: writers change the catalog of a deployment while something disturbs it, and how it recovers."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx2

from tests.processes import change_requests
from tests.processes.client import Client
from tests.processes.deployment import Deployment
from tests.processes.journal import ChangeRequest, Journal, Kill
from tests.processes.server import Server, eventually
from tests.processes.writer import Writer

WRITERS = 4

Disturbance = Callable[[Journal], Awaitable[None]]


async def under_load(deployment: Deployment, disturb: Disturbance, *, seed: int) -> Journal:
    """Let four writers work on a deployment that is up, until the disturbance is over."""
    journal, rng = Journal(), random.Random(seed)
    apis = [api.url for api in deployment.apis]
    clients = [Client(apis, journal, random.Random(rng.random())) for _ in range(WRITERS)]
    writers = [
        Writer(f"w{number}", client, random.Random(rng.random()))
        for number, client in enumerate(clients)
    ]
    stop = asyncio.Event()
    try:
        await wait_for_catalog(apis[0])
        await _make_common(clients[0])
        async with asyncio.TaskGroup() as group:
            for writer in writers:
                group.create_task(writer.run(stop))
            await disturb(journal)
            stop.set()
    finally:
        for client in clients:
            await client.close()
    return journal


async def wait_for_catalog(api: str) -> None:
    """Until a new workspace has its first catalog: an API alone is ready before it has."""
    async with httpx2.AsyncClient(base_url=api, trust_env=False) as http:

        async def look() -> bool:
            return (await http.get(change_requests.CATALOG)).status_code == 200

        await eventually(look)


async def _make_common(client: Client) -> None:
    body = {"name": change_requests.COMMON, "comment": "common-0"}
    path = f"{change_requests.CATALOG}/schemas"
    await client.carry_out(
        ChangeRequest("common-0", "create_schema", "POST", path, body, key="common")
    )


def changes(count: int) -> Disturbance:
    """No disturbance: until so many changes were acknowledged."""

    async def wait(journal: Journal) -> None:
        wanted = len(journal.acks) + count

        async def look() -> bool:
            return len(journal.acks) >= wanted

        await eventually(look)

    return wait


class Killer:
    """Kills processes of a deployment at random moments, one or several at once; they begin again."""

    def __init__(self, deployment: Deployment, *, kills: int, seed: int) -> None:
        self._deployment = deployment
        self._kills = kills
        self._rng = random.Random(seed)

    async def __call__(self, journal: Journal) -> None:
        while len(journal.kills) < self._kills:
            # Mostly work goes on again; else the kill may come in the midst of a start or a repair.
            if self._rng.random() < 0.7:
                await changes(self._rng.randint(1, 25))(journal)
            await asyncio.sleep(self._rng.uniform(0, 0.05))
            most = min(len(self._deployment.servers), self._kills - len(journal.kills))
            count = 1 if self._rng.random() < 0.7 else self._rng.randint(1, most)
            victims = self._rng.sample(self._deployment.servers, count)
            if self._rng.random() < 0.5:
                await asyncio.to_thread(self._deployment.await_publication)
            journal.kills += await asyncio.gather(*[self._kill(victim) for victim in victims])
        ended_s = time.monotonic()

        async def look() -> bool:
            return any(sent_s > ended_s for sent_s, _ in journal.acks)

        await eventually(look)

    async def _kill(self, victim: Server) -> Kill:
        killed_s = time.monotonic()
        victim.kill()
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.3]))
        await victim.start()
        return Kill(killed_s, time.monotonic())


@dataclass(frozen=True)
class Recovery:
    """How long until a change is acknowledged that was asked for since, in ms: p50 and p99."""

    since_kill: tuple[int, int]
    since_ready: tuple[int, int]


def recovery(journal: Journal) -> Recovery:
    """From a kill and from the ready line on, where no other kill came between."""
    return Recovery(
        since_kill=_percentiles(_spans(journal, [kill.killed_s for kill in journal.kills])),
        since_ready=_percentiles(_spans(journal, [kill.ready_s for kill in journal.kills])),
    )


def _spans(journal: Journal, starts_s: list[float]) -> list[float]:
    acks = sorted(journal.acks, key=lambda ack: ack[1])
    ends_s = [_next(acks, start_s) for start_s in starts_s]
    return [
        end_s - start_s
        for start_s, end_s in zip(starts_s, ends_s, strict=True)
        if not any(start_s < kill.killed_s < end_s for kill in journal.kills)
    ]


def _next(acks: list[tuple[float, float]], since_s: float) -> float:
    return next(answered_s for sent_s, answered_s in acks if sent_s > since_s)


def _percentiles(seconds: list[float]) -> tuple[int, int]:
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return round(1000 * ordered[last // 2]), round(1000 * ordered[round(last * 0.99)])
