"""Projections: how events of one kind become rows of state tables.

A projection makes all rows of one table at once, column by column: this is the hot path of compaction. A
column that it does not set is null and changes nothing. Times are microseconds since 1970 in UTC.
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

from arco.events.payload import EventLine
from arco.fold.fold import Integers, OrderSuffixes, encode_order_suffixes, encode_orders
from arco.fold.table import StateTable
from arco.ledger.envelope import CountRows, EventType, RowVolume

Values: TypeAlias = Sequence[Any] | pa.Array | Integers
Columns: TypeAlias = Mapping[str, Values]
P = TypeVar("P")
Q = TypeVar("Q")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def to_micros(time: datetime) -> int:
    """Microseconds since 1970, limited to the years 1 to 9999 of UTC."""
    return min(max((time - _EPOCH) // _MICROSECOND, _EARLIEST), _LATEST)


def to_micros_or_none(time: datetime | None) -> int | None:
    """The same for a time that may be missing."""
    return None if time is None else to_micros(time)


def from_micros(microseconds: int) -> datetime:
    """The inverse of `to_micros`."""
    return _EPOCH + timedelta(microseconds=microseconds)


@dataclass(frozen=True)
class EventBatch(Generic[P]):
    """Events of one kind, or parts of them: index n of every field belongs to the same row."""

    payloads: Sequence[P]  # or the parts of payloads that rows are made of
    lines: Sequence[EventLine]
    event_numbers: npt.NDArray[np.intp]  # which of the events of the kind each row is made of
    occurred_us: Integers
    order_suffixes: OrderSuffixes  # the end of all orders of the event (P19)

    @classmethod
    def of(cls, mark: bytes, lines: Sequence[EventLine], payloads: Sequence[P]) -> "EventBatch[P]":
        """Whole events of one kind; `mark` identifies the kind."""
        micros = [(line.occurred_at - _EPOCH) // _MICROSECOND for line in lines]
        occurred_us = np.clip(np.array(micros, np.int64), _EARLIEST, _LATEST)
        at = occurred_us.copy()
        # The digest breaks ties: it covers everything that rows are made of and the order lacks.
        contents = [
            b"".join((mark, line.payload, (line.source.execution_id or "").encode()))
            for line in lines
        ]
        ahead = [index for index, line in enumerate(lines) if line.occurred_at > line.received_at]
        for index in ahead:  # a clock that is ahead of the receiver's does not win (P19)
            at[index] = to_micros(lines[index].received_at)
            contents[index] += b"\0%d" % occurred_us[index]
        sequences = [line.source.sequence or 0 for line in lines]
        event_ids = [line.event_id for line in lines]
        digests = [sha256(content).digest() for content in contents]
        suffixes = encode_order_suffixes(at, sequences, event_ids, digests)
        return cls(payloads, lines, np.arange(len(lines)), occurred_us, suffixes)

    def __len__(self) -> int:
        return len(self.payloads)

    def explode(self, parts: Callable[[P], Iterable[Q]]) -> "EventBatch[Q]":
        """A row for each part of each event."""
        exploded = [
            (index, part) for index, payload in enumerate(self.payloads) for part in parts(payload)
        ]
        indexes = [index for index, _ in exploded]
        return EventBatch(
            [part for _, part in exploded],
            [self.lines[index] for index in indexes],
            self.event_numbers[indexes],
            self.occurred_us[indexes],
            self.order_suffixes[indexes],
        )

    def fields(self, *names: str) -> dict[str, Values]:
        """Columns named as the payload fields that they hold."""
        return {name: self.field(name) for name in names}

    def field(self, name: str) -> list[Any]:
        """The values of one payload field."""
        return list(map(attrgetter(name), self.payloads))

    def repeat(self, value: Q) -> list[Q]:
        """The same value for each row."""
        return [value] * len(self.payloads)

    def order(
        self,
        causal: int | Sequence[int] = 0,
        rank: int | Sequence[int] = 0,
        sticky: int | Sequence[int] = 0,
        *,
        beneath: bool | Sequence[bool] = False,
    ) -> pa.Array:
        """The orders of the rows; see `encode_orders`."""
        return encode_orders(self.order_suffixes, causal, rank, sticky, beneath=beneath)

    def only_where(self, is_set: Sequence[bool], columns: Columns) -> Columns:
        """`columns` with nulls in the rows that do not set them."""
        if all(is_set):
            return columns
        mask = pa.array(is_set, pa.bool_())
        return {name: pc.if_else(mask, pa.array(values), None) for name, values in columns.items()}

    def times(self, name: str) -> Values:
        """A payload field of times; rows without one get the time of the event."""
        times = self.field(name)
        if not any(times):
            return self.occurred_us
        pairs = zip(times, self.occurred_us.tolist(), strict=True)
        return [occurred if time is None else to_micros(time) for time, occurred in pairs]

    def execution_ids(self) -> list[str | None]:
        """The execution that each payload names, or else the one of its source."""
        return [
            execution_id or line.source.execution_id
            for execution_id, line in zip(self.field("execution_id"), self.lines, strict=True)
        ]


@dataclass(frozen=True)
class ProjectedRows:
    """Rows of one table, and the events that they were made of."""

    batch: EventBatch[Any]
    columns: Columns


@dataclass(frozen=True)
class Projection(Generic[P]):
    """How events of one kind become rows of one table. The reader adds the column of their times.

    `count` is an upper bound of the rows that an event makes and of the text that they repeat, without
    making them. None stands for at most one row with no more text than the event has.
    """

    table: StateTable
    rows: Callable[[EventBatch[P]], ProjectedRows]
    count: Callable[[P], RowVolume] | None = None


@dataclass(frozen=True)
class EventKind:
    """One version of an event type: its payload, its domain and its projections."""

    type: EventType
    domain: str
    projections: tuple[Projection[Any], ...]
    example: dict[str, Any]  # a payload as clients send it
    is_internal: bool = False  # written by Arco only; refused from clients

    @property
    def name(self) -> str:
        return self.type.name

    @property
    def version(self) -> int:
        return self.type.version

    @property
    def summary(self) -> str:
        """One sentence that describes the event."""
        return str(self.type.payload.__doc__).partition("\n")[0]


def event_kind(
    name: str,
    domain: str,
    payload: type[P],
    *projections: Projection[P],
    example: dict[str, Any],
    version: int = 1,
    is_internal: bool = False,
) -> EventKind:
    """An event kind whose projections match the type of its payload."""
    counted = EventType(name, version, payload, _row_counter(projections))
    return EventKind(counted, domain, projections, example, is_internal)


def _row_counter(projections: tuple[Projection[P], ...]) -> CountRows:
    """A function that counts the rows of all tables that a payload becomes."""
    counters = [each.count for each in projections if each.count is not None]
    always = RowVolume(len(projections) - len(counters))

    def count(payload: P) -> RowVolume:
        total = always
        for counter in counters:
            total = total.plus(counter(payload))
        return total

    return count
