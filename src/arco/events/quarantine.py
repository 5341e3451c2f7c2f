"""Quarantine: acknowledged lines that cannot be folded, and the event that marks one as replayed (P18).

A line is kept as it was sent, with its position and the reason. Every domain has a quarantine table, so the
event is written to the domain of the line.
"""

from typing import NamedTuple

import msgspec
from ulid import ULID

from arco.events.payload import DECODE_ERRORS, Count, Id, Payload, Timestamp
from arco.events.projection import (
    EventBatch,
    EventKind,
    ProjectedRows,
    Projection,
    event_kind,
    to_micros,
)
from arco.fold.tier2 import OCCURRED, QUARANTINE

ANY_DOMAIN = "*"


class QuarantineReplayed(Payload, frozen=True, kw_only=True):
    """A quarantined line was sent again and is settled."""

    stream: Id
    segment: Count
    line: Count
    replayed_at: Timestamp | None = None


def _replayed(batch: EventBatch[QuarantineReplayed]) -> ProjectedRows:
    lines = batch.fields("stream", "segment", "line")
    return ProjectedRows(batch, {**lines, "replayed_at": batch.times("replayed_at")})


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "quarantine_replayed",
        ANY_DOMAIN,
        QuarantineReplayed,
        Projection(QUARANTINE, _replayed),
        example={"stream": "01M7FVEX5ZQ4SN3QGY2E97DMKR", "segment": 3, "line": 17},
        is_internal=True,
    ),
)


class QuarantinedLine(NamedTuple):
    """A row of the quarantine table."""

    stream: str
    segment: int
    line: int
    event_id: str | None
    event_type: str | None
    event_version: int | None
    reason: str
    body: str
    received_at: int | None
    at: int  # when it was received, or the earliest possible time


QUARANTINE_COLUMNS = (*QuarantinedLine._fields[:-1], OCCURRED)


class _ReadableFields(msgspec.Struct, frozen=True):
    """The fields of a line, whatever their types."""

    event_id: object = None
    event_type: object = None
    event_version: object = None
    received_at: object = None


def quarantine_row(stream: str, seq: int, number: int, line: bytes, reason: str) -> QuarantinedLine:
    """The row of a line that cannot be folded, with the fields that can be read."""
    fields = _readable_fields(line)
    received_us = _time(fields.received_at)
    return QuarantinedLine(
        stream,
        seq,
        number,
        _text(fields.event_id),
        _text(fields.event_type),
        _integer(fields.event_version),
        reason,
        line.decode(errors="replace"),
        received_us,
        _stream_opened_us(stream) if received_us is None else received_us,
    )


def _readable_fields(line: bytes) -> _ReadableFields:
    try:
        return msgspec.json.decode(line, type=_ReadableFields)
    except DECODE_ERRORS:
        return _ReadableFields()


def _text(value: object) -> str | None:
    return value[:255] if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 2**63 else None


def _time(value: object) -> int | None:
    try:
        return to_micros(msgspec.convert(value, Timestamp))
    except DECODE_ERRORS:
        return None


def _stream_opened_us(stream: str) -> int:
    """When the stream was opened: a lower bound for a line without a readable time."""
    try:
        return ULID.from_str(stream).milliseconds * 1000
    except ValueError:
        return 0
