"""Row counts: how many rows events become, found out without making the rows.

The count is an upper bound: parts of one event that turn out to be the same row are counted each. It costs
the decoding of the payload and a few sums. The API refuses events and batches by it, and compaction and
fresh reads take as many events at a time as their memory is for.
"""

from collections.abc import Iterable
from functools import cache, reduce

from arco.core.errors import Invalid
from arco.events.kinds import kind_of
from arco.events.line import BROKEN, read_line
from arco.ledger.envelope import EventType, RowCount
from arco.ledger.segment import Segment

_ONE_ROW = RowCount(1)  # of a line that cannot be read: it goes into quarantine


def count_payload(kind: EventType, payload: object) -> RowCount:
    """The rows that a decoded payload becomes."""
    return _ONE_ROW if kind.count_rows is None else kind.count_rows(payload)


def count_line(line: bytes) -> RowCount:
    """The rows that one line of a segment becomes."""
    try:
        event = read_line(line)
        kind = _type_of(event.event_type, event.event_version)
        return count_payload(kind, kind.read(event.payload))
    except (*BROKEN, Invalid):
        return _ONE_ROW


def count_segment(segment: Segment) -> RowCount:
    """The rows that all lines of a segment become."""
    return total(count_line(line) for line in segment.lines)


def total(counts: Iterable[RowCount]) -> RowCount:
    """All of them together."""
    return reduce(RowCount.plus, counts, RowCount())


@cache
def _type_of(name: str, version: int) -> EventType:
    return kind_of(name, version).type
