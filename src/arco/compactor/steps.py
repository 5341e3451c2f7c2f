"""Steps: what the manifests of a domain have done to its rows, one after the other (P20).

A fold has brought segments in. A merge may have left out rows that were no longer retained; which tables
and buckets it has merged is seen from the files that it has taken out of the tail. All else changes no row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from arco.catalog.manifest import Commit, CommitKind, Manifest, read_commit, read_manifest
from arco.compactor.job import SegmentRef
from arco.ledger.segment import find_location
from arco.storage.chain import Chain, Head
from arco.storage.store import Store

_AT_ONCE = 16


@dataclass(frozen=True)
class Step:
    """What one manifest has done to rows, under the bounds of its parent."""

    number: int
    bounds: dict[str, datetime]
    segments: tuple[SegmentRef, ...] = ()
    forgets: dict[str, frozenset[int]] = field(default_factory=dict)  # the buckets by table


async def read_steps(chain: Chain, after: int, head: Head) -> list[Step]:
    """The steps above number `after` up to `head`; `NotFound` if one of them was collected."""
    steps: list[Step] = []
    parent = None if after < 0 else read_manifest(await chain.read(after))
    for first in range(after + 1, head.number + 1, _AT_ONCE):
        entries = await chain.history(first, min(first + _AT_ONCE - 1, head.number))
        manifests = [read_manifest(entry) for entry in entries]
        records = await chain.store.runtime.tasks.gather(
            *(read_commit(chain.store, manifest.commit) for manifest in manifests)
        )
        for manifest, record in zip(manifests, records, strict=True):
            step = _step(record, manifest, parent)
            if step.segments or step.forgets:
                steps.append(step)
            parent = manifest
    return steps


async def last_lost(store: Store, domain: str, steps: Sequence[Step]) -> int | None:
    """The number of the last step with a segment that was collected; None if all are there.

    The segments of a stream are collected in their order, so the first of each is asked for.
    """
    newest_first = list(reversed(steps))
    for start in range(0, len(steps), _AT_ONCE):
        wave = newest_first[start : start + _AT_ONCE]
        kept = await store.runtime.tasks.gather(*(_is_kept(store, domain, each) for each in wave))
        for step, is_kept in zip(wave, kept, strict=True):
            if not is_kept:
                return step.number
    return None


async def _is_kept(store: Store, domain: str, step: Step) -> bool:
    firsts: dict[str, int] = {}
    for each in step.segments:
        firsts.setdefault(each.stream, each.seq)
    found = await store.runtime.tasks.gather(
        *(find_location(store, domain, stream, seq) for stream, seq in firsts.items())
    )
    return None not in found


def _step(record: Commit, manifest: Manifest, parent: Manifest | None) -> Step:
    bounds = {} if parent is None else parent.retained_from
    if record.kind is CommitKind.FOLD:
        return Step(record.number, bounds, segments=_segments(record, manifest))
    if record.kind is CommitKind.MERGE and manifest.rows_changed_at == record.number:
        return Step(record.number, bounds, forgets=_merged(record, manifest, parent))
    return Step(record.number, bounds)


def _segments(record: Commit, manifest: Manifest) -> tuple[SegmentRef, ...]:
    """Those that have events: the last one of a stream that has left the watermark is its seal."""
    return tuple(
        SegmentRef(stream, seq)
        for stream, (first, last) in record.streams.items()
        for seq in range(first, last + (stream in manifest.watermark.open))
    )


def _merged(
    record: Commit, manifest: Manifest, parent: Manifest | None
) -> dict[str, frozenset[int]]:
    """What went into the base: tables that have lost files of their tail and have got none for them."""
    removed, added = set(record.removed), {ref.path for ref in record.added}
    merged: dict[str, frozenset[int]] = {}
    for name, files in ({} if parent is None else parent.tail).items():
        gone = [ref for ref in files if ref.path in removed]
        is_shortened = any(ref.path in added for ref in manifest.tail.get(name, ()))
        if gone and not is_shortened:
            merged[name] = frozenset(bucket for ref in gone for bucket in ref.buckets)
    return merged
