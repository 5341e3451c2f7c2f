"""Histories for engines: random events in segments of a ledger, and the rows that jobs make of them."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from arco.catalog.manifest import FileRef
from arco.catalog.state_file import read_rows
from arco.compactor.engine import FoldJob, MergePart, NewStateFile, SegmentRef
from arco.core.ids import new_ulid
from arco.events.read import SegmentRows, read_segment
from arco.events.registry import KINDS
from arco.fold.fold import fold
from arco.fold.tier2 import TIER2
from arco.ledger.segment import Segment, encode_segment, segment_key
from arco.storage.store import Store
from tests.events.stored_lines import line

Rows = dict[str, list[dict[str, Any]]]
Segments = dict[SegmentRef, list[bytes]]

_BROKEN = (b"{", b'{"event_type":"nobody_knows","event_version":1}', b"\xff")
_NAMES = {
    "execution_id": ("run-1", "run-2", "run-3"),
    "task_id": ("load", "report"),
    "table_id": ("tbl-a", "tbl-b", "tbl-c", "tbl-d"),
    "partition_values": ({"date": "2026-05-01"}, {"date": "2026-05-02"}),
    "document_id": ("doc-1", "doc-2"),
    "attempt": (1, 2, 3),
}


def random_lines(rng: Random, domain: str, count: int) -> list[bytes]:
    """Events about few things, so that many are about the same one; some come twice, some are broken."""
    kinds = [kind for kind in KINDS if kind.domain == domain]
    lines: list[bytes] = []
    while len(lines) < count:
        draw = rng.random()
        if draw < 0.02:
            lines.append(rng.choice(_BROKEN))
        elif draw < 0.1 and lines:
            lines.append(rng.choice(lines))
        else:
            kind = rng.choice(kinds)
            payload = kind.example | {
                name: rng.choice(values) for name, values in _NAMES.items() if name in kind.example
            }
            at = rng.randrange(1_000)
            lines.append(line(kind.name, payload, second=at, event=rng.randrange(10**9)))
    return lines


async def write_segments(
    store: Store, domain: str, lines: Sequence[bytes], *, each: int, streams: int = 2
) -> Segments:
    """The lines as segments of several streams, `each` so many lines."""
    runtime = store.runtime
    names = [new_ulid(runtime) for _ in range(streams)]
    written: Segments = {}
    for number, start in enumerate(range(0, len(lines), each)):
        stream, seq = names[number % streams], number // streams
        some = list(lines[start : start + each])
        raw = encode_segment(runtime, stream, seq, some)
        await store.create(segment_key(domain, stream, seq), raw)
        written[SegmentRef(stream, seq)] = some
    return written


def fold_job(store: Store, domain: str, segments: Iterable[SegmentRef], **more: Any) -> FoldJob:
    job = {"attempt": new_ulid(store.runtime), "retained_from": {}} | more
    return FoldJob(domain=domain, segments=tuple(segments), **job)


def expected(domain: str, segments: Segments) -> Rows:
    """The rows of all lines, read and folded in one go."""
    readings = [
        read_segment(domain, Segment.of(at.stream, at.seq, lines), {})
        for at, lines in segments.items()
    ]
    tables = TIER2[domain]
    return {
        name: fold(tables[name], rows).to_pylist()
        for name, rows in SegmentRows.joined(readings).rows.items()
    }


async def rows_in(store: Store, domain: str, files: Iterable[NewStateFile]) -> Rows:
    """The rows of new files, folded together as a reader would."""
    parts: dict[str, list[pa.Table]] = {}
    for new in files:
        rows = await read_rows(store, TIER2[domain][new.table], new.file)
        parts.setdefault(new.table, []).append(rows)
    return {
        name: fold(TIER2[domain][name], pa.concat_tables(several)).to_pylist()
        for name, several in parts.items()
    }


def by_table(files: Iterable[NewStateFile]) -> dict[str, tuple[FileRef, ...]]:
    refs_by_table: dict[str, tuple[FileRef, ...]] = {}
    for new in files:
        refs_by_table[new.table] = (*refs_by_table.get(new.table, ()), new.file)
    return refs_by_table


def merge_parts(
    tail: Iterable[NewStateFile],
    base: Iterable[NewStateFile] = (),
    *,
    into_base: bool,
    each: int = 9,
) -> tuple[MergePart, ...]:
    """Parts for all tables of a tail, so many buckets each."""
    old = by_table(base)
    parts = []
    for name, files in by_table(tail).items():
        bases = {str(ref.buckets[0]): ref for ref in old.get(name, ())}
        buckets = sorted({bucket for ref in files for bucket in ref.buckets} | {*map(int, bases)})
        width = each if into_base else len(buckets)
        for start in range(0, len(buckets), width):
            some = tuple(buckets[start : start + width])
            parts.append(
                MergePart(
                    table=name,
                    buckets=some,
                    tail=files,
                    base={str(b): bases[str(b)] for b in some if str(b) in bases},
                    into_base=into_base,
                )
            )
    return tuple(parts)
