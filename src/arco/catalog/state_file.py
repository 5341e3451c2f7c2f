"""State files: the Parquet that manifests name, as Arrow in memory."""

import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog.manifest import FileRef, read_named
from arco.core.errors import Corrupt
from arco.fold.fold import conform
from arco.fold.table import Table
from arco.storage.store import Store

# A small file is decoded at once; a large one in a thread, so that others are served meanwhile.
_SMALL_BYTES = 32_768


async def read_rows(store: Store, table: Table, ref: FileRef) -> pa.Table:
    """The rows of a file with the table's columns as they are today, or `Corrupt`."""
    raw = await read_named(store, ref)
    if len(raw) <= _SMALL_BYTES:
        return _decode(table, ref, raw)
    return await store.runtime.tasks.in_thread(lambda: _decode(table, ref, raw))


def _decode(table: Table, ref: FileRef, raw: bytes) -> pa.Table:
    try:
        # Straight from memory and in this thread: reading ahead would only hand bytes to other threads.
        file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
        rows = conform(table, file.read(use_threads=False))
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"{ref.path} is not a Parquet file of {table.name}") from problem
    if rows.num_rows != ref.rows:
        raise Corrupt(f"{ref.path} has {rows.num_rows} rows, and its manifest says {ref.rows}")
    return rows.combine_chunks()
