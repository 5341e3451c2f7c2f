"""Events for the scenario of Tier 2: many about few objects, by senders that are not always right.

They come twice, out of order, late or early by their own clocks, under an id that another event has, and
some cannot be read at all.
"""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from arco.core import json
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.events.registry import KINDS, EventKind
from arco.ledger.envelope import Envelope, Source

from .process import Incarnation
from .world import HOUR_MS, MINUTE_MS

_BROKEN = (b"{", b'{"event_type":"nobody_knows","event_version":1}', b"\xff")
_NAMES = {
    "execution_id": ("run-1", "run-2", "run-3"),
    "task_id": ("load", "report"),
    "table_id": ("tbl-a", "tbl-b", "tbl-c", "tbl-d"),
    "partition_values": ({"date": "2026-05-01"}, {"date": "2026-05-02"}),
    "target_table_id": ("tbl-a", "tbl-b", "tbl-c"),
    "document_id": ("doc-1", "doc-2", "doc-3"),
    "attempt": (1, 2, 3),
    "generation": (0, 1),
    "status": ("SUCCESS", "FAILED"),
}


def event(
    incarnation: Incarnation,
    name: str,
    payload: Mapping[str, Any],
    *,
    event_id: str | None = None,
    key: str | None = None,
    skew_ms: float = 0.0,
) -> bytes:
    """An event line for something that has occurred now, or `skew_ms` from now."""
    now = utc(incarnation.runtime.clock.now_ms())
    given = event_id or new_ulid(incarnation.runtime)
    return json.encode(
        Envelope(
            event_id=given,
            event_type=name,
            event_version=1,
            occurred_at=now + timedelta(milliseconds=skew_ms),
            received_at=now,
            idempotency_key=key or given,
            source=Source("sim"),
            payload=msgspec.Raw(msgspec.json.encode(payload)),
        )
    )


class Sender:
    """Makes events of a few kinds in one domain; all clients of a seed share the events made before."""

    def __init__(self, rng: random.Random, domain: str) -> None:
        self._rng = rng
        kinds = [kind for kind in KINDS if kind.domain == domain]
        self._kinds = rng.sample(kinds, min(len(kinds), rng.randint(1, 4)))
        self._sent: list[bytes] = []
        self._ids: list[str] = []

    def lines(self, incarnation: Incarnation) -> list[bytes]:
        """One call: an event or several."""
        made = [self._line(incarnation) for _ in range(self._rng.choice((1, 1, 2, 5)))]
        self._rng.shuffle(made)
        return made

    def _line(self, incarnation: Incarnation) -> bytes:
        draw = self._rng.random()
        if draw < 0.03:
            return self._rng.choice(_BROKEN)
        if draw < 0.2 and self._sent:
            return self._rng.choice(self._sent)
        kind = self._rng.choice(self._kinds)
        is_repeated = self._ids and draw < 0.3  # a sender that gives two events one id
        event_id = self._rng.choice(self._ids) if is_repeated else new_ulid(incarnation.runtime)
        made = event(
            incarnation,
            kind.name,
            self._payload(kind),
            event_id=event_id,
            key=f"{kind.name}:{self._rng.randrange(40)}",
            skew_ms=self._skew_ms(),
        )
        self._sent.append(made)
        self._ids.append(event_id)
        return made

    def _payload(self, kind: EventKind) -> dict[str, Any]:
        return kind.example | {
            name: self._rng.choice(values)
            for name, values in _NAMES.items()
            if name in kind.example
        }

    def _skew_ms(self) -> float:
        """Mostly of this moment; some come hours late, or from a clock that is wrong."""
        draw = self._rng.random()
        if draw < 0.5:
            return 0.0
        if draw < 0.8:
            return -self._rng.random() * 7 * HOUR_MS
        return self._rng.uniform(-50, 50) * MINUTE_MS
