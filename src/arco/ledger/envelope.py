"""The envelope: the fields of every event around its payload, and the registry of event types.

A caller sends a `Submission`; an `Envelope` is stored, with the time of receipt of this process. Packages
declare their event types as data. A type or version that is not declared is refused, and a version that was
declared once is read for ever.
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

MAX_LINE_BYTES = 1024 * 1024

# A short event can become many rows: every input with every output. Compaction holds them in memory.
MAX_EVENT_ROWS = 100_000
MAX_EVENT_ROW_BYTES = 64 * 1024 * 1024

# Labels have no control characters. Only lines that can have some are checked: patterns of msgspec are
# matched in Python, label by label, and took longer than everything else.
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NULL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # but no escaped backslash before u0000
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The program that observed the event."""

    type: Label
    execution_id: Label | None = None
    task_name: Label | None = None
    sequence: Count | None = None


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An event as a client sends it."""

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


class RowVolume(NamedTuple):
    """How many rows compaction makes of events, and about how many bytes of text they hold."""

    rows: int = 0
    text_bytes: int = 0

    def plus(self, other: "RowVolume") -> "RowVolume":
        """The sum."""
        return RowVolume(self.rows + other.rows, self.text_bytes + other.text_bytes)

    def minus(self, other: "RowVolume") -> "RowVolume":
        """The difference."""
        return RowVolume(self.rows - other.rows, self.text_bytes - other.text_bytes)

    def fits(self, limit: "RowVolume") -> bool:
        """Whether neither number is above the limit."""
        return self.rows <= limit.rows and self.text_bytes <= limit.text_bytes

    def is_above(self, rows: int, text_bytes: int) -> bool:
        """Whether either number is above its limit."""
        return self.rows > rows or self.text_bytes > text_bytes

    def __str__(self) -> str:
        return f"{self.rows:,} rows with {self.text_bytes / 2**20:,.1f} MiB of text"


CountRows = Callable[[Any], RowVolume]  # of a payload


class TooManyRows(Invalid):
    """A batch would become more rows than one request may: nothing of it was stored."""

    code = "too_many_rows"


@dataclass(frozen=True)
class EventType:
    """One version of one event type, and the type of its payload.

    `count_rows` computes how many rows a payload becomes, without making them; None: a few, each with no
    more text than the event.
    """

    name: str
    version: int
    payload: Any  # a msgspec Struct, or any type that msgspec can decode into
    count_rows: CountRows | None = None

    @cached_property
    def read(self) -> Callable[[bytes | msgspec.Raw], Any]:
        """The decoder of the payload, built once."""
        return json.reader(self.payload)


class EventTypes:
    """All event types that a process accepts."""

    def __init__(self, types: Iterable[EventType]) -> None:
        self._types = {(each.name, each.version): each for each in types}

    def find(self, name: str, version: int) -> EventType:
        """The declared type, or `Invalid` if the name or the version is unknown."""
        event_type = self._types.get((name, version))
        if event_type is not None:
            return event_type
        versions = sorted(number for kind, number in self._types if kind == name)
        if versions:
            known_versions = ", ".join(map(str, versions))
            raise Invalid(
                f"unknown version {version} of event type {name!r} (known: {known_versions})"
            )
        raise Invalid(f"unknown event type {name!r}")


@dataclass(frozen=True)
class Stamp:
    """What all events of one batch share: the time of receipt, the id that theirs derive from, the caller.

    A repetition of a batch under the same id gives its events the same ids, and the fold absorbs them.
    """

    received_at: datetime
    batch: Ulid
    caller: str | msgspec.UnsetType = msgspec.UNSET

    def minted(self, event: "Envelope") -> bool:
        """Whether the sender gave neither a key nor an id, so that both derive from the batch."""
        return event.idempotency_key[:NUMBERED_FROM] == self.batch[:NUMBERED_FROM]


def new_stamp(
    runtime: Runtime,
    batch: Ulid | None = None,
    caller: str | msgspec.UnsetType = msgspec.UNSET,
) -> Stamp:
    """A stamp of now, for a batch that has an id already or gets a new one."""
    return Stamp(utc(runtime.clock.now_ms()), batch or new_ulid(runtime), caller)


class Admitted(NamedTuple):
    """An event that may be stored, and how many rows it becomes."""

    event: Envelope
    row_count: RowVolume


def admit(line: bytes, types: EventTypes, stamp: Stamp, number: int = 0) -> Admitted:
    """The event in `line`, the batch's event `number`, or `Invalid` with the reason."""
    if len(line) > MAX_LINE_BYTES:
        raise Invalid(f"an event has at most {MAX_LINE_BYTES} bytes, this one has {len(line)}")
    sent = _read_submission(line)
    if b"\\" in line or b"\x7f" in line:
        _refuse_control(sent)
    kind = types.find(sent.event_type, sent.event_version)
    sent_id = sent.event_id
    event_id = numbered_ulid(stamp.batch, number) if sent_id is None else parse_ulid(sent_id)
    payload, count = _check_payload(sent.payload, kind)
    json.refuse_duplicate_keys(line)
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
_ONE_ROW = RowVolume(1)


def _refuse_control(sent: Submission) -> None:
    """Refuse control characters in labels; in JSON they are escaped, except DEL."""
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


def _check_payload(raw: msgspec.Raw, kind: EventType) -> tuple[msgspec.Raw, RowVolume]:
    """The payload checked against its type and encoded again, in the form of this encoder."""
    try:
        decoded = kind.read(raw)
        payload = json.encode(decoded)
    except Invalid as problem:
        raise Invalid(f"payload of {kind.name}: {problem}") from problem
    count = _ONE_ROW if kind.count_rows is None else kind.count_rows(decoded)
    if count.is_above(MAX_EVENT_ROWS, MAX_EVENT_ROW_BYTES):
        most = RowVolume(MAX_EVENT_ROWS, MAX_EVENT_ROW_BYTES)
        raise Invalid(
            f"payload of {kind.name}: it would become {count}, and one event becomes at most {most}; "
            "split it into several events"
        )
    if b"\\u0000" in payload and _NULL.search(payload):
        raise Invalid(
            f"payload of {kind.name}: it has a null character, which no query could filter by"
        )
    return msgspec.Raw(payload), count


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError as problem:
        raise Invalid("occurred_at lies outside the years 1 to 9999") from problem
