"""Rejected lines: what was acknowledged and cannot be folded is kept as it is, with where and why (P18)."""

from typing import NamedTuple

import msgspec
from ulid import ULID

from arco.events.field import Moment
from arco.events.line import BROKEN
from arco.events.told import us
from arco.fold.tier2 import OCCURRED


class Rejected(NamedTuple):
    """A row of the quarantine."""

    stream: str
    segment: int
    line: int
    event_id: str | None
    event_type: str | None
    event_version: int | None
    reason: str
    body: str
    received_at: int | None
    at: int  # when it was received, or at the earliest can have been


REJECTED_COLUMNS = (*Rejected._fields[:-1], OCCURRED)


class _Scrap(msgspec.Struct, frozen=True):
    """What can be read of a line at all."""

    event_id: object = None
    event_type: object = None
    event_version: object = None
    received_at: object = None


def rejected(stream: str, seq: int, number: int, line: bytes, reason: str) -> Rejected:
    """The row of a line that cannot be folded, with what can be read of it."""
    scrap = _scrap(line)
    received = _moment(scrap.received_at)
    return Rejected(
        stream,
        seq,
        number,
        _text(scrap.event_id),
        _text(scrap.event_type),
        _integer(scrap.event_version),
        reason,
        line.decode(errors="replace"),
        received,
        _born(stream) if received is None else received,
    )


def _scrap(line: bytes) -> _Scrap:
    try:
        return msgspec.json.decode(line, type=_Scrap)
    except BROKEN:
        return _Scrap()


def _text(value: object) -> str | None:
    return value[:255] if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 2**63 else None


def _moment(value: object) -> int | None:
    try:
        return us(msgspec.convert(value, Moment))
    except BROKEN:
        return None


def _born(stream: str) -> int:
    """When the stream was opened, which is all that is known of the time of a line without one."""
    try:
        return ULID.from_str(stream).milliseconds * 1000
    except ValueError:
        return 0
