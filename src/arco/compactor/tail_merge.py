"""Merging in Tier 2: an engine folds files into fewer, and what it has made is published (P26).

A merge names its inputs: if the head still has them all, it is published there, whatever was folded
meanwhile. Rows that are no longer retained are left out of the base (P20). A merge that leaves some out is
published only on the rows that it has seen, so that it is known which rows were left out of what, and a
rebuild can do the same. If others keep changing rows meanwhile, the next merge leaves nothing out.
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
    """One merge on its way."""

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
        self._forgets = False
        self.files = 0
        self.size_bytes = 0

    async def fold(self, engine: CompactionEngine, *, forget: bool = True) -> None:
        """Have the engine do the work, and name the new base."""
        job = MergeJob(
            domain=self._publisher.domain,
            attempt=self._attempt,
            parts=self._parts,
            retained_from=self._input.retained_from if forget else {},
        )
        merged = await engine.merge(job)
        self._forgets = merged.forgotten > 0
        self._take(merged)
        if any(part.into_base for part in self._parts):
            await self._name_base()

    async def publish(self, head: Head) -> Head | None:
        """Publish on the newest head that still has all inputs; None if none has."""
        return await publish_on_head(self._publisher, head, self._attempt, self.holds, self._change)

    def _take(self, merged: MergeResult) -> None:
        into_base = {part.table for part in self._parts if part.into_base}
        for part in self._parts:
            if part.into_base:
                for bucket in part.buckets:
                    self._base.put(self._tables[part.table], bucket, None)
        for new in merged.files:
            self._note(new.file)
            if new.table in into_base:
                self._base.put(self._tables[new.table], new.file.buckets[0], new.file)
            else:
                self._tail.setdefault(new.table, []).append(new.file)

    async def _name_base(self) -> None:
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

    def _note(self, file: FileRef) -> None:
        self.files += 1
        self.size_bytes += file.bytes
        self._added.append(Ref(path=file.path, sha256=file.sha256))

    def holds(self, head: Manifest | None) -> bool:
        """Whether it can still be published on `head`."""
        if head is None:
            return False
        if self._forgets and head.rows_changed_at != self._input.rows_changed_at:
            return False
        tail = {ref.path for files in head.tail.values() for ref in files}
        has_base = self._new_base is None or head.base == self._input.base
        return has_base and self._inputs <= tail

    def _change(self, head: Manifest | None) -> ManifestChange:
        held = {} if head is None else head.tail
        names = dict.fromkeys([*held, *self._tail])
        return ManifestChange(
            kind=CommitKind.MERGE,
            commit_ulid=self._commit_ulid,
            tail={
                name: (
                    *(ref for ref in held.get(name, ()) if ref.path not in self._inputs),
                    *self._tail.get(name, ()),
                )
                for name in names
            },
            base=self._new_base or (Base() if head is None else head.base),
            changes_rows=self._forgets,
            added=tuple(self._added),
            removed=tuple(sorted(self._removed)),
        )


_FEWEST = 4  # files that are folded into one: fewer would not make a tail shorter for long
_LITTLE_ROWS = 200_000  # a merge of no more is done in one part
_PART_BUCKETS = 16
_PART_ROWS = 1_000_000  # about so many rows a part, if several buckets make them up


@dataclass(frozen=True)
class TailPolicy:
    """From when on a tail is long, and large."""

    longest: int = 16  # files of a table
    longest_behind: int = 64  # while there is still a backlog, which goes first
    many_rows: int = 50_000  # that are worth a base
    # What one task can hold. Files and buckets of more rows stay as they are: the tail gets longer, but a
    # merge that cannot end would help nobody.
    most_rows: int = 1 << 62

    def is_due(self, manifest: Manifest, *, behind: bool = False) -> bool:
        """Whether some tail is worth a closer look, which takes the base's index."""
        return any(self._is_long(tail, behind=behind) for tail in manifest.tail.values())

    def plan_merge(
        self,
        manifest: Manifest,
        base: BaseFiles,
        tables: Mapping[str, StateTable],
        *,
        behind: bool = False,
    ) -> tuple[MergePart, ...]:
        """What to merge now; nothing if no tail needs it."""
        parts: list[MergePart] = []
        for name, tail in manifest.tail.items():
            if not self._is_long(tail, behind=behind):
                continue
            table = tables[name]
            if self._belongs_in_base(tail, base.of(table)):
                parts += plan_base_parts(table, buckets_in(tail), tail, base.of(table))
            elif len(tail) >= self.longest:
                small = _smallest([ref for ref in tail if ref.rows * _FEWEST <= self.most_rows])
                small = _fitting(small, self.most_rows)
                if len(small) >= _FEWEST:
                    parts.append(_shorter(table, small))
        return tuple(parts)

    def _is_long(self, tail: Sequence[FileRef], *, behind: bool) -> bool:
        if behind:
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
    """Some buckets of a tail into the base: in one part if it is little, otherwise in several."""
    old = {bucket: ref for bucket, ref in base.items() if int(bucket) in buckets}
    rows = _count_rows(tail) + _count_rows(old.values())
    width = max(1, len(buckets))
    if rows > _LITTLE_ROWS:
        width = max(1, min(_PART_BUCKETS, width * _PART_ROWS // rows))
    ordered = sorted(buckets)  # a file of the tail has neighbouring buckets, so few parts read it
    for start in range(0, len(ordered), width):
        wanted = ordered[start : start + width]
        yield MergePart(
            table=table.name,
            buckets=tuple(wanted),
            tail=tuple(ref for ref in tail if not set(wanted).isdisjoint(ref.buckets)),
            base={bucket: ref for bucket, ref in old.items() if int(bucket) in wanted},
            into_base=True,
        )


def buckets_in(tail: Iterable[FileRef]) -> set[int]:
    """The buckets that a tail has rows of."""
    return {bucket for ref in tail for bucket in ref.buckets}


def _smallest(tail: Sequence[FileRef]) -> list[FileRef]:
    """The most files of which none is larger than all smaller ones together; a few in any case."""
    by_size = sorted(tail, key=lambda ref: (ref.bytes, ref.path))
    total, count = 0, 0
    for place, ref in enumerate(by_size, start=1):
        if ref.bytes <= total:
            count = place
        total += ref.bytes
    return by_size[: max(count, _FEWEST)]


def _fitting(by_size: Sequence[FileRef], most_rows: int) -> list[FileRef]:
    """As many of the first files as have no more rows together."""
    fitting: list[FileRef] = []
    for ref in by_size:
        most_rows -= ref.rows
        if most_rows < 0:
            break
        fitting.append(ref)
    return fitting


def _largest_bucket(tail: Iterable[FileRef], base: Mapping[str, FileRef]) -> int:
    """About how many rows the largest bucket has, if the rows of a file are evenly in its buckets."""
    rows = {int(bucket): ref.rows for bucket, ref in base.items()}
    for ref in tail:
        for bucket in ref.buckets:
            rows[bucket] = rows.get(bucket, 0) + ref.rows // len(ref.buckets)
    return max(rows.values(), default=0)


def _shorter(table: StateTable, files: Sequence[FileRef]) -> MergePart:
    return MergePart(
        table=table.name,
        buckets=tuple(sorted(buckets_in(files))),
        tail=tuple(files),
        base={},
        into_base=False,
    )


def _count_rows(files: Iterable[FileRef]) -> int:
    return sum(ref.rows for ref in files)
