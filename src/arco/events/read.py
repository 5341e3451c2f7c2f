"""Reading: lines of a segment become rows of the tables of state, not yet folded.

This is the hot path of compaction. Each line is decoded twice, envelope and payload, by decoders that are
made once; rows are tuples, turned into columns once for each kind and table. A line that cannot be folded
becomes a row of `quarantine`, and the lines around it are read as if it were not there (P18).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from arco.core.errors import Invalid
from arco.core.json import explain
from arco.events.kinds import ALL_TYPES, kinds_of
from arco.events.line import BROKEN, read_line
from arco.events.rejected import REJECTED_COLUMNS, Rejected, rejected
from arco.events.told import EventKind, Row, Told, moment_of, us
from arco.fold.table import Table
from arco.fold.tier2 import QUARANTINE

_NO_BOUND = -(1 << 63)

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


def read_lines(
    domain: str,
    stream: str,
    seq: int,
    lines: Sequence[bytes],
    retained_from: Mapping[str, datetime],
) -> Reading:
    """The rows that the lines of segment `seq` of `stream` make; `lines[0]` is line 1."""
    batch = _Batch(domain, {table: us(bound) for table, bound in retained_from.items()})
    plans, received = batch.plans, batch.received
    for number, line in enumerate(lines, start=1):
        try:
            event = read_line(line)
            name = event.event_type, event.event_version
            plan = plans.get(name) or batch.plan(*name)
            payload = plan.decode(event.payload)
        except BROKEN as problem:
            batch.reject(rejected(stream, seq, number, line, explain(problem)))
        except Invalid as problem:
            batch.reject(rejected(stream, seq, number, line, str(problem)))
        else:
            received.append(event.received_at)
            told = event.told(plan.mark)
            if told.occurred < plan.newest_bound:
                batch.late += plan.make_retained(told, payload)
            else:
                for rows, made in plan.makes:
                    made.extend(rows(told, payload))
    return batch.reading(len(lines))


@cache
def _decoders(domain: str) -> dict[tuple[str, int], tuple[EventKind, _Decode]]:
    return {
        name: (kind, msgspec.json.Decoder(kind.type.payload).decode)
        for name, kind in kinds_of(domain).items()
    }


class _Plan:
    """How the events of one kind are read, and the rows that they have made so far."""

    def __init__(self, kind: EventKind, decode: _Decode, bounds: Mapping[str, int]) -> None:
        self.mark = f"{kind.name}/{kind.version}".encode()
        self.decode = decode
        self.projections = kind.projections
        self.rows: list[list[Row]] = [[] for _ in kind.projections]
        self.makes = [
            (each.rows, made) for each, made in zip(kind.projections, self.rows, strict=True)
        ]
        self.bounds = [bounds.get(each.table.name, _NO_BOUND) for each in kind.projections]
        self.newest_bound = max(self.bounds)

    def make_retained(self, told: Told, payload: Any) -> bool:
        """Make the rows of those tables that still want them; True if there were others alone."""
        late = kept = 0
        for (rows, made), bound in zip(self.makes, self.bounds, strict=True):
            found = list(rows(told, payload))
            if told.occurred < bound:
                late += len(found)
            else:
                kept += len(found)
                made.extend(found)
        return late > 0 and kept == 0


class _Batch:
    """The rows of one call, by kind."""

    def __init__(self, domain: str, bounds: Mapping[str, int]) -> None:
        self._domain = domain
        self._bounds = bounds
        self._decoders = _decoders(domain)
        self.plans: dict[tuple[str, int], _Plan] = {}
        self._rejected: list[Row] = []
        self._quarantined = 0
        self.late = 0
        self.received: list[datetime] = []

    def plan(self, name: str, version: int) -> _Plan:
        """How such events are read from now on, or `Invalid` if they are not read here."""
        known = self._decoders.get((name, version))
        if known is None:
            ALL_TYPES.find(name, version)
            raise Invalid(f"events of type {name!r} do not belong into {self._domain!r}")
        kind, decode = known
        plan = self.plans[name, version] = _Plan(kind, decode, self._bounds)
        return plan

    def reject(self, row: Rejected) -> None:
        """Keep a line that cannot be folded, unless the quarantine has forgotten such old ones."""
        if row.received_at is not None:
            self.received.append(moment_of(row.received_at))
        if row.at < self._bounds.get(QUARANTINE.name, _NO_BOUND):
            self.late += 1
        else:
            self._quarantined += 1
            self._rejected.append(row)

    def reading(self, events: int) -> Reading:
        """All that was made, as tables."""
        tables: dict[str, list[pa.Table]] = {}
        for plan in self.plans.values():
            for projection, rows in zip(plan.projections, plan.rows, strict=True):
                _put(tables, projection.table, projection.columns, rows)
        _put(tables, QUARANTINE, REJECTED_COLUMNS, self._rejected)
        return Reading(
            {name: pa.concat_tables(parts) for name, parts in tables.items()},
            events,
            self.late,
            self._quarantined,
            min(self.received, default=None),
            max(self.received, default=None),
        )


def _put(
    tables: dict[str, list[pa.Table]], table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> None:
    if not rows:
        return
    values = dict(zip(columns, zip(*rows, strict=True), strict=True))
    arrays = [
        pa.array(values[column.name], column.type)
        if column.name in values
        else pa.nulls(len(rows), column.type)
        for column in table.schema
    ]
    made = pa.Table.from_arrays(arrays, schema=table.schema)
    tables.setdefault(table.name, []).append(made)
