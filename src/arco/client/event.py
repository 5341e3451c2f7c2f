"""An event before it is sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from arco.core import json
from arco.core.errors import Invalid

LONGEST_LINE_BYTES = 1024 * 1024  # the server takes no longer ones


@dataclass(frozen=True)
class Event:
    """Something that happened. Without a time it happened now; without a key its id is the key."""

    type: str
    payload: Mapping[str, object] = field(default_factory=dict)
    version: int = 1
    occurred_at: datetime | None = None
    idempotency_key: str | None = None
    trace_id: str | None = None


@dataclass(frozen=True)
class Line:
    """An event as it is sent, byte by byte the same at every attempt."""

    event_id: str
    body: bytes


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who tells."""

    type: str
    execution_id: str | None = None
    task_name: str | None = None
    sequence: int | None = None


class _Sent(msgspec.Struct, frozen=True, omit_defaults=True):
    event_id: str
    event_type: str
    event_version: int
    occurred_at: datetime
    source: Source
    payload: Mapping[str, object]
    idempotency_key: str | None = None
    trace_id: str | None = None


def line_of(event: Event, *, event_id: str, source: Source, now: datetime) -> Line:
    """The event written down, or `Invalid` for what no server could take."""
    occurred_at = now if event.occurred_at is None else event.occurred_at
    if occurred_at.tzinfo is None:
        raise Invalid("occurred_at has no time zone")
    sent = _Sent(
        event_id=event_id,
        event_type=event.type,
        event_version=event.version,
        occurred_at=occurred_at,
        source=source,
        payload={name: value for name, value in event.payload.items() if value is not None},
        idempotency_key=event.idempotency_key,
        trace_id=event.trace_id,
    )
    try:
        body = json.encode(sent)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise Invalid(f"the payload cannot be written as JSON: {problem}") from problem
    if len(body) > LONGEST_LINE_BYTES:
        raise Invalid(f"an event has at most {LONGEST_LINE_BYTES} bytes, this one has {len(body)}")
    return Line(event_id, body)
