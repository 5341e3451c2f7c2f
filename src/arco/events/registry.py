"""The registry of all event kinds of Tier 2, and how many rows events become.

A declared version is readable for ever: a change that old events do not fit gets a new version beside it.

Row counts are upper bounds, found without making the rows: they cost the decoding of the payload and a few
sums. The API rejects events and batches by them, and compaction and fresh reads take as many events at a
time as their memory allows.
"""

from collections.abc import Iterable
from functools import cache, reduce

from arco.core.errors import Invalid
from arco.events import (
    execution,
    lineage,
    partition,
    quality,
    quarantine,
    schedule,
    search,
    table,
    task,
)
from arco.events.payload import DECODE_ERRORS, decode_line
from arco.events.projection import EventKind
from arco.events.quarantine import ANY_DOMAIN
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import EventType, EventTypes, RowVolume
from arco.ledger.segment import Segment

__all__ = ["ALL_TYPES", "ANY_DOMAIN", "CLIENT_TYPES", "DOMAINS", "KINDS", "EventKind"]
__all__ += ["count_line", "count_payload", "count_segment", "total_rows"]
__all__ += ["find_domain", "find_kind", "kinds_by_name"]

DOMAINS = tuple(TIER2)

KINDS: tuple[EventKind, ...] = (
    *execution.KINDS,
    *task.KINDS,
    *partition.KINDS,
    *quality.KINDS,
    *lineage.KINDS,
    *table.KINDS,
    *schedule.KINDS,
    *search.KINDS,
    *quarantine.KINDS,
)
CLIENT_TYPES = EventTypes(each.type for each in KINDS if not each.is_internal)
ALL_TYPES = EventTypes(each.type for each in KINDS)

_BY_NAME = {(each.name, each.version): each for each in KINDS}
_ONE_ROW = RowVolume(1)  # of a line that cannot be read: it is quarantined


def find_kind(name: str, version: int) -> EventKind:
    """The kind of an event, or `Invalid` if the name or the version is unknown."""
    ALL_TYPES.find(name, version)
    return _BY_NAME[(name, version)]


def find_domain(name: str) -> str:
    """The domain of events of this name."""
    domains = {each.domain for each in KINDS if each.name == name} - {ANY_DOMAIN}
    if not domains:
        raise Invalid(f"event type {name!r} belongs to no domain")
    return domains.pop()


def kinds_by_name(domain: str) -> dict[tuple[str, int], EventKind]:
    """The kinds of events that a domain may hold, by name and version."""
    return {
        (each.name, each.version): each for each in KINDS if each.domain in (domain, ANY_DOMAIN)
    }


def count_payload(event_type: EventType, payload: object) -> RowVolume:
    """The rows that a decoded payload becomes."""
    return _ONE_ROW if event_type.count_rows is None else event_type.count_rows(payload)


def count_line(line: bytes) -> RowVolume:
    """The rows that one line of a segment becomes."""
    try:
        event = decode_line(line)
        event_type = _find_type(event.event_type, event.event_version)
        return count_payload(event_type, event_type.read(event.payload))
    except (*DECODE_ERRORS, Invalid):
        return _ONE_ROW


def count_segment(segment: Segment) -> RowVolume:
    """The rows that all lines of a segment become."""
    return total_rows(count_line(line) for line in segment.lines)


def total_rows(counts: Iterable[RowVolume]) -> RowVolume:
    """The sum of row counts."""
    return reduce(RowVolume.plus, counts, RowVolume())


@cache
def _find_type(name: str, version: int) -> EventType:
    return find_kind(name, version).type
