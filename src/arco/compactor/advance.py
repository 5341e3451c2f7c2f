"""How a domain of Tier 2 goes on from one manifest to the next: forward, and by what its commit has folded.

The watermark and the bounds of retention never go back, and a stream leaves the watermark only with its
seal (P16, P20). Where they move, the commit record tells by which segments; both must tell the same.
"""

from datetime import datetime

from arco.catalog.manifest import Commit, CommitKind, Counts, Manifest
from arco.compactor.domains import tables_of
from arco.compactor.report import ProblemKind, Wrong
from arco.ledger.stream import Watermark


def fault_in_position(manifest: Manifest) -> str | None:
    """What is wrong with a watermark and the bounds of retention, taken by themselves."""
    mark = manifest.watermark
    if mark.frontier < len(mark.open) or min(mark.open.values(), default=-1) < -1:
        return "has a watermark that no ledger can have"
    strange = sorted(set(manifest.retained_from) - set(tables_of(manifest.domain)))
    return f"has a retention of {strange[0]}, a table that is not known here" if strange else None


def check_advance(
    record: Commit, manifest: Manifest, parent: Manifest | None, number: int, path: str
) -> None:
    """`Wrong` if a manifest, at `path`, goes back, or elsewhere than its commit record tells."""
    old = Watermark() if parent is None else parent.watermark
    fault = _fault_in_retention({} if parent is None else parent.retained_from, manifest)
    fault = fault or _fault_in_watermark(old, manifest.watermark)
    if fault is not None:
        raise Wrong(ProblemKind.MANIFEST, path, fault, number=number)
    fault = _fault_in_streams(record, old, manifest.watermark) or _fault_in_counts(record, manifest)
    if fault is not None:
        raise Wrong(ProblemKind.COMMIT, manifest.commit.path, fault, number=number)


def closed_by(record: Commit, mark: Watermark) -> dict[str, int]:
    """The streams that a commit has closed, each with the number of its seal."""
    return {name: last for name, (_, last) in record.streams.items() if name not in mark.open}


def _fault_in_retention(old: dict[str, datetime], manifest: Manifest) -> str | None:
    for table, moment in old.items():
        if table not in manifest.retained_from or manifest.retained_from[table] < moment:
            return f"keeps rows of {table} that its parent had given up"
    return None


def _fault_in_watermark(old: Watermark, new: Watermark) -> str | None:
    if new.frontier < old.frontier:
        return f"has its frontier at slot {new.frontier}, below its parent's"
    for stream, seq in new.open.items():
        if seq < old.open.get(stream, -1):
            return f"has folded stream {stream} up to {seq}, less than its parent had"
    return None


def _fault_in_streams(record: Commit, old: Watermark, new: Watermark) -> str | None:
    if record.kind is not CommitKind.FOLD:
        return None if old == new else "has folded nothing, and its watermark has moved"
    for stream, (first, last) in record.streams.items():
        is_next = first == old.open.get(stream, -1) + 1 and first <= last
        if not is_next or new.open.get(stream, last) != last:
            return f"tells of segments {first} to {last} of stream {stream}, unlike its manifest"
    newcomers = {each for each in (*new.open, *record.streams) if each not in old.open}
    for stream in {*old.open, *newcomers} - set(record.streams):
        if new.open.get(stream) != old.open.get(stream, -1):
            return f"does not tell which segments of stream {stream} it has folded"
    if len(newcomers) != new.frontier - old.frontier:
        return f"has met {len(newcomers)} new streams in {new.frontier - old.frontier} slots"
    return None


def _fault_in_counts(record: Commit, manifest: Manifest) -> str | None:
    counts = record.counts or Counts()
    if counts.late + counts.quarantined > counts.events:
        return f"counts {counts.events} events, and more that were not folded"
    if record.kind is not CommitKind.FOLD:
        return None
    told = sum(last - first + 1 for first, last in record.streams.values())
    told -= len(closed_by(record, manifest.watermark))  # seals have no events
    return None if counts.segments == told else f"counts {counts.segments} segments, not {told}"
