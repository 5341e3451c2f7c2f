"""Reading: lines of a segment become rows of the tables of state, not yet folded.

This is the hot path of compaction. Each line is decoded twice, envelope and payload, by decoders that are
made once; then all lines of a kind become columns together, so that little is done for each value. A line
that cannot be folded becomes a row of `quarantine`, and those around it are read as if it were not there
(P18).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from arco.core.errors import Invalid
from arco.core.json import explain
from arco.events.kinds import ALL_TYPES, kinds_of
from arco.events.line import BROKEN, Line, read_all, read_line, told
from arco.events.rejected import REJECTED_COLUMNS, Rejected, rejected
from arco.events.told import Columns, EventKind, Values, moment_of, us
from arco.fold.table import Table
from arco.fold.tier2 import OCCURRED, QUARANTINE
from arco.ledger.segment import Segment

_NO_BOUND = -(1 << 63)
_REJECTED = (*BROKEN, Invalid)

_Decode = Callable[[msgspec.Raw], Any]


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
    """The rows that the lines of a segment make."""
    bounds = {table: us(bound) for table, bound in retained_from.items()}
    batch = _Batch(domain, segment, bounds)
    heaps = batch.heaps
    for number, event in enumerate(_all_at_once(segment) or batch.one_by_one(), start=1):
        if event is None:
            continue
        name = event.event_type, event.event_version
        try:
            heap = heaps.get(name) or batch.heap(*name)
            payload = heap.decode(event.payload)
        except _REJECTED as problem:
            batch.reject(number, problem)
        else:
            heap.events.append(event)
            heap.said.append(payload)
    return batch.reading()


def _all_at_once(segment: Segment) -> Sequence[Line] | None:
    """All events of a segment, unless one of its lines is anything else."""
    body = segment.body
    if body.startswith(b"\n") or b"\n\n" in body:
        return None
    try:
        events = read_all(body)
    except BROKEN:
        return None
    return events if len(events) == segment.events else None


@cache
def _decoders(domain: str) -> dict[tuple[str, int], tuple[EventKind, _Decode]]:
    return {
        name: (kind, msgspec.json.Decoder(kind.type.payload).decode)
        for name, kind in kinds_of(domain).items()
    }


class _Heap:
    """The events of one kind, and how they are read."""

    def __init__(self, kind: EventKind, decode: _Decode) -> None:
        self.kind = kind
        self.decode = decode
        self.events: list[Line] = []
        self.said: list[Any] = []

    def tables(self, bounds: Mapping[str, int]) -> tuple[list[tuple[str, pa.Table]], int]:
        """What becomes of them, by table; and how many of them come too late for all that they make."""
        mark = f"{self.kind.name}/{self.kind.version}".encode()
        events = told(mark, self.events, self.said)
        late, kept = set[int](), set[int]()
        tables = []
        for projection in self.kind.projections:
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

    def __init__(self, domain: str, segment: Segment, bounds: Mapping[str, int]) -> None:
        self._domain = domain
        self._segment = segment
        self._bounds = bounds
        self._decoders = _decoders(domain)
        self.heaps: dict[tuple[str, int], _Heap] = {}
        self._rejected: list[Rejected] = []
        self._rejected_late = 0
        self._received: list[datetime] = []

    def heap(self, name: str, version: int) -> _Heap:
        """Where such events are kept from now on, or `Invalid` if they are not read here."""
        known = self._decoders.get((name, version))
        if known is None:
            ALL_TYPES.find(name, version)
            raise Invalid(f"events of type {name!r} do not belong into {self._domain!r}")
        heap = self.heaps[name, version] = _Heap(*known)
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

    def reading(self) -> Reading:
        """All that became of them."""
        tables: dict[str, list[pa.Table]] = {}
        received, late = self._received, self._rejected_late
        for heap in (each for each in self.heaps.values() if each.events):
            received += [event.received_at for event in heap.events]
            made, too_late = heap.tables(self._bounds)
            late += too_late
            for name, rows in made:
                tables.setdefault(name, []).append(rows)
        if self._rejected:
            columns = dict(zip(REJECTED_COLUMNS, zip(*self._rejected, strict=True), strict=True))
            tables.setdefault(QUARANTINE.name, []).append(_arrow(QUARANTINE, columns))
        return Reading(
            {name: pa.concat_tables(parts) for name, parts in tables.items()},
            self._segment.events,
            late,
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
