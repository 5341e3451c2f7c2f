"""New files of a job: each under a name that no other try of the same work has."""

import pyarrow as pa

from arco.compactor.encode import encode, file_path
from arco.compactor.job import FoldJob, MergeJob, NewRef
from arco.core.errors import Conflict, Unavailable, Unknown
from arco.fold.table import StateTable
from arco.storage.store import Store

_RANDOM_DIGITS = 9


async def create_file(
    store: Store, job: FoldJob | MergeJob, table: StateTable, place: int, rows: pa.Table
) -> NewRef:
    """Folded rows as a file; its name tells its bucket or shard, and what this try has drawn."""
    drawn = int.from_bytes(store.runtime.rng.randbytes(8), "big") % 10**_RANDOM_DIGITS
    name = f"{place:03d}{drawn:0{_RANDOM_DIGITS}d}-{job.attempt}"
    path = file_path(job.domain, table, name)
    ref, raw = await store.runtime.tasks.in_thread(lambda: encode(table, rows, path))
    try:
        await store.create(path, raw)
    except (Unknown, Conflict) as problem:
        # No manifest names it, so nothing has happened.
        raise Unavailable(f"{path} could not be stored; retry") from problem
    return NewRef(table.name, ref)
