"""Lines: events as they lie in a segment, read for the fold.

Of the envelope only that is decoded of which rows are made. The rest was checked at the door, and to check
it again would cost more than to read all the rest.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from arco.events.field import Count, Moment
from arco.events.told import P, Told, all_us, us
from arco.fold.order import moments

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


def told(mark: bytes, lines: Sequence[Line], said: Sequence[P]) -> Told[P]:
    """Some events of one kind, which `mark` names, and their payloads."""
    event_ids = [line.event_id for line in lines]
    executions = [line.source.execution_id for line in lines]
    sequences = [line.source.sequence or 0 for line in lines]
    occurred = all_us([line.occurred_at for line in lines])
    at = occurred.copy()
    # The last resort of an order: all that rows are made of and the order does not name before.
    says = [
        mark + line.payload + (execution or "").encode()
        for line, execution in zip(lines, executions, strict=True)
    ]
    ahead = [place for place, line in enumerate(lines) if line.occurred_at > line.received_at]
    for place in ahead:  # their clocks are not believed (P19)
        at[place] = us(lines[place].received_at)
        says[place] += b"\0%d" % occurred[place]
    return Told(
        said,
        np.arange(len(lines)),
        event_ids,
        [line.idempotency_key for line in lines],
        executions,
        occurred,
        moments(at, sequences, event_ids, [sha256(each).digest() for each in says]),
    )
