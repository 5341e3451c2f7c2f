"""Checks of manifests and commit records: each against its number, its parent and each other.

The catalog domain (Tier 1) applies requests, whose rows are ordered in the tail. Event domains (Tier 2)
fold segments: their watermark and retention bounds never move back, a stream leaves the watermark only with
its seal (P16, P20), and the commit record lists the segments by which the watermark moved.
"""

from collections.abc import Iterator
from datetime import datetime

from arco.catalog.manifest import Commit, CommitKind, Counts, Manifest
from arco.compactor.domains import tables_of
from arco.compactor.verification_report import Discrepancy, ProblemKind
from arco.fold.tier1 import DOMAIN
from arco.ledger.stream import Watermark

_BOTH = {CommitKind.MERGE, CommitKind.MARK}
_TIER1 = {CommitKind.DDL, *_BOTH}
_TIER2 = {CommitKind.FOLD, CommitKind.REBUILD, *_BOTH}


def check_manifest(domain: str, number: int, path: str, manifest: Manifest) -> None:
    """`Discrepancy` if a manifest does not match its domain and number."""
    ulid = manifest.commit_ulid
    commit_path = f"commits/{domain}/{number:020d}-{ulid}.json"
    fault = None
    if manifest.domain != domain:
        fault = f"is of domain {manifest.domain}"
    elif manifest.commit.path != commit_path:
        fault = f"names the commit record {manifest.commit.path}, not {commit_path}"
    elif not 0 <= manifest.rows_changed_at <= number:
        fault = f"says that rows changed at number {manifest.rows_changed_at}"
    elif domain == DOMAIN:
        fault = _fault_in_tails(manifest)
    else:
        fault = fault_in_position(manifest)
    if fault is not None:
        raise Discrepancy(ProblemKind.MANIFEST, path, fault, number=number)


def _fault_in_tails(manifest: Manifest) -> str | None:
    for name, files in manifest.tail.items():
        newest = [ref.newest for ref in files]
        if newest != sorted(set(newest)):
            return f"has the tail of {name} out of order"
        if newest and newest[-1] > manifest.rows_changed_at:
            return f"has rows of {name} that are newer than its last change of rows"
    return None


def check_succession(child: Manifest, parent: Manifest, number: int, path: str) -> None:
    """`Discrepancy` if manifest `number` moves something back from its parent (P22, P26, P27)."""
    fault = None
    if child.fencing_token < parent.fencing_token:
        fault = f"has fencing token {child.fencing_token}, below its parent's"
    elif child.rows_changed_at not in (number, parent.rows_changed_at):
        fault = f"says that rows changed at number {child.rows_changed_at}, unlike its parent"
    elif (child.orphans_before or "") < (parent.orphans_before or ""):
        fault = "has a mark for orphans below its parent's"
    if fault is not None:
        raise Discrepancy(ProblemKind.MANIFEST, path, fault, number=number)


def check_record(record: Commit, manifest: Manifest, number: int) -> None:
    """`Discrepancy` if a record does not match the manifest that names it."""
    operations = record.operations
    fault = None
    if (record.domain, record.number) != (manifest.domain, number):
        fault = f"says that it is number {record.number} of {record.domain}"
    elif record.commit_ulid != manifest.commit_ulid:
        fault = f"says that it is commit {record.commit_ulid}"
    elif (record.parent is None) != (number == 0):
        fault = "has a parent" if number == 0 else "has no parent"
    elif tuple(each.request_id for each in operations) != manifest.requests:
        fault = "does not list the requests that its manifest applies"
    elif tuple(dict.fromkeys(each.event_path for each in operations)) != record.event_paths:
        fault = "names other events than its operations do"
    elif (record.kind is CommitKind.DDL) != bool(operations):
        fault = f"is of kind {record.kind} and has {len(operations)} operations"
    elif record.kind not in (_TIER1 if record.domain == DOMAIN else _TIER2):
        fault = f"is of kind {record.kind}, which {record.domain} does not have"
    elif record.kind is not CommitKind.FOLD and record.streams:
        fault = f"is of kind {record.kind} and has folded segments"
    if fault is not None:
        raise Discrepancy(ProblemKind.COMMIT, manifest.commit.path, fault, number=number)


