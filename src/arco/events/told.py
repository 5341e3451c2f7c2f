"""Told: what is known of an event beside its payload, and how it becomes rows.

A projection makes rows of one table of one event, as tuples for a fixed choice of columns; what it does not
set is null and says nothing. Times are microseconds since 1970 in UTC.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from arco.core.errors import Invalid
from arco.fold.order import standing
from arco.fold.table import Table
from arco.fold.tier2 import OCCURRED
from arco.ledger.envelope import EventType

Row = tuple[object, ...]
P_contra = TypeVar("P_contra", contravariant=True)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def us(moment: datetime) -> int:
    """Microseconds since 1970; what lies outside the years 1 to 9999 of UTC is moved to their end."""
    found = (moment - _EPOCH) // _MICROSECOND
    return found if _EARLIEST <= found <= _LATEST else min(max(found, _EARLIEST), _LATEST)


def moment_of(microseconds: int) -> datetime:
    """The moment that `us` gives for."""
    return _EPOCH + timedelta(microseconds=microseconds)


class Told(msgspec.Struct, frozen=True, gc=False):
    """An event without its payload."""

    event_id: str
    key: str  # its idempotency key
    occurred: int
    execution_id: str | None  # of the source, for payloads that do not name one
    moment: bytes  # what the orders of all that it says end with (P19)

    def order(self, causal: int = 0, rank: int = 0, sticky: int = 0) -> bytes:
        """The order of what it says."""
        return standing(causal, rank, sticky) + self.moment

    def when(self, moment: datetime | None) -> int:
        """A moment of the payload, or if it names none, that of the event."""
        return self.occurred if moment is None else us(moment)


@dataclass(frozen=True)
class Projection(Generic[P_contra]):
    """The rows of one table that an event makes; `rows` gives a value for each of `columns`."""

    table: Table
    columns: tuple[str, ...]
    rows: Callable[[Told, P_contra], Iterable[Row]]

    def __post_init__(self) -> None:
        odd = {*self.columns} - {*self.table.schema.names}
        lacking = {*self.table.key, OCCURRED} - {*self.columns}
        if odd or lacking:
            raise Invalid(f"{self.table.name}: {sorted(odd | lacking)} is odd or lacking")


@dataclass(frozen=True)
class EventKind:
    """One version of one kind of event: its payload, where it is kept, and what becomes of it."""

    type: EventType
    domain: str
    projections: tuple[Projection[Any], ...]
    example: dict[str, Any]  # a payload, as it is sent
    ours: bool = False  # told by Arco itself, and refused at the door

    @property
    def name(self) -> str:
        return self.type.name

    @property
    def version(self) -> int:
        return self.type.version

    @property
    def summary(self) -> str:
        """What it says, in one sentence."""
        return str(self.type.payload.__doc__).partition("\n")[0]


def kind(
    name: str,
    domain: str,
    payload: type[P_contra],
    *projections: Projection[P_contra],
    example: dict[str, Any],
    version: int = 1,
    ours: bool = False,
) -> EventKind:
    """A kind of event, with projections that fit its payload."""
    return EventKind(EventType(name, version, payload), domain, projections, example, ours)
