"""The engine in this process: for tests, for the simulator, and as the measure of the other one."""

from collections.abc import Iterable

from arco.catalog.manifest import Counts
from arco.compactor.engine import Folded, FoldJob, Merged, MergeJob, NewRef, add
from arco.compactor.fold_segments import ShardFiles, gather
from arco.compactor.merge_part import merge_part
from arco.compactor.shards import Blob
from arco.storage.store import Store


class InProcess:
    """Carries out jobs here, one piece after the other, the heavy ones in threads."""

    def __init__(self, store: Store, *, shards: int = 1) -> None:
        self._store = store
        self._shards = shards

    async def fold(self, job: FoldJob) -> Folded:
        blobs, counts = [], Counts()
        async for gathered in gather(self._store, job, job.segments, self._shards):
            blobs += gathered.blobs
            counts = add(counts, gathered.counts)
        return Folded(files=tuple(await finish(self._store, job, blobs)), counts=counts)

    async def merge(self, job: MergeJob) -> Merged:
        files: list[NewRef] = []
        forgotten = 0
        for part in job.parts:
            made, left = await merge_part(self._store, job, part)
            files += made
            forgotten += left
        return Merged(files=tuple(files), forgotten=forgotten)


async def finish(store: Store, job: FoldJob, blobs: Iterable[Blob]) -> list[NewRef]:
    """The files of all these blobs."""
    files = ShardFiles(store, job)
    made = [await files.add(blob.table, blob.shard, blob.data) for blob in blobs]
    return [*(each for each in made if each is not None), *[each async for each in files.finish()]]
