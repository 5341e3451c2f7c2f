"""Quarantine: that a line which could not be folded was sent again and is settled.

Every domain has a quarantine of its own, so the event is kept in the domain of the line that it is about.
"""

from arco.events.field import Count, Id, Moment, Payload
from arco.events.told import EventKind, Projection, Row, Told, kind
from arco.fold.tier2 import OCCURRED, QUARANTINE

ANY_DOMAIN = "*"


class QuarantineReplayed(Payload, frozen=True, kw_only=True):
    """A line of the quarantine was sent again, and needs no more care."""

    stream: Id
    segment: Count
    line: Count
    replayed_at: Moment | None = None


def _replayed(told: Told, said: QuarantineReplayed) -> tuple[Row]:
    at = told.when(said.replayed_at)
    return ((said.stream, said.segment, said.line, at, told.occurred),)


KINDS: tuple[EventKind, ...] = (
    kind(
        "quarantine_replayed",
        ANY_DOMAIN,
        QuarantineReplayed,
        Projection(QUARANTINE, ("stream", "segment", "line", "replayed_at", OCCURRED), _replayed),
        example={"stream": "01M7FVEX5ZQ4SN3QGY2E97DMKR", "segment": 3, "line": 17},
        ours=True,
    ),
)
