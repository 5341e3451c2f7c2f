"""Lines of the ledger with events of pipelines."""

from datetime import UTC, datetime, timedelta

import msgspec

from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.events.registry import find_kind
from arco.ledger.envelope import Envelope, Source

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def event_line(runtime: Runtime, name: str, *, second: int = 0, **payload: object) -> bytes:
    """One event, validated."""
    raw = msgspec.json.encode(payload)
    find_kind(name, 1).type.read(raw)
    at = NOON + timedelta(seconds=second)
    event = Envelope(
        event_id=new_ulid(runtime),
        event_type=name,
        event_version=1,
        occurred_at=at,
        received_at=at,
        idempotency_key=f"{name}:{new_ulid(runtime)}",
        source=Source("test"),
        payload=msgspec.Raw(raw),
    )
    return msgspec.json.encode(event)
