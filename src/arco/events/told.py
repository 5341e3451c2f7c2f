"""Told: some events of one kind, and how they become rows.

A projection makes rows of one table, all of them at once and column by column: this is the hot path of
compaction. What it does not set is null and says nothing. Times are microseconds since 1970 in UTC.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arco.events.line import Line
from arco.fold.order import Integers, Moments, moments, orders
from arco.fold.table import Table
from arco.ledger.envelope import CountRows, EventType, RowCount

Values: TypeAlias = Sequence[Any] | pa.Array | Integers
Columns: TypeAlias = Mapping[str, Values]
P = TypeVar("P")
Q = TypeVar("Q")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def us(moment: datetime) -> int:
    """Microseconds since 1970; what lies outside the years 1 to 9999 of UTC is moved to their end."""
    return min(max((moment - _EPOCH) // _MICROSECOND, _EARLIEST), _LATEST)


def all_us(given: Sequence[datetime]) -> Integers:
    """The same of many."""
    found = [(moment - _EPOCH) // _MICROSECOND for moment in given]
    return np.clip(np.array(found, np.int64), _EARLIEST, _LATEST)


def us_or_none(moment: datetime | None) -> int | None:
    """The same of a moment that may not have been told."""
    return None if moment is None else us(moment)


def moment_of(microseconds: int) -> datetime:
    """The moment that `us` gives for."""
    return _EPOCH + timedelta(microseconds=microseconds)


@dataclass(frozen=True)
class Told(Generic[P]):
    """Some events of one kind, or parts of them: place n of each list is of the same row."""

    said: Sequence[P]  # their payloads, or what a row is made of within them
    lines: Sequence[Line]
    events: npt.NDArray[np.intp]  # the numbers of the events among those of their kind
    occurred: Integers
    moments: Moments  # what the orders of all that they say end with (P19)

    @classmethod
    def of(cls, mark: bytes, lines: Sequence[Line], said: Sequence[P]) -> "Told[P]":
        """Events of one kind, which `mark` names, and their payloads."""
        occurred = all_us([line.occurred_at for line in lines])
        at = occurred.copy()
        # The last resort of an order: all that rows are made of and the order does not name before.
        says = [
            b"".join((mark, line.payload, (line.source.execution_id or "").encode()))
            for line in lines
        ]
        ahead = [place for place, line in enumerate(lines) if line.occurred_at > line.received_at]
        for place in ahead:  # their clocks are not believed (P19)
            at[place] = us(lines[place].received_at)
            says[place] += b"\0%d" % occurred[place]
        sequences = [line.source.sequence or 0 for line in lines]
        event_ids = [line.event_id for line in lines]
        ends = moments(at, sequences, event_ids, [sha256(each).digest() for each in says])
        return cls(said, lines, np.arange(len(lines)), occurred, ends)

    def __len__(self) -> int:
        return len(self.said)

    def part(self, places: Sequence[int], said: Sequence[Q]) -> "Told[Q]":
        """Rows of some of these, in other number: for each its place here, and what it is made of."""
        return Told(
            said,
            [self.lines[place] for place in places],
            self.events[places],
            self.occurred[places],
            self.moments[places],
        )

    def spread(self, parts: Callable[[P], Iterable[Q]]) -> "Told[Q]":
        """A row for each part of each event."""
        found = [(place, part) for place, said in enumerate(self.said) for part in parts(said)]
        return self.part([place for place, _ in found], [part for _, part in found])

    def fields(self, *names: str) -> dict[str, Values]:
        """Columns that bear the names of fields of the payload, and their values."""
        return {name: self.field(name) for name in names}

    def field(self, name: str) -> list[Any]:
        """What they say in one field."""
        return list(map(attrgetter(name), self.said))

    def all(self, value: Q) -> list[Q]:
        """The same value for each."""
        return [value] * len(self.said)

    def order(
        self,
        causal: int | Sequence[int] = 0,
        rank: int | Sequence[int] = 0,
        sticky: int | Sequence[int] = 0,
        *,
        beneath: bool | Sequence[bool] = False,
    ) -> pa.Array:
        """The orders of what they say."""
        return orders(self.moments, causal, rank, sticky, beneath=beneath)

    def where(self, says: Sequence[bool], columns: Columns) -> Columns:
        """`columns` of those who say anything in them, and nulls for the others."""
        if all(says):
            return columns
        mask = pa.array(says, pa.bool_())
        return {name: pc.if_else(mask, pa.array(values), None) for name, values in columns.items()}

    def when(self, name: str) -> Values:
        """The moments of a field; those who name none mean the moment of the event."""
        named = self.field(name)
        if not any(named):
            return self.occurred
        pairs = zip(named, self.occurred.tolist(), strict=True)
        return [occurred if moment is None else us(moment) for moment, occurred in pairs]

    def execution_ids(self) -> list[str | None]:
        """The executions that they name, or that their source did."""
        return [
            named or line.source.execution_id
            for named, line in zip(self.field("execution_id"), self.lines, strict=True)
        ]


@dataclass(frozen=True)
class Rows:
    """Rows of one table, and the events that they were made of."""

    told: Told[Any]
    columns: Columns


@dataclass(frozen=True)
class Projection(Generic[P]):
    """What some events of one kind make of one table; when they occurred is put beside it by itself.

    `count` says how many rows of it an event makes at most, and how many bytes of text these repeat,
    without making them; None: one row at most, with no more text than the event has.
    """

    table: Table
    rows: Callable[[Told[P]], Rows]
    count: Callable[[P], RowCount] | None = None


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
    payload: type[P],
    *projections: Projection[P],
    example: dict[str, Any],
    version: int = 1,
    ours: bool = False,
) -> EventKind:
    """A kind of event, with projections that fit its payload."""
    counted = EventType(name, version, payload, _row_counter(projections))
    return EventKind(counted, domain, projections, example, ours)


def _row_counter(projections: tuple[Projection[P], ...]) -> CountRows:
    """Counts the rows of all tables that a payload becomes."""
    counters = [each.count for each in projections if each.count is not None]
    always = RowCount(len(projections) - len(counters))

    def count(payload: P) -> RowCount:
        total = always
        for counter in counters:
            total = total.plus(counter(payload))
        return total

    return count
