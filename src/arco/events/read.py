"""Reading: lines of a segment become rows of the tables of state, not yet folded.

This is the hot path of compaction, so little is done for each value. All envelopes are decoded by one call,
then all payloads of a kind by another, and both become columns together. If one of them cannot be read, all
are read one by one to find out which. A line that cannot be folded becomes a row of `quarantine`, and those
around it are read as if it were not there (P18).

A few bytes can stand for many rows, so these are made part by part, each of as many as memory is for.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from arco.core.errors import Invalid
from arco.core.json import explain
from arco.events.kinds import ALL_TYPES, kinds_of
from arco.events.line import BROKEN, Line, read_all, read_line
from arco.events.rejected import REJECTED_COLUMNS, Rejected, rejected
from arco.events.row_count import count_payload, total
from arco.events.told import Columns, EventKind, Told, Values, moment_of, us
from arco.fold.table import Table
from arco.fold.tier2 import OCCURRED, QUARANTINE
from arco.ledger.envelope import RowCount
from arco.ledger.segment import Segment

_NO_BOUND = -(1 << 63)

# Of one part, which is in memory as objects of Python too. One event is never divided.
PART_ROWS = 50_000
PART_TEXT_BYTES = 32 * 1024 * 1024

_Reject = Callable[[int, Exception], None]


@dataclass(frozen=True)
class Reading:
    """What became of some lines."""

    rows: dict[str, pa.Table] = field(default_factory=dict)  # by table, only those that have rows
    events: int = 0  # lines that were read, whatever became of them
    late: int = 0  # older than all that is retained, so no rows were made of them (P20)
    quarantined: int = 0
    oldest_received: datetime | None = None
    newest_received: datetime | None = None

    @classmethod
    def joined(cls, readings: Iterable["Reading"]) -> "Reading":
        """Several readings of one domain as one."""
        parts = list(readings)
        tables: dict[str, list[pa.Table]] = {}
        for part in parts:
            for name, rows in part.rows.items():
                tables.setdefault(name, []).append(rows)
        oldest = [each.oldest_received for each in parts if each.oldest_received is not None]
        newest = [each.newest_received for each in parts if each.newest_received is not None]
        return Reading(
            {name: pa.concat_tables(rows) for name, rows in tables.items()},
            sum(each.events for each in parts),
            sum(each.late for each in parts),
            sum(each.quarantined for each in parts),
            min(oldest, default=None),
            max(newest, default=None),
        )


def read_segment(domain: str, segment: Segment, retained_from: Mapping[str, datetime]) -> Reading:
    """The rows that the lines of a segment make, all at once."""
    return DecodedSegment(domain, segment, retained_from).read()


class DecodedSegment:
    """The events of a segment, decoded: how many rows they make is known before any of them is made.

    Where only some `tables` are read, `late` counts what came too late for those.
    """

    def __init__(
        self,
        domain: str,
        segment: Segment,
        retained_from: Mapping[str, datetime],
        *,
        tables: Container[str] | None = None,
    ) -> None:
        bounds = {table: us(bound) for table, bound in retained_from.items()}
        batch = self._batch = _Batch(domain, segment, bounds, tables)
        heaps = batch.heaps
        for number, event in enumerate(_all_at_once(segment) or batch.one_by_one(), start=1):
            if event is None:
                continue
            name = event.event_type, event.event_version
            try:
                heap = heaps.get(name) or batch.heap(*name)
            except Invalid as problem:
                batch.reject(number, problem)
            else:
                heap.events.append(event)
                heap.numbers.append(number)
        self._payloads = [(heap, heap.payloads(batch.reject)) for heap in heaps.values()]

    def count_rows(self) -> RowCount:
        """How many rows `read` makes at most, and about how many bytes of text they hold."""
        counted = RowCount(self._batch.quarantined)
        for heap, payloads in self._payloads:
            for projection in heap.kind.projections:
                if not self._batch.wants(projection.table.name):
                    continue
                if projection.count is None:
                    counted = counted.plus(RowCount(len(payloads)))
                else:
                    counted = total([counted, *map(projection.count, payloads)])
        return counted

    def parts(self) -> Iterator[Reading]:
        """The rows, part by part; the last one tells of all events."""
        return self._batch.readings(self._payloads)

    def read(self) -> Reading:
        """The rows, all at once."""
        return Reading.joined(self.parts())


def reject_segment(
    domain: str, segment: Segment, retained_from: Mapping[str, datetime], reason: str
) -> Reading:
    """A segment whose lines all go into quarantine, unread, for a reason that is not in any one of them."""
    bounds = {table: us(bound) for table, bound in retained_from.items()}
    batch = _Batch(domain, segment, bounds, None)
    for number in range(1, segment.events + 1):
        batch.reject(number, Invalid(reason))
    return Reading.joined(batch.readings(()))


def _all_at_once(segment: Segment) -> Sequence[Line] | None:
    """All events of a segment, unless one of its lines is anything else."""
    try:
        events = read_all(segment.body)
    except BROKEN:
        return None
    return events if len(events) == segment.events else None


class _Kind:
    """A kind of event, and how its payloads are read."""

    def __init__(self, kind: EventKind) -> None:
        self.type = kind.type
        self.mark = f"{kind.name}/{kind.version}".encode()
        self.projections = kind.projections
        payload: Any = kind.type.payload
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(payload).decode
        self.decode_all: Callable[[bytes], list[Any]] = msgspec.json.Decoder(list[payload]).decode


@cache
def _kinds(domain: str) -> dict[tuple[str, int], _Kind]:
    return {name: _Kind(kind) for name, kind in kinds_of(domain).items()}


class _Heap:
    """The events of one kind, and the numbers of their lines."""

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.events: list[Line] = []
        self.numbers: list[int] = []

    def payloads(self, reject: _Reject) -> list[Any]:
        """What they say; who says what cannot be read is rejected, and not one of them any more."""
        try:
            return self.kind.decode_all(
                b"[%b]" % b",".join([event.payload for event in self.events])
            )
        except BROKEN:
            return self._one_by_one(reject)

    def _one_by_one(self, reject: _Reject) -> list[Any]:
        said, events = [], []
        for number, event in zip(self.numbers, self.events, strict=True):
            try:
                said.append(self.kind.decode(event.payload))
            except BROKEN as problem:
                reject(number, problem)
            else:
                events.append(event)
        self.events = events
        return said

    def parts(self, said: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """From where to where some of them make no more rows than a part may have."""
        start, made = 0, RowCount()
        for place, payload in enumerate(said):
            count = count_payload(self.kind.type, payload)
            if place > start and made.plus(count).is_above(PART_ROWS, PART_TEXT_BYTES):
                yield start, place
                start, made = place, RowCount()
            made = made.plus(count)
        if start < len(said):
            yield start, len(said)

    def tables(
        self,
        lines: Sequence[Line],
        said: Sequence[Any],
        bounds: Mapping[str, int],
        wants: Callable[[str], bool],
    ) -> tuple[list[tuple[str, pa.Table]], int]:
        """What becomes of some, by table; and how many of them come too late for all that they make."""
        events = Told.of(self.kind.mark, lines, said)
        late, kept = set[int](), set[int]()
        tables = []
        for projection in self.kind.projections:
            if not wants(projection.table.name):
                continue
            table, rows = projection.table, projection.rows(events)
            stays = rows.told.occurred >= bounds.get(table.name, _NO_BOUND)
            if stays.any():
                made = _arrow(table, {**rows.columns, OCCURRED: rows.told.occurred})
                tables.append((table.name, made if stays.all() else made.filter(pa.array(stays))))
            if bounds:
                kept.update(rows.told.events[stays].tolist())
                late.update(rows.told.events[~stays].tolist())
        return tables, len(late - kept)


class _Batch:
    """The events of a segment, by kind."""

    def __init__(
        self,
        domain: str,
        segment: Segment,
        bounds: Mapping[str, int],
        tables: Container[str] | None,
    ) -> None:
        self._domain = domain
        self._tables = tables
        self._segment = segment
        self._bounds = bounds
        self._kinds = _kinds(domain)
        self.heaps: dict[tuple[str, int], _Heap] = {}
        self._rejected: list[Rejected] = []
        self._rejected_late = 0
        self._received: list[datetime] = []

    def heap(self, name: str, version: int) -> _Heap:
        """Where such events are kept from now on, or `Invalid` if they are not read here."""
        kind = self._kinds.get((name, version))
        if kind is None:
            ALL_TYPES.find(name, version)
            raise Invalid(f"events of type {name!r} do not belong into {self._domain!r}")
        heap = self.heaps[name, version] = _Heap(kind)
        return heap

    def one_by_one(self) -> Iterator[Line | None]:
        """The events, and None for each line that is not one."""
        for number, line in enumerate(self._segment.lines, start=1):
            try:
                yield read_line(line)
            except BROKEN as problem:
                self.reject(number, problem)
                yield None

    def reject(self, number: int, problem: Exception) -> None:
        """Keep a line that cannot be folded, unless the quarantine has forgotten such old ones."""
        reason = str(problem) if isinstance(problem, Invalid) else explain(problem)
        segment, line = self._segment, self._segment.lines[number - 1]
        row = rejected(segment.stream, segment.seq, number, line, reason)
        if row.received_at is not None:
            self._received.append(moment_of(row.received_at))
        if row.at < self._bounds.get(QUARANTINE.name, _NO_BOUND):
            self._rejected_late += 1
        else:
            self._rejected.append(row)

    def wants(self, table: str) -> bool:
        """Whether rows of a table are to be made."""
        return self._tables is None or table in self._tables

    @property
    def quarantined(self) -> int:
        """How many lines could not be read, if that is asked for."""
        return len(self._rejected) if self.wants(QUARANTINE.name) else 0

    def readings(self, payloads: Iterable[tuple[_Heap, list[Any]]]) -> Iterator[Reading]:
        """All that became of them, part by part."""
        received = self._received
        for heap, said in payloads:
            received += [event.received_at for event in heap.events]
            for start, end in heap.parts(said):
                made, too_late = heap.tables(
                    heap.events[start:end], said[start:end], self._bounds, self.wants
                )
                yield Reading(rows=dict(made), late=too_late)
        rows = {}
        if self.quarantined:
            columns = dict(zip(REJECTED_COLUMNS, zip(*self._rejected, strict=True), strict=True))
            rows[QUARANTINE.name] = _arrow(QUARANTINE, columns)
        yield Reading(
            rows,
            self._segment.events,
            self._rejected_late,
            len(self._rejected),
            min(received, default=None),
            max(received, default=None),
        )


def _arrow(table: Table, columns: Columns) -> pa.Table:
    """Rows of a table, with nulls where nothing is said."""
    size = len(columns[OCCURRED])
    odd = columns.keys() - {*table.schema.names}
    if odd:
        raise KeyError(f"{table.name} has no {sorted(odd)}")
    arrays = [
        _array(columns[each.name], each.type) if each.name in columns else pa.nulls(size, each.type)
        for each in table.schema
    ]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _array(values: Values, kind: pa.DataType) -> pa.Array:
    if isinstance(values, Sequence):
        return pa.array(values, kind)
    array = pa.array(values)
    return array if array.type == kind else array.cast(kind)
