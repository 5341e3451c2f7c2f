"""What an idle workspace asks of its store: all domains of Tier 2, in virtual time, counted by a spy."""

import msgspec

from arco.compactor.event_compactor import EventCompactor
from arco.core import json
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.events.registry import KINDS, EventKind
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import LedgerWriter
from arco.storage.roles import Role
from bench.figure import Figure
from tests.compactor.in_process_engine import InProcessEngine
from tests.ledger.simulated import Calm, simulate
from tests.sim.world import HOUR_MS, MINUTE_MS, SECOND_MS

_HOURS = 6
_PROMISED = 60  # requests an hour and domain


async def run() -> list[Figure]:
    """Let events come, then nothing for ten minutes, and count from there on."""
    counted: list[int] = []

    async def story(calm: Calm) -> None:
        for domain in TIER2:
            kind = next(kind for kind in KINDS if kind.domain == domain)
            writer = LedgerWriter(calm.store(), domain, life_ms=100 * HOUR_MS)
            await writer.append([_event(calm.runtime, kind)])
        store = calm.store(Role.COMPACTOR)
        tier2 = EventCompactor(store, InProcessEngine(store))
        running = calm.runtime.tasks.spawn(tier2.run())
        await calm.clock.sleep(10 * MINUTE_MS + SECOND_MS)
        for _ in range(_HOURS):
            before = calm.requests()
            await calm.clock.sleep(HOUR_MS)
            counted.append(calm.requests() - before)
        running.cancel()

    simulate(story)
    most = max(counted) / len(TIER2)
    return [
        Figure(
            "an idle compactor, requests to the store an hour and domain, at most",
            f"{most:.0f}",
            promised=str(_PROMISED),
            met=0 < most <= _PROMISED,
        )
    ]


def _event(runtime: Runtime, kind: EventKind) -> Envelope:
    now, event_id = utc(runtime.clock.now_ms()), new_ulid(runtime)
    return Envelope(
        event_id=event_id,
        event_type=kind.name,
        event_version=kind.version,
        occurred_at=now,
        received_at=now,
        idempotency_key=event_id,
        source=Source("bench"),
        payload=msgspec.Raw(json.encode(kind.example)),
    )
