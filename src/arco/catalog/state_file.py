"""State files: the Parquet that manifests name, as Arrow in memory."""

import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog.manifest import FileRef, read_named
from arco.core.errors import Corrupt, Unsupported
from arco.fold.fold import conform
from arco.fold.table import StateTable
from arco.storage.store import Store

# A small file is decoded at once; a large one in a thread, so that others are served meanwhile.
_SMALL_BYTES = 32_768


async def read_rows(
    store: Store, table: StateTable, ref: FileRef, *, whole: bool = False, raw: bytes | None = None
) -> pa.Table:
    """The rows of a file with the table's columns as they are today, or `Corrupt`.

    Whoever writes them anew wants them `whole`: a column that this version does not know is refused then,
    as it would be lost. Whoever has the bytes already hands them in as `raw`.
    """
    if raw is None:
        raw = await read_named(store, ref)
    if len(raw) <= _SMALL_BYTES:
        return _decode(table, ref, raw, whole=whole)
    large = raw
    return await store.runtime.tasks.in_thread(lambda: _decode(table, ref, large, whole=whole))


def _decode(table: StateTable, ref: FileRef, raw: bytes, *, whole: bool) -> pa.Table:
    try:
        # Straight from memory and in this thread: reading ahead would only hand bytes to other threads.
        file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
        read = file.read(use_threads=False)
        rows = conform(table, read)
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"{ref.path} is not a Parquet file of {table.name}") from problem
    unknown = set(read.column_names) - set(table.schema.names)
    if whole and unknown:
        raise Unsupported(
            f"{ref.path} has columns of a newer Arco, {sorted(unknown)}: update this one"
        )
    if rows.num_rows != ref.rows:
        raise Corrupt(f"{ref.path} has {rows.num_rows} rows, and its manifest says {ref.rows}")
    return rows.combine_chunks()
