"""The events of a commit, held against its deeds and against the rows that it has published.

A commit names each event by its segment, line and id. What the events say, folded once more, must be the
rows of the files that the commit has added: published state is what was decided, and nothing else.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa

from arco.catalog.event import CatalogChanged, read_event
from arco.catalog.manifest import Commit, CommitOperation
from arco.catalog.model import AnyRow, to_columns
from arco.compactor.report import Checked, ProblemKind, Wrong
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
)
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.store import Store

Rows = dict[str, list[AnyRow]]

_SHORTEST = timedelta(milliseconds=SHORTEST_RETENTION_MS)


class Replay:
    """Reads the events of one commit after the other."""

    def __init__(self, store: Store, checked: Checked) -> None:
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
            said, its_rows = _read(segment, deed, record.number)
            _check_deed(said, deed, record.number)
            self._checked.events += 1
            for table, more in its_rows.items():
                rows.setdefault(table, []).extend(more)
        return rows if is_whole else None

    async def _segment(self, path: str, record: Commit, published_at: datetime) -> Segment | None:
        place = parse_segment_key(path)
        if place is None or place[0] != record.domain:
            raise _wrong(path, f"is no segment of {record.domain}", record.number)
        raw = await self._store.find(path, size_bytes=LARGEST_BYTES)
        if raw is None:
            # A segment that a kept commit names is not collected. It can only have gone before the
            # commit was there: its process slept for longer than any segment is sure to be kept.
            first = min(deed.at for deed in record.deeds if deed.event_path == path)
            if published_at - first >= _SHORTEST:
                return None
            raise _wrong(path, "is missing, and a commit names it", record.number)
        self._checked.bytes += len(raw)
        try:
            return decode_segment(raw, place[1], place[2])
        except Corrupt as problem:
            raise _wrong(path, str(problem), record.number) from problem


def _read(segment: Segment, deed: CommitOperation, number: int) -> tuple[CatalogChanged, Rows]:
    event = _event(segment, deed, number)
    found = (event.event_id, event.idempotency_key, event.occurred_at)
    if found != (deed.event_id, deed.request_id, deed.at):
        raise _wrong(deed.event_path, f"has another event in line {deed.line}", number)
    try:
        return read_event(event)
    except Invalid as problem:
        raise _wrong(deed.event_path, f"line {deed.line}: {problem}", number) from problem


def _event(segment: Segment, deed: CommitOperation, number: int) -> Envelope:
    if not 1 <= deed.line <= len(segment.lines):
        raise _wrong(deed.event_path, f"has no line {deed.line}", number)
    line = segment.lines[deed.line - 1]
    if sha256_hex(line) != deed.event_sha256:
        raise _wrong(deed.event_path, f"has other bytes in line {deed.line}", number)
    try:
        return decode_event(line)
    except Invalid as problem:
        fault = f"line {deed.line} is no event: {problem}"
        raise _wrong(deed.event_path, fault, number) from problem


def _check_deed(said: CatalogChanged, deed: CommitOperation, number: int) -> None:
    told = (said.request_id, said.operation, said.actor, said.kind, said.object_id, said.name)
    done = (deed.request_id, deed.operation, deed.actor, deed.kind, deed.object_id, deed.name)
    if told != done:
        fault = f"does not say in line {deed.line} what its commit record says"
        raise _wrong(deed.event_path, fault, number)


def check_published(record: Commit, rows: Rows, published: Mapping[str, pa.Table]) -> None:
    """`Wrong` if the rows of the files that a commit has added are not those of its events."""
    number = record.number
    first = record.event_paths[0]
    if set(rows) != set(published):
        odd = min(set(rows) ^ set(published))
        raise _wrong(first, f"and what its commit has published differ in table {odd}", number)
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
            raise _wrong(first, fault, number)


def _wrong(path: str, fault: str, number: int) -> Wrong:
    return Wrong(ProblemKind.EVENT, path, fault, number=number)
