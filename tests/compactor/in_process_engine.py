"""An engine that runs jobs in this process: for tests, and to compare other engines with."""

from collections.abc import Iterable

from arco.catalog.manifest import Counts
from arco.compactor.engine import (
    FoldJob,
    FoldResult,
    MergeJob,
    MergeResult,
    NewStateFile,
    add_counts,
)
from arco.compactor.fold_segments import ShardFileWriter, fold_partially
from arco.compactor.merge_part import merge_part
from arco.compactor.shards import Blob
from arco.storage.store import Store


class InProcessEngine:
    """Carries out jobs here, one piece after the other, the heavy ones in threads."""

    def __init__(self, store: Store, *, shards: int = 1) -> None:
        self._store = store
        self._shards = shards

    async def fold(self, job: FoldJob) -> FoldResult:
        blobs, counts = [], Counts()
        async for gathered in fold_partially(self._store, job, job.segments, self._shards):
            blobs += gathered.blobs
            counts = add_counts(counts, gathered.counts)
        return FoldResult(files=tuple(await write_files(self._store, job, blobs)), counts=counts)

    async def merge(self, job: MergeJob) -> MergeResult:
        files: list[NewStateFile] = []
        forgotten = 0
        for part in job.parts:
            part_files, forgotten_rows = await merge_part(self._store, job, part)
            files += part_files
            forgotten += forgotten_rows
        return MergeResult(files=tuple(files), forgotten=forgotten)


async def write_files(store: Store, job: FoldJob, blobs: Iterable[Blob]) -> list[NewStateFile]:
    """The files of all these blobs."""
    files = ShardFileWriter(store, job)
    finished_files = [await files.add(blob.table, blob.shard, blob.data) for blob in blobs]
    return [
        *(each for each in finished_files if each is not None),
        *[each async for each in files.finish()],
    ]
