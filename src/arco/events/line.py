"""Lines: events as they lie in a segment, read for the fold.

Of the envelope only that is decoded of which rows are made. The rest was checked at the door, and to check
it again would cost more than to read all the rest.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from arco.events.field import Count, Moment

BROKEN = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class Seen(msgspec.Struct, frozen=True, gc=False):
    """Who saw it happen, as far as rows are made of it."""

    sequence: Count | None = None
    execution_id: str | None = None


class Line(msgspec.Struct, frozen=True, gc=False):
    """An event."""

    event_id: Annotated[str, Meta(min_length=26, max_length=26)]
    event_type: str
    event_version: int
    occurred_at: Moment
    received_at: Moment
    idempotency_key: str
    source: Seen
    payload: msgspec.Raw


_LINES = msgspec.json.Decoder(Line)
read_line, read_all = _LINES.decode, _LINES.decode_lines
