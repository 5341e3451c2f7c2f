"""Reads the lines of a segment into rows of the state tables, not yet folded.

This is the hot path of compaction, so little is done for each value. All envelopes are decoded by one call,
all payloads of a kind by another, and both become columns together. If one of them cannot be decoded, all
are decoded one by one to find it. A line that cannot be folded becomes a row of `quarantine`, and the lines
around it are read as if it did not exist (P18).

A few bytes can stand for many rows, so rows are made in parts that fit into memory.
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
from arco.events.payload import DECODE_ERRORS, EventLine, decode_line, decode_lines
from arco.events.projection import Columns, EventBatch, EventKind, Values, from_micros, to_micros
from arco.events.quarantine import QUARANTINE_COLUMNS, QuarantinedLine, quarantine_row
from arco.events.registry import ALL_TYPES, count_payload, kinds_by_name, total_rows
from arco.fold.table import StateTable
from arco.fold.tier2 import OCCURRED, QUARANTINE
from arco.ledger.envelope import RowVolume
from arco.ledger.segment import Segment

_NO_BOUND = -(1 << 63)

# Of one part, which is in memory as Python objects too. One event is never divided.
PART_ROWS = 50_000
PART_TEXT_BYTES = 32 * 1024 * 1024

_Reject = Callable[[int, Exception], None]


@dataclass(frozen=True)
class SegmentRows:
    """The rows made of some lines."""

    rows: dict[str, pa.Table] = field(default_factory=dict)  # by table, only those that have rows
    events: int = 0  # lines read, including late and quarantined ones
    late: int = 0  # events older than the retention of all their tables, which make no rows (P20)
    quarantined: int = 0
    oldest_received: datetime | None = None
    newest_received: datetime | None = None

    @classmethod
    def joined(cls, parts: Iterable["SegmentRows"]) -> "SegmentRows":
        """Several parts of one domain as one."""
        parts = list(parts)
        tables: dict[str, list[pa.Table]] = {}
        for part in parts:
            for name, rows in part.rows.items():
                tables.setdefault(name, []).append(rows)
        oldest = [each.oldest_received for each in parts if each.oldest_received is not None]
        newest = [each.newest_received for each in parts if each.newest_received is not None]
        return SegmentRows(
            {name: pa.concat_tables(rows) for name, rows in tables.items()},
            sum(each.events for each in parts),
            sum(each.late for each in parts),
            sum(each.quarantined for each in parts),
            min(oldest, default=None),
            max(newest, default=None),
        )


def read_segment(
    domain: str, segment: Segment, retained_from: Mapping[str, datetime]
) -> SegmentRows:
    """The rows of all lines of a segment."""
    return DecodedSegment(domain, segment, retained_from).read()


def reject_segment(
    domain: str, segment: Segment, retained_from: Mapping[str, datetime], reason: str
) -> SegmentRows:
    """Quarantine all lines of a segment unread, for a reason that concerns the segment."""
    reader = _SegmentReader(domain, segment, retained_from, None)
    for number in range(1, segment.events + 1):
        reader.reject(number, Invalid(reason))
    return SegmentRows.joined(reader.parts(()))


class DecodedSegment:
    """The decoded events of a segment: their rows can be counted before any of them is made.

    If only some `tables` are read, `late` counts the events that are too late for those.
    """

    def __init__(
        self,
        domain: str,
        segment: Segment,
        retained_from: Mapping[str, datetime],
        *,
        tables: Container[str] | None = None,
    ) -> None:
        reader = self._reader = _SegmentReader(domain, segment, retained_from, tables)
        groups = reader.groups
        for number, event in enumerate(_decode_all(segment) or reader.decode_each(), start=1):
            if event is None:
                continue
            name = event.event_type, event.event_version
            try:
                group = groups.get(name) or reader.add_group(*name)
            except Invalid as problem:
                reader.reject(number, problem)
            else:
                group.events.append(event)
                group.numbers.append(number)
        self._payloads = [(group, group.payloads(reader.reject)) for group in groups.values()]

    def count_rows(self) -> RowVolume:
        """An upper bound of the rows that `read` makes, and about how many bytes of text they hold."""
        counted = RowVolume(self._reader.quarantined)
        for group, payloads in self._payloads:
            for projection in group.kind.projections:
                if not self._reader.wants(projection.table.name):
                    continue
                if projection.count is None:
                    counted = counted.plus(RowVolume(len(payloads)))
                else:
                    counted = total_rows([counted, *map(projection.count, payloads)])
        return counted

    def parts(self) -> Iterator[SegmentRows]:
        """The rows in parts; the last one has the totals of all events."""
        return self._reader.parts(self._payloads)

    def read(self) -> SegmentRows:
        """All rows."""
        return SegmentRows.joined(self.parts())


def _decode_all(segment: Segment) -> Sequence[EventLine] | None:
    """All events of a segment, or None if one of its lines is not an event."""
    try:
        events = decode_lines(segment.body)
    except DECODE_ERRORS:
        return None
    return events if len(events) == segment.events else None


class _KindDecoder:
    """An event kind with the decoders of its payloads."""

    def __init__(self, kind: EventKind) -> None:
        self.type = kind.type
        self.mark = f"{kind.name}/{kind.version}".encode()
        self.projections = kind.projections
        payload: Any = kind.type.payload
        self.decode: Callable[[bytes], Any] = msgspec.json.Decoder(payload).decode
        self.decode_all: Callable[[bytes], list[Any]] = msgspec.json.Decoder(list[payload]).decode


@cache
def _decoders(domain: str) -> dict[tuple[str, int], _KindDecoder]:
    return {name: _KindDecoder(kind) for name, kind in kinds_by_name(domain).items()}


class _EventGroup:
    """The events of one kind in a segment, and their line numbers."""

    def __init__(self, kind: _KindDecoder) -> None:
        self.kind = kind
        self.events: list[EventLine] = []
        self.numbers: list[int] = []

    def payloads(self, reject: _Reject) -> list[Any]:
        """The decoded payloads. Events whose payload cannot be decoded are rejected and removed."""
        try:
            return self.kind.decode_all(
                b"[%b]" % b",".join([event.payload for event in self.events])
            )
        except DECODE_ERRORS:
            return self._decode_each(reject)

    def _decode_each(self, reject: _Reject) -> list[Any]:
        payloads, events = [], []
        for number, event in zip(self.numbers, self.events, strict=True):
            try:
                payloads.append(self.kind.decode(event.payload))
            except DECODE_ERRORS as problem:
                reject(number, problem)
            else:
                events.append(event)
        self.events = events
        return payloads

    def part_ranges(self, payloads: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """Start and end of runs of events that make no more rows than a part may have."""
        start, volume = 0, RowVolume()
        for index, payload in enumerate(payloads):
            count = count_payload(self.kind.type, payload)
            if index > start and volume.plus(count).is_above(PART_ROWS, PART_TEXT_BYTES):
                yield start, index
                start, volume = index, RowVolume()
            volume = volume.plus(count)
        if start < len(payloads):
            yield start, len(payloads)

    def project(
        self,
        lines: Sequence[EventLine],
        payloads: Sequence[Any],
        bounds: Mapping[str, int],
        wants: Callable[[str], bool],
    ) -> tuple[list[tuple[str, pa.Table]], int]:
        """The rows of some events by table, and how many events are too late for all their tables."""
        batch = EventBatch.of(self.kind.mark, lines, payloads)
        late_events, retained_events = set[int](), set[int]()
        tables = []
        for projection in self.kind.projections:
            if not wants(projection.table.name):
                continue
            table, rows = projection.table, projection.rows(batch)
            stays = rows.batch.occurred_us >= bounds.get(table.name, _NO_BOUND)
            if stays.any():
                arrow_table = _to_arrow(table, {**rows.columns, OCCURRED: rows.batch.occurred_us})
                if not stays.all():
                    arrow_table = arrow_table.filter(pa.array(stays))
                tables.append((table.name, arrow_table))
            if bounds:
                retained_events.update(rows.batch.event_numbers[stays].tolist())
                late_events.update(rows.batch.event_numbers[~stays].tolist())
        return tables, len(late_events - retained_events)


class _SegmentReader:
    """The events of a segment by kind, and the lines that were rejected."""

    def __init__(
        self,
        domain: str,
        segment: Segment,
        retained_from: Mapping[str, datetime],
        tables: Container[str] | None,
    ) -> None:
        self._domain = domain
        self._tables = tables
        self._segment = segment
        self._bounds = {table: to_micros(bound) for table, bound in retained_from.items()}
        self._decoders = _decoders(domain)
        self.groups: dict[tuple[str, int], _EventGroup] = {}
        self._rejected: list[QuarantinedLine] = []
        self._rejected_late = 0
        self._received: list[datetime] = []

    def add_group(self, name: str, version: int) -> _EventGroup:
        """A new group for events of a kind, or `Invalid` if the domain does not hold such events."""
        kind = self._decoders.get((name, version))
        if kind is None:
            ALL_TYPES.find(name, version)
            raise Invalid(f"events of type {name!r} do not belong into {self._domain!r}")
        group = self.groups[name, version] = _EventGroup(kind)
        return group

    def decode_each(self) -> Iterator[EventLine | None]:
        """The events line by line, and None for each rejected line."""
        for number, line in enumerate(self._segment.lines, start=1):
            try:
                yield decode_line(line)
            except DECODE_ERRORS as problem:
                self.reject(number, problem)
                yield None

    def reject(self, number: int, problem: Exception) -> None:
        """Quarantine a line that cannot be folded, unless it is older than the quarantine retains."""
        reason = str(problem) if isinstance(problem, Invalid) else explain(problem)
        segment, line = self._segment, self._segment.lines[number - 1]
        row = quarantine_row(segment.stream, segment.seq, number, line, reason)
        if row.received_at is not None:
            self._received.append(from_micros(row.received_at))
        if row.at < self._bounds.get(QUARANTINE.name, _NO_BOUND):
            self._rejected_late += 1
        else:
            self._rejected.append(row)

    def wants(self, table: str) -> bool:
        """Whether rows of a table are to be made."""
        return self._tables is None or table in self._tables

    @property
    def quarantined(self) -> int:
        """The number of rows of `quarantine` to be made."""
        return len(self._rejected) if self.wants(QUARANTINE.name) else 0

    def parts(self, grouped: Iterable[tuple[_EventGroup, list[Any]]]) -> Iterator[SegmentRows]:
        """The rows in parts; the last one has the totals of all events."""
        received = self._received
        for group, payloads in grouped:
            received += [event.received_at for event in group.events]
            for start, end in group.part_ranges(payloads):
                tables, late = group.project(
                    group.events[start:end], payloads[start:end], self._bounds, self.wants
                )
                yield SegmentRows(rows=dict(tables), late=late)
        rows = {}
        if self.quarantined:
            columns = dict(zip(QUARANTINE_COLUMNS, zip(*self._rejected, strict=True), strict=True))
            rows[QUARANTINE.name] = _to_arrow(QUARANTINE, columns)
        yield SegmentRows(
            rows,
            self._segment.events,
            self._rejected_late,
            len(self._rejected),
            min(received, default=None),
            max(received, default=None),
        )


def _to_arrow(table: StateTable, columns: Columns) -> pa.Table:
    """Rows of a table, with nulls in the columns that are not given."""
    size = len(columns[OCCURRED])
    unknown = columns.keys() - {*table.schema.names}
    if unknown:
        raise KeyError(f"{table.name} has no {sorted(unknown)}")
    arrays = [
        _to_array(columns[each.name], each.type)
        if each.name in columns
        else pa.nulls(size, each.type)
        for each in table.schema
    ]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _to_array(values: Values, kind: pa.DataType) -> pa.Array:
    if isinstance(values, Sequence):
        return pa.array(values, kind)
    array = pa.array(values)
    return array if array.type == kind else array.cast(kind)
