"""An event before it is sent, and the report of what became of events."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from arco.core import json
from arco.core.errors import ArcoError, Invalid, Unavailable

LONGEST_LINE_BYTES = 1024 * 1024  # the server's limit
MAX_REFUSED = 1_000  # refusals that are kept with their reasons; all of them are counted


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
class EncodedEvent:
    """An event as it is sent, byte for byte the same at every attempt."""

    event_id: str
    body: bytes


class EventSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """The program that sends an event, and for which task."""

    type: str
    execution_id: str | None = None
    task_name: str | None = None
    sequence: int | None = None


class _EventBody(msgspec.Struct, frozen=True, omit_defaults=True):
    event_id: str
    event_type: str
    event_version: int
    occurred_at: datetime
    source: EventSource
    payload: Mapping[str, object]
    idempotency_key: str | None = None
    trace_id: str | None = None


def encode_event(
    event: Event, *, event_id: str, source: EventSource, now: datetime
) -> EncodedEvent:
    """The event as a line, or `Invalid` for one that no server could accept."""
    occurred_at = now if event.occurred_at is None else event.occurred_at
    if occurred_at.tzinfo is None:
        raise Invalid("occurred_at has no time zone")
    envelope = _EventBody(
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
        body = json.encode(envelope)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise Invalid(f"the payload cannot be written as JSON: {problem}") from problem
    if len(body) > LONGEST_LINE_BYTES:
        raise Invalid(f"an event has at most {LONGEST_LINE_BYTES} bytes, this one has {len(body)}")
    return EncodedEvent(event_id, body)


@dataclass(frozen=True)
class Refused:
    """An event that the server does not accept, and why; sending it again would not help."""

    event_id: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What became of the events: each is in one of these figures."""

    acknowledged: int  # durable
    refused: int
    dropped: int  # never sent, since the buffer was full
    pending: int  # not acknowledged yet; after `close` it is not known whether they are stored
    refusals: tuple[Refused, ...] = ()  # the last of those refused
    problem: str | None = None  # what keeps those pending from being delivered

    @property
    def is_complete(self) -> bool:
        """Whether all events are durable."""
        return not (self.refused or self.dropped or self.pending)

    def __str__(self) -> str:
        figures = (
            f"{self.acknowledged} events acknowledged, {self.refused} refused, "
            f"{self.dropped} dropped, {self.pending} not acknowledged"
        )
        why = self.problem or (self.refusals[-1].reason if self.refusals else None)
        return figures if why is None else f"{figures}: {why}"


class BufferFull(Unavailable):
    """The buffer had no space in time: none of the events of this call was taken, so send them later."""

    code = "buffer_full"


class Undelivered(ArcoError):
    """Some events are not durable; the report has which and why."""

    code = "undelivered"

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass
class DeliveryTally:
    """The figures of a report while they grow. The owner guards it with a lock."""

    acknowledged: int = 0
    refused: int = 0
    dropped: int = 0
    problem: str | None = None
    refusals: deque[Refused] = field(default_factory=lambda: deque(maxlen=MAX_REFUSED))

    def report(self, pending: int) -> Report:
        """The figures of this moment."""
        return Report(
            acknowledged=self.acknowledged,
            refused=self.refused,
            dropped=self.dropped,
            pending=pending,
            refusals=tuple(self.refusals),
            problem=self.problem if pending else None,
        )
