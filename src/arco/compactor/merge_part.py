"""One part of a merge job: some buckets of a table, from several files into fewer.

Parts are independent: engines run those of a job in parallel, in any process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from arco.catalog.manifest import FileRef
from arco.catalog.state_file import read_rows
from arco.compactor.engine import MergeJob, MergePart, NewStateFile
from arco.compactor.shards import split_by_bucket
from arco.compactor.state_file_writer import create_state_file
from arco.core.errors import Invalid
from arco.fold.fold import fold, retain
from arco.fold.table import StateTable
from arco.fold.tier2 import TIER2
from arco.storage.store import Store

_PARALLEL_READS = 8  # files that are read in parallel


async def merge_part(
    store: Store, job: MergeJob, part: MergePart
) -> tuple[tuple[NewStateFile, ...], int]:
    """Run one part: its new files, and how many rows were left out."""
    if not part.buckets:
        raise Invalid(f"a part of a merge of {part.table} names no bucket")
    return await _PartMerge(store, job, part, TIER2[job.domain][part.table]).run()


@dataclass(frozen=True)
class _PartMerge:
    store: Store
    job: MergeJob
    part: MergePart
    table: StateTable

    async def run(self) -> tuple[tuple[NewStateFile, ...], int]:
        tail_rows = await self._read_tail()
        if self.part.into_base:
            return await self._into_base(tail_rows)
        rows = await self._fold(tail_rows.values())
        if not rows.num_rows:
            return (), 0
        return (await self._create(self.part.buckets[0], rows),), 0

    async def _read_tail(self) -> dict[int, pa.Table]:
        """The rows of the tail in each of these buckets."""
        buckets = set(self.part.buckets)
        refs = [ref for ref in self.part.tail if not buckets.isdisjoint(ref.buckets)]
        rows_by_bucket: dict[int, list[pa.Table]] = {}
        for start in range(0, len(refs), _PARALLEL_READS):
            read = await self._read(refs[start : start + _PARALLEL_READS])

            def keep(some: list[pa.Table] = read) -> None:
                for bucket, rows in split_by_bucket(self.table, _concat(self.table, some)):
                    if bucket in buckets:
                        rows_by_bucket.setdefault(bucket, []).append(rows)

            await self.store.runtime.tasks.in_thread(keep)
        return {bucket: pa.concat_tables(rows) for bucket, rows in rows_by_bucket.items()}

    async def _into_base(
        self, tail_rows: dict[int, pa.Table]
    ) -> tuple[tuple[NewStateFile, ...], int]:
        """One new base file per bucket: the rows of base and tail that are still retained."""
        since = self.job.retained_from.get(self.table.name)
        files: list[NewStateFile] = []
        forgotten = 0
        for start in range(0, len(self.part.buckets), _PARALLEL_READS):
            wave = self.part.buckets[start : start + _PARALLEL_READS]
            bases = await self._bases(wave)
            for bucket in wave:
                rows = await self._fold(
                    each[bucket] for each in (bases, tail_rows) if bucket in each
                )
                retained_rows = retain(self.table, rows, since)
                forgotten += rows.num_rows - retained_rows.num_rows
                if retained_rows.num_rows:
                    files.append(await self._create(bucket, retained_rows))
        return tuple(files), forgotten

    async def _bases(self, buckets: Sequence[int]) -> dict[int, pa.Table]:
        base = self.part.base
        refs = {bucket: base[str(bucket)] for bucket in buckets if str(bucket) in base}
        return dict(zip(refs, await self._read(list(refs.values())), strict=True))

    async def _read(self, refs: Sequence[FileRef]) -> list[pa.Table]:
        return await self.store.runtime.tasks.gather(
            *(read_rows(self.store, self.table, ref, refuse_unknown_columns=True) for ref in refs)
        )

    async def _fold(self, parts: Iterable[pa.Table]) -> pa.Table:
        rows = _concat(self.table, parts)
        return await self.store.runtime.tasks.in_thread(lambda: fold(self.table, rows))

    async def _create(self, bucket: int, rows: pa.Table) -> NewStateFile:
        return await create_state_file(self.store, self.job, self.table, bucket, rows)


def _concat(table: StateTable, parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([table.empty, *parts])
