"""Merging: the tail goes into the base, and what was dropped long ago is forgotten (P22, P26).

A merge reads the tail and the base files of the buckets that have news or something to forget, folds them,
and writes those base files anew under one new index. It names its inputs: if the head still has them all,
it is published on the head, whatever was committed meanwhile: merges and commits never starve each other. A
merge that forgets changes rows, and says so: a decision that rested on what is gone is made again.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from arco.catalog.manifest import CommitKind, FileRef, Manifest, Ref
from arco.catalog.state_file import read_rows
from arco.compactor.base_files import BaseFiles, read_base
from arco.compactor.encode import encode, file_path
from arco.compactor.forget import Forgetting
from arco.compactor.publish import Change, NewFile, Publisher, attempt_ulid, mark_of, parent_of
from arco.compactor.rebase import is_doomed
from arco.core.errors import Conflict
from arco.core.ids import new_ulid
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier1 import CATALOGS, COLUMNS, OBJECTS, PLACES, SCHEMA_VERSIONS, SCHEMAS, TABLES
from arco.storage.chain import Head

LONGEST_TAIL = 16

_WAVE = 8  # base files that are read at once: a store is far away, and memory has an end

_CONTAINERS_FIRST = (CATALOGS, SCHEMAS, TABLES, COLUMNS, SCHEMA_VERSIONS, OBJECTS, PLACES)


def is_due(manifest: Manifest) -> bool:
    """Whether some table's tail is long enough to be merged."""
    return any(len(files) >= LONGEST_TAIL for files in manifest.tail.values())


async def merge(publisher: Publisher, *, forget_before: datetime) -> Head | None:
    """Merge all tails; None if there is nothing to do, or another merge was first."""
    head = await publisher.chain.head()
    manifest = parent_of(head)
    if manifest is None:
        return None
    work = _Merge(publisher, manifest, forget_before)
    await work.fold_all()
    if not work.removed:
        return None
    await publisher.create(work.files)
    return await work.publish(head)


class _Merge:
    """One merge on its way: what it has read, and what it writes instead."""

    def __init__(self, publisher: Publisher, manifest: Manifest, forget_before: datetime) -> None:
        self._publisher = publisher
        self._store = publisher.store
        self._tasks = publisher.store.runtime.tasks
        self._input = manifest
        self._merged = {ref.path for files in manifest.tail.values() for ref in files}
        self._forgetting = Forgetting(forget_before)
        self._attempt = attempt_ulid(self._store.runtime, mark_of(manifest))
        self._files = BaseFiles(manifest.base)
        self._base = manifest.base
        self.files: list[NewFile] = []
        self.removed: set[str] = set()

    async def fold_all(self) -> None:
        """Fold every table that has news or something to forget, and name the new base."""
        self._files = await read_base(self._store, self._input.base)
        for table in _CONTAINERS_FIRST:
            await self._fold(table)
        self._base = self._files.base(self._new_index(self._input.base.index))

    async def publish(self, head: Head) -> Head | None:
        """Publish on the newest head that still has all inputs (P26)."""
        while True:
            manifest = parent_of(head)
            if manifest is None or not self._fits(manifest):
                return None
            try:
                return await self._publisher.publish(head, self._change(manifest))
            except Conflict:
                head = await self._publisher.chain.head()

    def _fits(self, head: Manifest) -> bool:
        if is_doomed(self._attempt, head):
            return False
        tail = {ref.path for files in head.tail.values() for ref in files}
        return head.base == self._input.base and self._merged <= tail

    def _change(self, head: Manifest) -> Change:
        return Change(
            kind=CommitKind.MERGE,
            commit_ulid=new_ulid(self._store.runtime),
            tail={
                name: tuple(ref for ref in files if ref.path not in self._merged)
                for name, files in head.tail.items()
            },
            base=self._base,
            changes_rows=self._forgetting.rows > 0,
            added=tuple(Ref(path=ref.path, sha256=ref.sha256) for ref, _ in self.files),
            removed=tuple(sorted(self.removed)),
        )

    async def _fold(self, table: StateTable) -> None:
        tail = self._input.tail.get(table.name, ())
        due = {bucket for ref in tail for bucket in ref.buckets}
        due |= self._forgetting.buckets(table) | self._stale(table)
        read = await self._read(table, tail)
        news = _by_bucket(table, pa.concat_tables([table.empty, *read]))
        self.removed |= {ref.path for ref in tail}
        for wave in _waves(sorted(due)):
            bases = {bucket: self._files.file(table, bucket) for bucket in wave}
            there = [ref for ref in bases.values() if ref is not None]
            old = dict(zip(there, await self._read(table, there), strict=True))
            for bucket, base in bases.items():
                known = None if base is None else old[base]
                await self._fold_bucket(table, bucket, [known, news.get(bucket)])

    async def _read(self, table: StateTable, refs: Sequence[FileRef]) -> list[pa.Table]:
        """The rows of files; from memory, where this process has written them itself."""
        written = self._publisher.written
        return await self._tasks.gather(
            *(
                read_rows(self._store, table, ref, whole=True, raw=written.find(ref.sha256))
                for ref in refs
            )
        )

    async def _fold_bucket(
        self, table: StateTable, bucket: int, parts: Sequence[pa.Table | None]
    ) -> None:
        base = self._files.file(table, bucket)
        path = file_path(self._publisher.domain, table, f"{bucket:03d}-{self._attempt}")

        def work() -> tuple[FileRef, bytes] | None:
            there = [part for part in parts if part is not None]
            folded = fold(table, pa.concat_tables([table.empty, *there]))
            kept = self._forgetting.sift(table, folded)
            return encode(table, kept, path) if kept.num_rows else None

        # In a thread: a large bucket takes a while, and others are served meanwhile.
        new = await self._tasks.in_thread(work)
        if base is not None:
            self.removed.add(base.path)
        if new is not None:
            self.files.append(new)
        self._files.put(table, bucket, None if new is None else new[0])

    def _stale(self, table: StateTable) -> set[int]:
        """Buckets whose base holds rows that were dropped long enough ago."""
        return {
            bucket
            for ref in self._files.of(table).values()
            if ref.dropped_from is not None
            for bucket in ref.buckets
            if ref.dropped_from < self._forgetting.before
        }

    def _new_index(self, old: Ref | None) -> Ref | None:
        """The index of the base files, a new one unless nothing was merged."""
        if not self.removed:
            return old
        ref, raw = self._files.new_index(self._publisher.domain, self._attempt)
        self.files.append((ref, raw))
        if old is not None:
            self.removed.add(old.path)
        return ref


def _by_bucket(table: StateTable, rows: pa.Table) -> dict[int, pa.Table]:
    """The rows of each bucket that has any."""
    places: dict[int, list[int]] = {}
    for place, bucket in enumerate(table.buckets_of(rows)):
        places.setdefault(bucket, []).append(place)
    return {bucket: rows.take(its_places) for bucket, its_places in places.items()}


def _waves(buckets: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(buckets), _WAVE):
        yield buckets[start : start + _WAVE]
