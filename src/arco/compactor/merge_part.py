"""One part of a merge: some buckets of a table, from several files into fewer.

A part stands for itself: engines carry out the parts of a job side by side, wherever they like.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from arco.catalog.manifest import FileRef
from arco.catalog.state_file import read_rows
from arco.compactor.job import MergeJob, MergePart, NewRef
from arco.compactor.new_file import create_file
from arco.compactor.shard import by_bucket
from arco.core.errors import Invalid
from arco.fold.fold import fold, retain
from arco.fold.table import StateTable
from arco.fold.tier2 import TIER2
from arco.storage.store import Store

_WAVE = 8  # base files that are read at once: a store is far away, and memory has an end


async def merge_part(
    store: Store, job: MergeJob, part: MergePart
) -> tuple[tuple[NewRef, ...], int]:
    """Carry out one part: its new files, and how many rows have left."""
    if not part.buckets:
        raise Invalid(f"a part of a merge of {part.table} names no bucket")
    return await _Part(store, job, part, TIER2[job.domain][part.table]).carry_out()


@dataclass(frozen=True)
class _Part:
    store: Store
    job: MergeJob
    part: MergePart
    table: StateTable

    async def carry_out(self) -> tuple[tuple[NewRef, ...], int]:
        news = await self._news()
        if self.part.into_base:
            return await self._into_base(news)
        rows = await self._fold(news.values())
        if not rows.num_rows:
            return (), 0
        return (await self._create(self.part.buckets[0], rows),), 0

    async def _news(self) -> dict[int, pa.Table]:
        """What the tail has of each of these buckets."""
        wanted = set(self.part.buckets)
        refs = [ref for ref in self.part.tail if not wanted.isdisjoint(ref.buckets)]
        found: dict[int, list[pa.Table]] = {}
        for start in range(0, len(refs), _WAVE):
            read = await self._read(refs[start : start + _WAVE])

            def keep(some: list[pa.Table] = read) -> None:
                for bucket, rows in by_bucket(self.table, _concat(self.table, some)):
                    if bucket in wanted:
                        found.setdefault(bucket, []).append(rows)

            await self.store.runtime.tasks.in_thread(keep)
        return {bucket: pa.concat_tables(rows) for bucket, rows in found.items()}

    async def _into_base(self, news: dict[int, pa.Table]) -> tuple[tuple[NewRef, ...], int]:
        """One new base file a bucket: what is still retained of base and tail."""
        since = self.job.retained_from.get(self.table.name)
        files: list[NewRef] = []
        forgotten = 0
        for start in range(0, len(self.part.buckets), _WAVE):
            wave = self.part.buckets[start : start + _WAVE]
            bases = await self._bases(wave)
            for bucket in wave:
                rows = await self._fold(each[bucket] for each in (bases, news) if bucket in each)
                kept = retain(self.table, rows, since)
                forgotten += rows.num_rows - kept.num_rows
                if kept.num_rows:
                    files.append(await self._create(bucket, kept))
        return tuple(files), forgotten

    async def _bases(self, buckets: Sequence[int]) -> dict[int, pa.Table]:
        base = self.part.base
        there = {bucket: base[str(bucket)] for bucket in buckets if str(bucket) in base}
        return dict(zip(there, await self._read(list(there.values())), strict=True))

    async def _read(self, refs: Sequence[FileRef]) -> list[pa.Table]:
        return await self.store.runtime.tasks.gather(
            *(read_rows(self.store, self.table, ref, whole=True) for ref in refs)
        )

    async def _fold(self, parts: Iterable[pa.Table]) -> pa.Table:
        rows = _concat(self.table, parts)
        return await self.store.runtime.tasks.in_thread(lambda: fold(self.table, rows))

    async def _create(self, place: int, rows: pa.Table) -> NewRef:
        return await create_file(self.store, self.job, self.table, place, rows)


def _concat(table: StateTable, parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([table.empty, *parts])
