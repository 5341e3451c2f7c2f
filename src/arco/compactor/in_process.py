"""The engine in this process: for tests, for the simulator, and as the measure of the other one."""

from collections import defaultdict

from arco.compactor.job import Folded, FoldJob, Merged, MergeJob, NewRef
from arco.compactor.merge_part import merge_part
from arco.compactor.work import finish, gather
from arco.storage.store import Store


class InProcess:
    """Carries out jobs here, one piece after the other, the heavy ones in threads."""

    def __init__(self, store: Store, *, shards: int = 1) -> None:
        self._store = store
        self._shards = shards

    async def fold(self, job: FoldJob) -> Folded:
        gathered = await gather(self._store, job, job.segments, self._shards)
        blobs: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        for blob in gathered.blobs:
            blobs[blob.table, blob.shard].append(blob.data)
        files = [
            await finish(self._store, job, table, shard, data)
            for (table, shard), data in sorted(blobs.items())
        ]
        return Folded(files=tuple(files), counts=gathered.counts)

    async def merge(self, job: MergeJob) -> Merged:
        files: list[NewRef] = []
        forgotten = 0
        for part in job.parts:
            made, left = await merge_part(self._store, job, part)
            files += made
            forgotten += left
        return Merged(files=tuple(files), forgotten=forgotten)
