"""Field types of event payloads with their bounds, and events as they are stored in a segment.

The decoder checks the bounds, when an event is accepted and again when it is folded. There are no patterns:
they would cost more than decoding the rest of the event. For the fold only the envelope fields that rows
need are decoded; the others were checked when the event was accepted.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from arco.core import json

Id = Annotated[str, Meta(min_length=1, max_length=255)]
Text = Annotated[str, Meta(max_length=4_096)]
Message = Annotated[str, Meta(max_length=65_536)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Attempt = Annotated[int, Meta(ge=1, le=2**31)]
Timestamp = Annotated[datetime, Meta(tz=True)]
Ids = Annotated[tuple[Id, ...], Meta(max_length=10_000)]
Key = Annotated[str, Meta(max_length=4_096)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=10_000)]
Values = Annotated[dict[Id, Annotated[str, Meta(max_length=1_024)]], Meta(max_length=64)]
Metrics = Annotated[
    dict[Id, Annotated[str, Meta(max_length=4_096)] | int | float | bool], Meta(max_length=1_000)
]

CheckType = Literal[
    "FRESHNESS",
    "ROW_COUNT",
    "NULL_CHECK",
    "UNIQUE_CHECK",
    "RANGE_CHECK",
    "CUSTOM_SQL",
    "SCHEMA_MATCH",
]

DECODE_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class Payload(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """The content of an event. docs/reference/event-types.md shows the first line of each docstring."""


class ColumnProfile(Payload, frozen=True, kw_only=True):
    """The profile of one column; values are sent as text."""

    column_id: Id
    column_name: Id | None = None
    row_count: Count | None = None
    null_count: Count | None = None
    distinct_count: Count | None = None
    min_value: Text | None = None
    max_value: Text | None = None
    size_bytes: Count | None = None


class EventLineSource(msgspec.Struct, frozen=True, gc=False):
    """The fields of an event's source that rows need."""

    sequence: Count | None = None
    execution_id: str | None = None


class EventLine(msgspec.Struct, frozen=True, gc=False):
    """An event of a segment, with its payload not yet decoded."""

    event_id: Annotated[str, Meta(min_length=26, max_length=26)]
    event_type: str
    event_version: int
    occurred_at: Timestamp
    received_at: Timestamp
    idempotency_key: str
    source: EventLineSource
    payload: msgspec.Raw


_DECODER = msgspec.json.Decoder(EventLine)
decode_line, decode_lines = _DECODER.decode, _DECODER.decode_lines


def metrics_as_text(metrics: dict[str, str | int | float | bool]) -> list[tuple[str, str]]:
    """Metrics as a map of texts; numbers and booleans as JSON spells them."""
    return [
        (name, value if isinstance(value, str) else json.encode(value).decode())
        for name, value in metrics.items()
    ]
