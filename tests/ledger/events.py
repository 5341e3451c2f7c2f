"""Events for tests: two types, one of them in two versions."""

import msgspec

from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import Envelope, EventType, EventTypes, RowCount, Source


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: str
    attempt: int = 1


class Note(msgspec.Struct, frozen=True):
    text: str


class Spread(msgspec.Struct, frozen=True):
    """A few bytes that become many rows."""

    rows: int
    text_bytes: int = 0


def _count(spread: Spread) -> RowCount:
    return RowCount(spread.rows, spread.text_bytes)


TYPES = EventTypes(
    [
        EventType("task_started", 1, Started),
        EventType("task_started", 2, Started),
        EventType("note", 1, Note),
        EventType("spread", 1, Spread, _count),
    ]
)

LINE = (
    b'{"event_type":"task_started","event_version":1,"occurred_at":"2026-05-01T10:00:00+02:00",'
    b'"source":{"type":"test"},"payload":{"task":"a"}}'
)


def note(runtime: Runtime, text: str = "hello") -> Envelope:
    now = utc(runtime.clock.now_ms())
    return Envelope(
        event_id=new_ulid(runtime),
        event_type="note",
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=text,
        source=Source("test"),
        payload=msgspec.Raw(msgspec.json.encode(Note(text))),
    )