def check_added(record: Commit, manifest: Manifest, parent: Manifest | None, number: int) -> None:
    """`Discrepancy` if a manifest names a new file that its commit record does not list as added."""
    added = {(ref.path, ref.sha256) for ref in record.added}
    old = set() if parent is None else set(_named_files(parent))
    for path, sha256 in _named_files(manifest):
        if (path, sha256) not in old and (path, sha256) not in added:
            fault = f"does not list {path} as added"
            raise Discrepancy(ProblemKind.COMMIT, manifest.commit.path, fault, number=number)


def _named_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for file in manifest.named_files():
        yield file.path, file.sha256
    if manifest.base.index is not None:
        yield manifest.base.index.path, manifest.base.index.sha256


def fault_in_position(manifest: Manifest) -> str | None:
    """What is wrong with the watermark and the retention bounds of one manifest."""
    mark = manifest.watermark
    if mark.frontier < len(mark.open) or min(mark.open.values(), default=-1) < -1:
        return "has a watermark that no ledger can have"
    unknown = sorted(set(manifest.retained_from) - set(tables_of(manifest.domain)))
    return f"has a retention bound of {unknown[0]}, an unknown table" if unknown else None


def check_advance(
    record: Commit, manifest: Manifest, parent: Manifest | None, number: int, path: str
) -> None:
    """`Discrepancy` if a manifest moves back from its parent, or not as its commit record says."""
    old = Watermark() if parent is None else parent.watermark
    fault = _fault_in_retention({} if parent is None else parent.retained_from, manifest)
    fault = fault or _fault_in_watermark(old, manifest.watermark)
    if fault is not None:
        raise Discrepancy(ProblemKind.MANIFEST, path, fault, number=number)
    fault = _fault_in_streams(record, old, manifest.watermark) or _fault_in_counts(record, manifest)
    if fault is not None:
        raise Discrepancy(ProblemKind.COMMIT, manifest.commit.path, fault, number=number)


def closed_streams(record: Commit, mark: Watermark) -> dict[str, int]:
    """The streams that a commit closed, with the numbers of their seals."""
    return {
        name: last_seq for name, (_, last_seq) in record.streams.items() if name not in mark.open
    }


def _fault_in_retention(old: dict[str, datetime], manifest: Manifest) -> str | None:
    for table, moment in old.items():
        if table not in manifest.retained_from or manifest.retained_from[table] < moment:
            return f"keeps rows of {table} that its parent had expired"
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
        return None if old == new else "folded nothing, and its watermark moved"
    for stream, (first_seq, last_seq) in record.streams.items():
        is_next = first_seq == old.open.get(stream, -1) + 1 and first_seq <= last_seq
        if not is_next or new.open.get(stream, last_seq) != last_seq:
            return (
                f"lists segments {first_seq} to {last_seq} of stream {stream}, unlike its manifest"
            )
    new_streams = {each for each in (*new.open, *record.streams) if each not in old.open}
    for stream in {*old.open, *new_streams} - set(record.streams):
        if new.open.get(stream) != old.open.get(stream, -1):
            return f"does not list which segments of stream {stream} it folded"
    if len(new_streams) != new.frontier - old.frontier:
        return f"has {len(new_streams)} new streams in {new.frontier - old.frontier} slots"
    return None


def _fault_in_counts(record: Commit, manifest: Manifest) -> str | None:
    counts = record.counts or Counts()
    if counts.late + counts.quarantined > counts.events:
        return f"counts {counts.events} events, and more that were not folded"
    if record.kind is not CommitKind.FOLD:
        return None
    segments = sum(last_seq - first_seq + 1 for first_seq, last_seq in record.streams.values())
    segments -= len(closed_streams(record, manifest.watermark))  # seals have no events
    return (
        None
        if counts.segments == segments
        else f"counts {counts.segments} segments, not {segments}"
    )
