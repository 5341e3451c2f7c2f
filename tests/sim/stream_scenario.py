"""The scenario of a domain's streams (P15 to P17): writers, two compactors and a janitor.

Writers append under crashes and long sleeps, some past the end of life of their stream; compactors race
to publish what they have read; the janitor seals what has expired and collects what was folded. What
was acknowledged must be folded once, at the place that the receipt names.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arco.core.clock import utc
from arco.core.errors import Conflict, NotFound, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.ledger.envelope import Envelope, Source
from arco.ledger.follower import SegmentFollower
from arco.ledger.gc import collect_segments, seal_expired_streams
from arco.ledger.segment import Segment, decode_event
from arco.ledger.stream import Watermark, slot_chain
from arco.ledger.writer import AppendReceipt, LedgerWriter
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain, Head
from arco.storage.chain_gc import collect
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.ledger.events import StreamNotifications, follow, read_segments

from .chaos import Chaos
from .faults import drawn
from .objects import SimObjects
from .opening import opened
from .process import Ambush, Incarnation, Process
from .stream_audit import StreamAudit
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

DOMAIN = "executions"

_WRITERS = 3
_CLIENTS = 3
_EVENTS = 6
_LIFE_MS = 20 * MINUTE_MS  # of a stream: short, so that writers sleep past its end
_CHAOS_MS = 6.0 * HOUR_MS
_CALM_MS = 6.0 * HOUR_MS


class Published(msgspec.Struct, frozen=True):
    """What a manifest of the simulated compactor carries: how far it is, and what it folded."""

    watermark: Watermark
    folded: list[tuple[str, int, int, str]]  # stream, segment, line, name of the event


@dataclass
class Intent:
    """An event that a user wants recorded, and the receipt."""

    name: str
    receipt: AppendReceipt | None = None


@dataclass
class StreamNotes:
    """What the auditor needs besides the log."""

    intents: list[Intent] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    caught_up: bool = False


class StreamScenario:
    """Writers, compactors and a janitor of one domain."""

    name = "streams"

    def __init__(self) -> None:
        self.notes = StreamNotes()
        self._world: World
        self._objects: SimObjects

    def build(self, world: World) -> None:
        self._world = world
        self._objects = SimObjects(world, drawn(world.stream("weather")))
        world.end_ms = _CHAOS_MS + _CALM_MS
        processes = [Process(world, f"writer{n}", self._writer(n)) for n in range(_WRITERS)]
        processes += [Process(world, f"compactor{n}", self._compact) for n in range(2)]
        processes += [Process(world, "janitor", self._tidy)]
        for process in processes:
            process.start()
        doze = {"a writer dozes off": lambda: self._doze(processes[:_WRITERS])}
        Chaos(world, self._objects, processes, until_ms=_CHAOS_MS, pranks=doze).start()
        Process(world, "last", self._conclude).start()

    def audit(self, world: World) -> list[str]:
        return StreamAudit(self._objects, self.notes, DOMAIN).violations()

    def _writer(self, number: int) -> Callable[[Incarnation], Coroutine[Any, Any, None]]:
        intents_by_client = [
            [Intent(f"w{number}c{client}-{n}") for n in range(_EVENTS)]
            for client in range(_CLIENTS)
        ]
        for intents_of_client in intents_by_client:
            self.notes.intents += intents_of_client

        async def main(incarnation: Incarnation) -> None:
            store = await opened(self._objects, incarnation, Role.API)
            writer = LedgerWriter(store, DOMAIN, life_ms=_LIFE_MS)
            await incarnation.runtime.tasks.gather(
                *(
                    self._client(incarnation, writer, intents_of_client)
                    for intents_of_client in intents_by_client
                )
            )
            await writer.close()

        return main

    def _doze(self, writers: list[Process]) -> None:
        """Suspend a writer between two steps of its next append, past the seal and the retention."""
        rng = self._world.stream("dozing")
        writer, ms = rng.choice(writers), rng.uniform(2.2, 3.2) * HOUR_MS
        if writer.incarnation is not None and self._world.now_ms + ms < _CHAOS_MS:
            writer.incarnation.ambush(Ambush(rng.randint(1, 12), lambda: writer.suspend(ms)))

    async def _client(
        self, incarnation: Incarnation, writer: LedgerWriter, intents_of_client: list[Intent]
    ) -> None:
        rng = incarnation.world.stream(f"{intents_of_client[0].name} whims")
        for intent in intents_of_client:
            while intent.receipt is None:
                if incarnation.world.now_ms < _CHAOS_MS:
                    await incarnation.runtime.clock.sleep(float(50 * (2e5 ** rng.random())))
                try:
                    intent.receipt = await writer.append([_event(incarnation, intent.name)])
                except (Unknown, Unavailable):
                    incarnation.world.tally["appends retried"] += 1
                    await incarnation.runtime.clock.sleep(SECOND_MS)
                else:
                    incarnation.world.tally["acknowledged"] += 1

    async def _compact(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.COMPACTOR)
        chain = _manifests(store)
        while True:
            try:
                head = await chain.head()
                mark = _watermark(head)
                follower = SegmentFollower(store, DOMAIN, mark)
                async for batch in follow(follower, StreamNotifications(incarnation.runtime.tasks)):
                    segments = await read_segments(store, DOMAIN, batch)
                    published = Published(batch.watermark, list(_lines(segments)))
                    head = await chain.append(head, published)
                    incarnation.world.tally["manifests"] += 1
            except Conflict:
                incarnation.world.tally["conflicts"] += 1
            except (Unknown, Unavailable):
                incarnation.world.tally["publishes given up"] += 1
                await incarnation.runtime.clock.sleep(SECOND_MS)

    async def _tidy(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.JANITOR)
        slots = slot_chain(store, DOMAIN)
        rng = incarnation.world.stream("janitor whims")
        while True:
            try:
                head = await _manifests(store).head()
                mark = _watermark(head)
                sealed = await seal_expired_streams(slots, DOMAIN, mark)
                collected_segments = await collect_segments(
                    slots, DOMAIN, mark, retention_ms=SHORTEST_RETENTION_MS
                )
                await collect(slots, retention_ms=SHORTEST_RETENTION_MS, ceiling=mark.frontier)
                incarnation.world.tally.update(
                    {"seals": len(sealed), "segments collected": collected_segments}
                )
            except (Unknown, Unavailable, Conflict, NotFound):
                incarnation.world.tally["collections given up"] += 1
            await incarnation.runtime.clock.sleep((0.1 + rng.random()) * HOUR_MS)

    async def _conclude(self, incarnation: Incarnation) -> None:
        """Wait until every intent is stored and folded, then read it as the end result."""
        await incarnation.runtime.clock.sleep(_CHAOS_MS)
        chain = _manifests(await opened(self._objects, incarnation, Role.READER))
        while True:
            await incarnation.runtime.clock.sleep(10 * MINUTE_MS)
            head = await chain.head()
            self.notes.published = [
                entry.body(Published) for entry in await chain.history(0, head.number)
            ]
            if (
                all(intent.receipt for intent in self.notes.intents)
                and StreamAudit(self._objects, self.notes, DOMAIN).all_folded()
            ):
                self.notes.caught_up = True
                incarnation.world.stop()
                return


def _manifests(store: Store) -> Chain:
    return Chain(store, f"manifests/{DOMAIN}")


def _watermark(head: Head) -> Watermark:
    return Watermark() if head.entry is None else head.entry.body(Published).watermark


def _lines(segments: list[Segment]) -> list[tuple[str, int, int, str]]:
    return [
        (segment.stream, segment.seq, number, decode_event(line).idempotency_key)
        for segment in segments
        for number, line in enumerate(segment.lines, start=1)
    ]


def _event(incarnation: Incarnation, name: str) -> Envelope:
    now = utc(incarnation.runtime.clock.now_ms())
    return Envelope(
        event_id=new_ulid(incarnation.runtime),
        event_type="simulated",
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=name,
        source=Source("sim"),
        payload=msgspec.Raw(b"{}"),
    )
