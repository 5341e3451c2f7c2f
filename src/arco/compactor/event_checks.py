"""The events of a commit, held against its deeds and against the rows that it has published.

A commit names each event by its segment, line and id. What the events say, folded once more, must be the
rows of the files that the commit has added: published state is what was decided, and nothing else.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa

from arco.catalog.event import CatalogChanged, read_event
from arco.catalog.manifest import Commit, Counts, Deed
from arco.catalog.model import AnyRow, to_columns
from arco.compactor.manifest_checks import closed_streams
from arco.compactor.verification_report import Discrepancy, ProblemKind, VerificationCounts
from arco.core.errors import Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.fold.fold import fold
from arco.fold.tier1 import COMMIT, POSITION, TIER1
from arco.ledger.envelope import Envelope
from arco.ledger.segment import (
    LARGEST_BYTES,
    Segment,
    decode_event,
    decode_segment,
    parse_segment_key,
    segment_key,
)
from arco.ledger.watermark import Watermark
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.store import Store

Rows = dict[str, list[AnyRow]]

_SHORTEST = timedelta(milliseconds=SHORTEST_RETENTION_MS)


class EventReplay:
    """Reads the events of one commit after the other."""

    def __init__(self, store: Store, checked: VerificationCounts) -> None:
        self._store = store
        self._checked = checked

    async def rows(self, record: Commit, published_at: datetime) -> Rows | None:
        """The rows that the events of a commit have decided; None if some were collected."""
        segments = {
            path: await self._segment(path, record, published_at) for path in record.event_paths
        }
        rows: Rows = {}
        is_whole = True
        for deed in record.deeds:
            segment = segments[deed.event_path]
            if segment is None:
                self._checked.collected += 1
                is_whole = False
                continue
            said, its_rows = _read_operation(segment, deed, record.number)
            _check_deed(said, deed, record.number)
            self._checked.events += 1
            for table, more in its_rows.items():
                rows.setdefault(table, []).extend(more)
        return rows if is_whole else None

    async def _segment(self, path: str, record: Commit, published_at: datetime) -> Segment | None:
        place = parse_segment_key(path)
        if place is None or place[0] != record.domain:
            raise _event_discrepancy(path, f"is no segment of {record.domain}", record.number)
        raw = await self._store.find(path, size_bytes=LARGEST_BYTES)
        if raw is None:
            # A segment that a kept commit names is not collected. It can only have gone before the
            # commit was there: its process slept for longer than any segment is sure to be kept.
            first = min(deed.at for deed in record.deeds if deed.event_path == path)
            if published_at - first >= _SHORTEST:
                return None
            raise _event_discrepancy(path, "is missing, and a commit names it", record.number)
        self._checked.bytes += len(raw)
        try:
            return decode_segment(raw, place[1], place[2])
        except Corrupt as problem:
            raise _event_discrepancy(path, str(problem), record.number) from problem


def _read_operation(segment: Segment, deed: Deed, number: int) -> tuple[CatalogChanged, Rows]:
    event = _event(segment, deed, number)
    found = (event.event_id, event.idempotency_key, event.occurred_at)
    if found != (deed.event_id, deed.request_id, deed.at):
        raise _event_discrepancy(deed.event_path, f"has another event in line {deed.line}", number)
    try:
        return read_event(event)
    except Invalid as problem:
        raise _event_discrepancy(
            deed.event_path, f"line {deed.line}: {problem}", number
        ) from problem


def _event(segment: Segment, deed: Deed, number: int) -> Envelope:
    if not 1 <= deed.line <= len(segment.lines):
        raise _event_discrepancy(deed.event_path, f"has no line {deed.line}", number)
    line = segment.lines[deed.line - 1]
    if sha256_hex(line) != deed.event_sha256:
        raise _event_discrepancy(deed.event_path, f"has other bytes in line {deed.line}", number)
    try:
        return decode_event(line)
    except Invalid as problem:
        fault = f"line {deed.line} is no event: {problem}"
        raise _event_discrepancy(deed.event_path, fault, number) from problem


def _check_deed(said: CatalogChanged, deed: Deed, number: int) -> None:
    told = (said.request_id, said.operation, said.actor, said.kind, said.object_id, said.name)
    done = (deed.request_id, deed.operation, deed.actor, deed.kind, deed.object_id, deed.name)
    if told != done:
        fault = f"does not say in line {deed.line} what its commit record says"
        raise _event_discrepancy(deed.event_path, fault, number)


def check_published_rows(record: Commit, rows: Rows, published: Mapping[str, pa.Table]) -> None:
    """`Wrong` if the rows of the files that a commit has added are not those of its events."""
    number = record.number
    first = record.event_paths[0]
    if set(rows) != set(published):
        odd = min(set(rows) ^ set(published))
        raise _event_discrepancy(
            first, f"and what its commit has published differ in table {odd}", number
        )
    for name, decided in rows.items():
        table, found = TIER1[name], published[name]
        stamped = [
            to_columns(row) | {COMMIT: number, POSITION: position}
            for position, row in enumerate(decided)
        ]
        again = fold(table, pa.Table.from_pylist(stamped, schema=table.schema))
        # Only the columns that the file has: it may be older than the newest of them.
        if not again.select(found.column_names).equals(found):
            fault = f"has other rows of {name} than its commit has published"
            raise _event_discrepancy(first, fault, number)


def _event_discrepancy(path: str, fault: str, number: int) -> Discrepancy:
    return Discrepancy(ProblemKind.EVENT, path, fault, number=number)


_AT_ONCE = 16

Place = tuple[str, int]


class FoldedSegmentCheck:
    """Checks one commit after the other."""

    def __init__(self, store: Store, checked: VerificationCounts) -> None:
        self._store = store
        self._checked = checked

    async def check_seals(self, record: Commit, mark: Watermark) -> None:
        """`Wrong` if a stream has left the watermark without its seal."""
        for place in closed_streams(record, mark).items():
            segment = (await self._find(place, record))[0]
            if segment is None or not segment.seal:
                fault = "is missing" if segment is None else "is no seal"
                raise _segment_discrepancy(
                    place, f"{fault}, and a commit has closed its stream", record
                )

    async def check_segments(self, record: Commit, mark: Watermark) -> None:
        """`Wrong` if segments are missing, or have other sizes than were counted."""
        seals = set(closed_streams(record, mark).items())
        places = [
            (stream, seq)
            for stream, (first, last) in record.streams.items()
            for seq in range(first, last + 1)
            if (stream, seq) not in seals
        ]
        events = size_bytes = 0
        for at in range(0, len(places), _AT_ONCE):
            wave = places[at : at + _AT_ONCE]
            found = await self._store.runtime.tasks.gather(
                *(self._find(place, record) for place in wave)
            )
            for place, (segment, size) in zip(wave, found, strict=True):
                if segment is None or segment.seal:
                    fault = "is missing, and the state cannot be made anew without it"
                    # If the floor has come up to this commit, it was rightly collected.
                    raise _segment_discrepancy(place, fault, record, led_by=record.number - 1)
                events += segment.events
                size_bytes += size
        counts = record.counts or Counts()
        if (counts.events, counts.bytes) != (events, size_bytes):
            told = f"{counts.events} events in {counts.bytes} bytes were folded"
            fault = f"and its likes have {events} events in {size_bytes} bytes, but {told}"
            raise _segment_discrepancy(places[0], fault, record, led_by=record.number - 1)
        self._checked.events += events
        self._checked.bytes += size_bytes

    async def _find(self, place: Place, record: Commit) -> tuple[Segment | None, int]:
        raw = await self._store.find(segment_key(record.domain, *place), size_bytes=LARGEST_BYTES)
        if raw is None:
            return None, 0
        try:
            return decode_segment(raw, *place), len(raw)
        except Corrupt as problem:
            raise _segment_discrepancy(place, str(problem), record) from problem


def _segment_discrepancy(
    place: Place, fault: str, record: Commit, *, led_by: int | None = None
) -> Discrepancy:
    number = record.number if led_by is None else led_by
    return Discrepancy(ProblemKind.EVENT, segment_key(record.domain, *place), fault, number=number)
