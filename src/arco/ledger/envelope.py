"""The envelope: what every event carries around its payload, and which payloads there are.

What a caller sends is a `Submission`; what is stored is an `Envelope`, in which the time of receipt
is ours. Types are declared as data by the rooms that own them; a type or version that nobody has
declared is refused at the door, and versions once declared are read for ever.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import msgspec

from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.core.ids import NUMBERED_FROM, Ulid, new_ulid, numbered_ulid, parse_ulid
from arco.core.runtime import Runtime

LONGEST_LINE_BYTES = 1024 * 1024

# A short event can stand for many rows: every input with every output. Compaction has to hold them.
MOST_EVENT_ROWS = 100_000
MOST_EVENT_ROW_BYTES = 64 * 1024 * 1024

# Labels hold no control characters. That is looked for only in lines that can have some: patterns of
# msgspec are matched in Python, label by label, and took longer than all the rest.
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NULL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # and no backslash that is one
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Who saw the event happen."""

    type: Label
    execution_id: Label | None = None
    task_name: Label | None = None
    sequence: Count | None = None


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An event as it is sent to us."""

    event_type: Label
    event_version: Annotated[int, msgspec.Meta(ge=1, le=1_000)]
    occurred_at: Moment
    source: Source
    payload: msgspec.Raw
    event_id: str | None = None
    idempotency_key: Label | None = None
    trace_id: Label | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as it is stored, one line of a segment; see docs/reference/formats/."""

    event_id: str
    event_type: str
    event_version: int
    occurred_at: datetime
    received_at: datetime
    idempotency_key: str
    source: Source
    trace_id: str | None = None
    payload: msgspec.Raw
    caller: str | msgspec.UnsetType = msgspec.UNSET  # the principal whose request it comes from


class RowCount(NamedTuple):
    """How many rows compaction makes of something, and about how many bytes of text they hold."""

    rows: int = 0
    text_bytes: int = 0

    def plus(self, other: "RowCount") -> "RowCount":
        """Both together."""
        return RowCount(self.rows + other.rows, self.text_bytes + other.text_bytes)

    def minus(self, other: "RowCount") -> "RowCount":
        """What is left of it."""
        return RowCount(self.rows - other.rows, self.text_bytes - other.text_bytes)

    def fits(self, room: "RowCount") -> bool:
        """Whether neither of both is more than there is room for."""
        return self.rows <= room.rows and self.text_bytes <= room.text_bytes

    def is_above(self, rows: int, text_bytes: int) -> bool:
        """Whether it is more than either of these."""
        return self.rows > rows or self.text_bytes > text_bytes

    def __str__(self) -> str:
        return f"{self.rows:,} rows with {self.text_bytes / 2**20:,.1f} MiB of text"


CountRows = Callable[[Any], RowCount]  # of a payload


class TooManyRows(Invalid):
    """A batch would become more rows than one request may bring: nothing of it was stored."""

    code = "too_many_rows"


@dataclass(frozen=True)
class EventType:
    """One version of one kind of event, and what its payload must be.

    `count_rows` says how many rows a payload becomes, without making them; None: a few, each of which
    holds no more text than the event.
    """

    name: str
    version: int
    payload: Any  # a msgspec Struct, or any type that msgspec can decode into
    count_rows: CountRows | None = None

    @cached_property
    def read(self) -> Callable[[bytes | msgspec.Raw], Any]:
        """The decoder of the payload, made once."""
        return json.reader(self.payload)


class EventTypes:
    """All event types that a process knows."""

    def __init__(self, types: Iterable[EventType]) -> None:
        self._types = {(each.name, each.version): each for each in types}

    def find(self, name: str, version: int) -> EventType:
        """The declared type, or `Invalid` with what is unknown about it."""
        found = self._types.get((name, version))
        if found is not None:
            return found
        versions = sorted(known for kind, known in self._types if kind == name)
        if versions:
            known = ", ".join(map(str, versions))
            raise Invalid(f"unknown version {version} of event type {name!r} (known: {known})")
        raise Invalid(f"unknown event type {name!r}")


