"""Quarantine: that a line which could not be folded was sent again and is settled.

Every domain has a quarantine of its own, so the event is kept in the domain of the line that it is about.
"""

from arco.events.field import Count, Id, Moment, Payload
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import QUARANTINE

ANY_DOMAIN = "*"


class QuarantineReplayed(Payload, frozen=True, kw_only=True):
    """A line of the quarantine was sent again, and needs no more care."""

    stream: Id
    segment: Count
    line: Count
    replayed_at: Moment | None = None


def _replayed(told: Told[QuarantineReplayed]) -> Rows:
    lines = told.fields("stream", "segment", "line")
    return Rows(told, {**lines, "replayed_at": told.when("replayed_at")})


KINDS: tuple[EventKind, ...] = (
    kind(
        "quarantine_replayed",
        ANY_DOMAIN,
        QuarantineReplayed,
        Projection(QUARANTINE, _replayed),
        example={"stream": "01M7FVEX5ZQ4SN3QGY2E97DMKR", "segment": 3, "line": 17},
        ours=True,
    ),
)
