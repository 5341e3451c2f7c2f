"""Checks of the events of a commit in the ledger.

A commit of the catalog domain names each event by segment, line and id. The events, folded again, must give
the rows of the files that the commit added. A commit of an event domain names no single event, and a later
version may fold a line that an earlier one put into quarantine: there segments are counted, not replayed.
Those folded since the oldest kept manifest must be kept, as a rebuild needs them (P20), and a seal is never
collected (P16).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa

from arco.catalog.event import CatalogChanged, read_event
from arco.catalog.manifest import Commit, CommitOperation, Counts
from arco.catalog.model import AnyRow, to_columns
from arco.compactor.manifest_checks import closed_streams
from arco.compactor.verification_report import Discrepancy, ProblemKind, VerificationCounts
from arco.core.errors import Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.fold.fold import fold
from arco.fold.tier1 import COMMIT, POSITION, TIER1
from arco.ledger.envelope import Envelope
from arco.ledger.segment import (
    MAX_BYTES,
    Segment,
    decode_event,
    decode_segment,
    parse_segment_key,
    segment_key,
)
from arco.ledger.stream import Watermark
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.store import Store

Rows = dict[str, list[AnyRow]]

_MIN_RETENTION = timedelta(milliseconds=SHORTEST_RETENTION_MS)


class EventReplay:
    """Reads the events of commits, and compares them with the operations in the commit records."""

    def __init__(self, store: Store, checked: VerificationCounts) -> None:
        self._store = store
        self._checked = checked

    async def rows(self, record: Commit, published_at: datetime) -> Rows | None:
        """The rows that the events of a commit decided; None if some events were collected."""
        segments = {
            path: await self._segment(path, record, published_at) for path in record.event_paths
        }
        rows: Rows = {}
        is_complete = True
        for operation in record.operations:
            segment = segments[operation.event_path]
            if segment is None:
                self._checked.collected += 1
                is_complete = False
                continue
            change, event_rows = _read_operation(segment, operation, record.number)
            _check_operation(change, operation, record.number)
            self._checked.events += 1
            for table, more in event_rows.items():
                rows.setdefault(table, []).extend(more)
        return rows if is_complete else None

    async def _segment(self, path: str, record: Commit, published_at: datetime) -> Segment | None:
        position = parse_segment_key(path)
        if position is None or position[0] != record.domain:
            raise _event_discrepancy(path, f"is no segment of {record.domain}", record.number)
        raw = await self._store.find(path, size_bytes=MAX_BYTES)
        if raw is None:
            # A segment that a kept commit names is not collected. It can only have been collected before
            # the commit, by a process that was suspended for longer than segments are kept.
            first = min(
                operation.at for operation in record.operations if operation.event_path == path
            )
            if published_at - first >= _MIN_RETENTION:
                return None
            raise _event_discrepancy(path, "is missing, and a commit names it", record.number)
        self._checked.bytes += len(raw)
        try:
            return decode_segment(raw, position[1], position[2])
        except Corrupt as problem:
            raise _event_discrepancy(path, str(problem), record.number) from problem


def _read_operation(
    segment: Segment, operation: CommitOperation, number: int
) -> tuple[CatalogChanged, Rows]:
    event = _event(segment, operation, number)
    stored = (event.event_id, event.idempotency_key, event.occurred_at)
    if stored != (operation.event_id, operation.request_id, operation.at):
        raise _event_discrepancy(
            operation.event_path, f"has another event in line {operation.line}", number
        )
    try:
        return read_event(event)
    except Invalid as problem:
        raise _event_discrepancy(
            operation.event_path, f"line {operation.line}: {problem}", number
        ) from problem


def _event(segment: Segment, operation: CommitOperation, number: int) -> Envelope:
    if not 1 <= operation.line <= len(segment.lines):
        raise _event_discrepancy(operation.event_path, f"has no line {operation.line}", number)
    line = segment.lines[operation.line - 1]
    if sha256_hex(line) != operation.event_sha256:
        raise _event_discrepancy(
            operation.event_path, f"has other bytes in line {operation.line}", number
        )
    try:
        return decode_event(line)
    except Invalid as problem:
        fault = f"line {operation.line} is no event: {problem}"
        raise _event_discrepancy(operation.event_path, fault, number) from problem


def _check_operation(change: CatalogChanged, operation: CommitOperation, number: int) -> None:
    in_event = (
        *(change.request_id, change.operation, change.actor),
        *(change.kind, change.object_id, change.name),
    )
    in_record = (
        operation.request_id,
        operation.operation,
        operation.actor,
        operation.kind,
        operation.object_id,
        operation.name,
    )
    if in_event != in_record:
        fault = f"has in line {operation.line} another operation than its commit record"
        raise _event_discrepancy(operation.event_path, fault, number)


def check_published_rows(record: Commit, rows: Rows, published: Mapping[str, pa.Table]) -> None:
    """`Discrepancy` if the files that a commit added do not have the rows of its events."""
    number = record.number
    first = record.event_paths[0]
    if set(rows) != set(published):
        differing = min(set(rows) ^ set(published))
        fault = f"has other tables than its commit published: they differ in {differing}"
        raise _event_discrepancy(first, fault, number)
    for name, decided in rows.items():
        table, published_rows = TIER1[name], published[name]
        stamped = [
            to_columns(row) | {COMMIT: number, POSITION: position}
            for position, row in enumerate(decided)
        ]
        refolded = fold(table, pa.Table.from_pylist(stamped, schema=table.schema))
        # Only the columns that the file has: it may be older than the newest columns.
        if not refolded.select(published_rows.column_names).equals(published_rows):
            fault = f"has other rows of {name} than its commit published"
            raise _event_discrepancy(first, fault, number)


def _event_discrepancy(path: str, fault: str, number: int) -> Discrepancy:
    return Discrepancy(ProblemKind.EVENT, path, fault, number=number)


_PARALLEL_READS = 16

SegmentPosition = tuple[str, int]


class FoldedSegmentCheck:
    """Checks the segments that commits of an event domain folded."""

    def __init__(self, store: Store, checked: VerificationCounts) -> None:
        self._store = store
        self._checked = checked

    async def check_seals(self, record: Commit, mark: Watermark) -> None:
        """`Discrepancy` if a stream left the watermark without its seal."""
        for position in closed_streams(record, mark).items():
            segment = (await self._find(position, record))[0]
            if segment is None or not segment.seal:
                fault = "is missing" if segment is None else "is no seal"
                raise _segment_discrepancy(
                    position, f"{fault}, and a commit closed its stream", record
                )

    async def check_segments(self, record: Commit, mark: Watermark) -> None:
        """`Discrepancy` if segments are missing, or have other sizes than the record counts."""
        seals = set(closed_streams(record, mark).items())
        positions = [
            (stream, seq)
            for stream, (first_seq, last_seq) in record.streams.items()
            for seq in range(first_seq, last_seq + 1)
            if (stream, seq) not in seals
        ]
        events = size_bytes = 0
        for at in range(0, len(positions), _PARALLEL_READS):
            wave = positions[at : at + _PARALLEL_READS]
            segments = await self._store.runtime.tasks.gather(
                *(self._find(position, record) for position in wave)
            )
            for position, (segment, size) in zip(wave, segments, strict=True):
                if segment is None or segment.seal:
                    fault = "is missing, and the state cannot be rebuilt without it"
                    # If the floor has reached this commit meanwhile, collecting it was right.
                    raise _segment_discrepancy(position, fault, record, manifest=record.number - 1)
                events += segment.events
                size_bytes += size
        counts = record.counts or Counts()
        if (counts.events, counts.bytes) != (events, size_bytes):
            counted = f"the commit record counts {counts.events} events in {counts.bytes} bytes"
            fault = f"and the others have {events} events in {size_bytes} bytes, and {counted}"
            raise _segment_discrepancy(positions[0], fault, record, manifest=record.number - 1)
        self._checked.events += events
        self._checked.bytes += size_bytes

    async def _find(self, position: SegmentPosition, record: Commit) -> tuple[Segment | None, int]:
        raw = await self._store.find(segment_key(record.domain, *position), size_bytes=MAX_BYTES)
        if raw is None:
            return None, 0
        try:
            return decode_segment(raw, *position), len(raw)
        except Corrupt as problem:
            raise _segment_discrepancy(position, str(problem), record) from problem


def _segment_discrepancy(
    position: SegmentPosition, fault: str, record: Commit, *, manifest: int | None = None
) -> Discrepancy:
    number = record.number if manifest is None else manifest
    return Discrepancy(
        ProblemKind.EVENT, segment_key(record.domain, *position), fault, number=number
    )
