"""Merges of event domains: when a tail is merged, which files, and how the result is published (P26).

A tail with a quarter of the base's rows goes into the base, once it is long or large (ADR 0051). Until then
its smallest files are folded into one. As far as sizes allow, the largest of these is never larger than the
others together: a row is rewritten only when its file at least doubles, so the bytes written stay in
proportion to the bytes received.

A merge is published on any head that still names all its inputs. Rows that are no longer retained are left
out of the base (P20). A merge that leaves rows out is published only if no rows have changed since it
started, so that a rebuild can repeat it. If that fails, the next merge leaves no rows out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from arco.catalog.manifest import Base, CommitKind, FileRef, Manifest, Ref
from arco.compactor.base_files import BaseFiles
from arco.compactor.engine import CompactionEngine, MergeJob, MergePart, MergeResult
from arco.compactor.publisher import (
    ManifestChange,
    NewFile,
    Publisher,
    new_attempt_ulid,
    orphan_mark,
    publish_on_head,
)
from arco.core.ids import new_ulid
from arco.fold.table import StateTable
from arco.storage.chain import Head


class TailMerge:
    """A merge in progress."""

    def __init__(
        self,
        publisher: Publisher,
        manifest: Manifest,
        base: BaseFiles,
        tables: dict[str, StateTable],
        parts: tuple[MergePart, ...],
    ) -> None:
        runtime = publisher.store.runtime
        self._publisher = publisher
        self._input = manifest
        self._base = base
        self._tables = tables
        self._parts = parts
        self._inputs = {ref.path for part in parts for ref in part.tail}
        self._removed = self._inputs | {ref.path for part in parts for ref in part.base.values()}
        self._attempt = new_attempt_ulid(runtime, orphan_mark(manifest))
        self._commit_ulid = new_ulid(runtime)
        self._tail: dict[str, list[FileRef]] = {}
        self._new_base: Base | None = None
        self._added: list[Ref] = []
        self._removes_rows = False
        self.files = 0
        self.size_bytes = 0

    async def fold(self, engine: CompactionEngine, *, remove_expired: bool = True) -> None:
        """Run the job on the engine, and build the new base."""
        job = MergeJob(
            domain=self._publisher.domain,
            attempt=self._attempt,
            parts=self._parts,
            retained_from=self._input.retained_from if remove_expired else {},
        )
        merged = await engine.merge(job)
        self._removes_rows = merged.forgotten > 0
        self._apply(merged)
        if any(part.into_base for part in self._parts):
            await self._build_base()

    async def publish(self, head: Head) -> Head | None:
        """Publish on the newest head that still names all inputs; None if it does not."""
        return await publish_on_head(self._publisher, head, self._attempt, self.holds, self._change)

    def _apply(self, merged: MergeResult) -> None:
        into_base = {part.table for part in self._parts if part.into_base}
        for part in self._parts:
            if part.into_base:
                for bucket in part.buckets:
                    self._base.put(self._tables[part.table], bucket, None)
        for new in merged.files:
            self._count(new.file)
            if new.table in into_base:
                self._base.put(self._tables[new.table], new.file.buckets[0], new.file)
            else:
                self._tail.setdefault(new.table, []).append(new.file)

    async def _build_base(self) -> None:
        old = self._input.base.index
        if not any(
            part.into_base and self._tables[part.table].bucket is not None for part in self._parts
        ):
            self._new_base = self._base.base(old)
            return
        ref, raw = self._base.new_index(self._publisher.domain, self._attempt)
        index: NewFile = (ref, raw)
        await self._publisher.create([index])
        self._added.append(ref)
        self.size_bytes += len(raw)
        if old is not None:
            self._removed.add(old.path)
        self._new_base = self._base.base(ref)

    def _count(self, file: FileRef) -> None:
        self.files += 1
        self.size_bytes += file.bytes
        self._added.append(Ref(path=file.path, sha256=file.sha256))

    def holds(self, head: Manifest | None) -> bool:
        """Whether the merge can still be published on `head`."""
        if head is None:
            return False
        if self._removes_rows and head.rows_changed_at != self._input.rows_changed_at:
            return False
        tail = {ref.path for files in head.tail.values() for ref in files}
        has_base = self._new_base is None or head.base == self._input.base
        return has_base and self._inputs <= tail

    def _change(self, head: Manifest | None) -> ManifestChange:
        old_tail = {} if head is None else head.tail
        names = dict.fromkeys([*old_tail, *self._tail])
        return ManifestChange(
            kind=CommitKind.MERGE,
            commit_ulid=self._commit_ulid,
            tail={
                name: (
                    *(ref for ref in old_tail.get(name, ()) if ref.path not in self._inputs),
                    *self._tail.get(name, ()),
                )
                for name in names
            },
            base=self._new_base or (Base() if head is None else head.base),
            changes_rows=self._removes_rows,
            added=tuple(self._added),
            removed=tuple(sorted(self._removed)),
        )


_MIN_FILES = 4  # that are folded into one: with fewer a tail would soon be long again
_ONE_PART_ROWS = 200_000  # a merge of no more rows is one part
_PART_BUCKETS = 16
_PART_ROWS = 1_000_000  # target size of a part of several buckets


@dataclass(frozen=True)
class TailPolicy:
    """When a tail counts as long or large."""

    longest: int = 16  # files of a table
    longest_behind: int = 64  # while there is a backlog, which has priority
    many_rows: int = 50_000  # of a tail, so that it is worth merging into the base
    # What one task can hold in memory. Files and buckets of more rows are not merged: a longer tail is
    # better than a merge that always fails.
    most_rows: int = 1 << 62

    def is_due(self, manifest: Manifest, *, is_behind: bool = False) -> bool:
        """Whether a merge may be due; `plan_merge` decides, but needs the index of the base."""
        return any(self._is_long(tail, is_behind=is_behind) for tail in manifest.tail.values())

    def plan_merge(
        self,
        manifest: Manifest,
        base: BaseFiles,
        tables: Mapping[str, StateTable],
        *,
        is_behind: bool = False,
    ) -> tuple[MergePart, ...]:
        """The merges to run now; none if no tail needs one."""
        parts: list[MergePart] = []
        for name, tail in manifest.tail.items():
            if not self._is_long(tail, is_behind=is_behind):
                continue
            table = tables[name]
            if self._belongs_in_base(tail, base.of(table)):
                parts += plan_base_parts(table, buckets_in(tail), tail, base.of(table))
            elif len(tail) >= self.longest:
                small = _smallest([ref for ref in tail if ref.rows * _MIN_FILES <= self.most_rows])
                small = _fitting(small, self.most_rows)
                if len(small) >= _MIN_FILES:
                    parts.append(_shortening_part(table, small))
        return tuple(parts)

    def _is_long(self, tail: Sequence[FileRef], *, is_behind: bool) -> bool:
        if is_behind:
            return len(tail) >= self.longest_behind
        return len(tail) >= self.longest or _count_rows(tail) > self.many_rows

    def _belongs_in_base(self, tail: Sequence[FileRef], base: Mapping[str, FileRef]) -> bool:
        in_base, in_tail = _count_rows(base.values()), _count_rows(tail)
        if _largest_bucket(tail, base) > self.most_rows:
            return False
        return in_tail * 4 >= in_base if in_base else in_tail > self.many_rows


def plan_base_parts(
    table: StateTable,
    buckets: AbstractSet[int],
    tail: Sequence[FileRef],
    base: Mapping[str, FileRef],
) -> Iterator[MergePart]:
    """The parts that merge these buckets of a tail into the base; few rows make one part."""
    old = {bucket: ref for bucket, ref in base.items() if int(bucket) in buckets}
    rows = _count_rows(tail) + _count_rows(old.values())
    width = max(1, len(buckets))
    if rows > _ONE_PART_ROWS:
        width = max(1, min(_PART_BUCKETS, width * _PART_ROWS // rows))
    ordered = sorted(buckets)  # the buckets of a tail file are neighbours, so few parts read it
    for start in range(0, len(ordered), width):
        chosen_files = ordered[start : start + width]
        yield MergePart(
            table=table.name,
            buckets=tuple(chosen_files),
            tail=tuple(ref for ref in tail if not set(chosen_files).isdisjoint(ref.buckets)),
            base={bucket: ref for bucket, ref in old.items() if int(bucket) in chosen_files},
            into_base=True,
        )


def buckets_in(tail: Iterable[FileRef]) -> set[int]:
    """The buckets that have rows in a tail."""
    return {bucket for ref in tail for bucket in ref.buckets}


def _smallest(tail: Sequence[FileRef]) -> list[FileRef]:
    """The longest run of smallest files of which none is larger than all smaller ones together."""
    by_size = sorted(tail, key=lambda ref: (ref.bytes, ref.path))
    total, count = 0, 0
    for rank, ref in enumerate(by_size, start=1):
        if ref.bytes <= total:
            count = rank
        total += ref.bytes
    return by_size[: max(count, _MIN_FILES)]


def _fitting(by_size: Sequence[FileRef], most_rows: int) -> list[FileRef]:
    """The first files, as long as they have at most `most_rows` rows together."""
    fitting: list[FileRef] = []
    for ref in by_size:
        most_rows -= ref.rows
        if most_rows < 0:
            break
        fitting.append(ref)
    return fitting


def _largest_bucket(tail: Iterable[FileRef], base: Mapping[str, FileRef]) -> int:
    """The estimated rows of the largest bucket, if each file spreads its rows evenly."""
    rows = {int(bucket): ref.rows for bucket, ref in base.items()}
    for ref in tail:
        for bucket in ref.buckets:
            rows[bucket] = rows.get(bucket, 0) + ref.rows // len(ref.buckets)
    return max(rows.values(), default=0)


def _shortening_part(table: StateTable, files: Sequence[FileRef]) -> MergePart:
    return MergePart(
        table=table.name,
        buckets=tuple(sorted(buckets_in(files))),
        tail=tuple(files),
        base={},
        into_base=False,
    )


def _count_rows(files: Iterable[FileRef]) -> int:
    return sum(ref.rows for ref in files)
