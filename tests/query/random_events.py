"""Random events of a domain by seed, about one in twenty of which cannot be folded."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.events.registry import KINDS, EventKind
from arco.ledger.envelope import Envelope, Source

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)

# Few of each, so that events meet in rows.
_POOLS: dict[str, tuple[Any, ...]] = {
    "execution_id": ("r1", "r2", "r3", "r4"),
    "task_id": ("a", "b", "c"),
    "table_id": ("t1", "t2", "t3"),
    "attempt": (1, 2, 3),
    "document_id": ("d1", "d2", "d3"),
    "schedule_id": ("s1", "s2"),
    "backfill_id": ("b1", "b2"),
}


class Events:
    """Lines of the ledger of one domain."""

    def __init__(self, runtime: Runtime, domain: str, seed: int) -> None:
        self._runtime = runtime
        self._random = Random(seed)
        self._kinds = [kind for kind in KINDS if kind.domain == domain]

    def lines(self, count: int) -> list[bytes]:
        """So many lines; about one in twenty cannot be folded."""
        return [self._random_line() for _ in range(count)]

    def line(self, name: str, **fields: object) -> bytes:
        """One event of a kind, with some fields of its example changed."""
        [kind] = [kind for kind in self._kinds if kind.name == name]
        return self._encoded(kind, {**kind.example, **fields})

    def _random_line(self) -> bytes:
        if self._random.random() < 0.05:
            return self._random.choice((b"{}", b"not json", b'{"event_type": "unknown_type"}'))
        kind = self._random.choice(self._kinds)
        payload = dict(kind.example)
        for name in sorted(_POOLS.keys() & payload.keys()):
            payload[name] = self._random.choice(_POOLS[name])
        return self._encoded(kind, payload)

    def _encoded(self, kind: EventKind, payload: dict[str, Any]) -> bytes:
        at = NOON + timedelta(seconds=self._random.randrange(1_000))
        event = Envelope(
            event_id=new_ulid(self._runtime),
            event_type=kind.name,
            event_version=kind.version,
            occurred_at=at,
            received_at=at + timedelta(seconds=self._random.randrange(-5, 50)),
            idempotency_key=f"key {self._random.randrange(60)}",
            source=Source("test", sequence=self._random.randrange(3)),
            payload=msgspec.Raw(msgspec.json.encode(payload)),
        )
        return msgspec.json.encode(event)