@dataclass(frozen=True)
class Stamp:
    """What all events of one batch get from us: the time of receipt, ids that follow from one, the caller.

    Whoever repeats a batch under the same id gives its events the same ids again, and the fold takes them
    for the same events.
    """

    received_at: datetime
    batch: Ulid
    caller: str | msgspec.UnsetType = msgspec.UNSET

    def minted(self, event: "Envelope") -> bool:
        """Whether the sender gave neither a key nor an id, so that both are of our making."""
        return event.idempotency_key[:NUMBERED_FROM] == self.batch[:NUMBERED_FROM]


def new_stamp(
    runtime: Runtime,
    batch: Ulid | None = None,
    caller: str | msgspec.UnsetType = msgspec.UNSET,
) -> Stamp:
    """A stamp of this moment, for a batch that has its id already or gets a new one."""
    return Stamp(utc(runtime.clock.now_ms()), batch or new_ulid(runtime), caller)


class Admitted(NamedTuple):
    """An event that may be stored, and how many rows it becomes."""

    event: Envelope
    row_count: RowCount


def admit(line: bytes, types: EventTypes, stamp: Stamp, number: int = 0) -> Admitted:
    """The event in `line`, the batch's event `number`, or `Invalid` with the reason."""
    if len(line) > LONGEST_LINE_BYTES:
        raise Invalid(f"an event has at most {LONGEST_LINE_BYTES} bytes, this one has {len(line)}")
    sent = _read_submission(line)
    if b"\\" in line or b"\x7f" in line:
        _refuse_control(sent)
    kind = types.find(sent.event_type, sent.event_version)
    given = sent.event_id
    event_id = numbered_ulid(stamp.batch, number) if given is None else parse_ulid(given)
    payload, count = _payload(sent.payload, kind)
    event = Envelope(
        event_id=event_id,
        event_type=sent.event_type,
        event_version=sent.event_version,
        occurred_at=_in_utc(sent.occurred_at),
        received_at=stamp.received_at,
        idempotency_key=sent.idempotency_key or event_id,
        source=sent.source,
        trace_id=sent.trace_id,
        payload=payload,
        caller=stamp.caller,
    )
    return Admitted(event, count)


_read_submission = json.reader(Submission)
_ONE_ROW = RowCount(1)


def _refuse_control(sent: Submission) -> None:
    """JSON has control characters in strings only as escapes, but for DEL."""
    source = sent.source
    labels = {
        "event_type": sent.event_type,
        "idempotency_key": sent.idempotency_key,
        "trace_id": sent.trace_id,
        "source.type": source.type,
        "source.execution_id": source.execution_id,
        "source.task_name": source.task_name,
    }
    for name, text in labels.items():
        if text is not None and _CONTROL.search(text):
            raise Invalid(f"a control character in {name}")


def _payload(raw: msgspec.Raw, kind: EventType) -> tuple[msgspec.Raw, RowCount]:
    """The payload checked against its type, and written anew so that no oddity of the sender stays."""
    try:
        decoded = kind.read(raw)
        payload = json.encode(decoded)
    except Invalid as problem:
        raise Invalid(f"payload of {kind.name}: {problem}") from problem
    count = _ONE_ROW if kind.count_rows is None else kind.count_rows(decoded)
    if count.is_above(MOST_EVENT_ROWS, MOST_EVENT_ROW_BYTES):
        most = RowCount(MOST_EVENT_ROWS, MOST_EVENT_ROW_BYTES)
        raise Invalid(
            f"payload of {kind.name}: it would become {count}, and one event becomes at most {most}; "
            "split it into several events"
        )
    if b"\\u0000" in payload and _NULL.search(payload):
        raise Invalid(f"payload of {kind.name}: a null character, which no query could ask for")
    return msgspec.Raw(payload), count


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError as problem:
        raise Invalid("occurred_at lies outside the years 1 to 9999") from problem
