"""Lines: events as they lie in a segment, read for the fold.

Of the envelope only that is decoded of which rows are made. The rest was checked at the door, and to check
it again would cost more than to read all the rest.
"""

from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from arco.events.field import Count, Moment
from arco.events.told import Told, us
from arco.fold.order import moment

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

    def told(self, kind: bytes) -> Told:
        """What its projections are given beside the payload; `kind` names its type and version."""
        at = occurred = us(self.occurred_at)
        source = self.source
        # The last resort of an order: all that rows are made of and the order does not name before.
        digest = sha256(kind + self.payload)
        if source.execution_id is not None:
            digest.update(source.execution_id.encode())
        if self.occurred_at > self.received_at:
            digest.update(b"\0%d" % occurred)
            at = us(self.received_at)
        end = moment(at, source.sequence or 0, self.event_id, digest.digest())
        return Told(self.event_id, self.idempotency_key, occurred, source.execution_id, end)


read_line = msgspec.json.Decoder(Line).decode
