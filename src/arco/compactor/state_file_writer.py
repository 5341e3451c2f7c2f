"""Encoding: rows as the bytes of a file, and the reference by which a manifest names it."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.catalog.manifest import FileRef
from arco.compactor.domains import VISIBILITY, file_path
from arco.compactor.engine import FoldJob, MergeJob, NewStateFile
from arco.core.errors import Conflict, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.fold.table import ColumnType, StateTable
from arco.fold.tier1 import COMMIT
from arco.storage.store import Store

_ROW_GROUP = 32_768
# In a file of a few rows, which every commit writes, a dictionary and statistics are larger than what they
# spare, and the strong codec takes longer to set up for each column than to compress it.
_FEW_ROWS = 64


def encode_state_file(table: StateTable, rows: pa.Table, path: str) -> tuple[FileRef, bytes]:
    """Folded rows, sorted as the table says, as a file at `path`."""
    many = rows.num_rows > _FEW_ROWS
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression="zstd" if many else "lz4",
        row_group_size=_ROW_GROUP,
        store_schema=False,
        use_dictionary=_repeated(table) if many else False,
        write_statistics=_compared(table) if many else False,
    )
    raw: bytes = sink.getvalue().to_pybytes()
    ref = FileRef(
        path=path,
        rows=rows.num_rows,
        bytes=len(raw),
        sha256=sha256_hex(raw),
        low=_place(table, rows, 0),
        high=_place(table, rows, rows.num_rows - 1),
        buckets=table.buckets_in(rows),
        newest=pc.max(rows.column(COMMIT)).as_py() if COMMIT in rows.column_names else -1,
        dropped_from=_dropped_from(rows),
        visibility=VISIBILITY,
    )
    return ref, raw


def _repeated(table: StateTable) -> list[str]:
    """Columns in which the same texts come again and again; keys and orders would only be written twice."""
    return [
        each.name
        for each in table.columns
        if each.kind is ColumnType.STRING and each.name not in table.key
    ]


def _compared(table: StateTable) -> list[str]:
    """Columns that somebody may compare; nobody compares orders but the fold, which reads them all."""
    return [each.name for each in table.columns if each.kind is not ColumnType.BYTES]


def _place(table: StateTable, rows: pa.Table, at: int) -> tuple[str, ...]:
    values = (rows.column(name)[at].as_py() for name in table.sort)
    return tuple("" if value is None else str(value) for value in values)


def _dropped_from(rows: pa.Table) -> datetime | None:
    if "dropped_at" not in rows.column_names:
        return None
    dropped = rows.column("dropped_at")
    if dropped.null_count == rows.num_rows:
        return None
    first: datetime = pc.min(dropped).as_py()
    return first


_RANDOM_DIGITS = 9


async def create_state_file(
    store: Store, job: FoldJob | MergeJob, table: StateTable, place: int, rows: pa.Table
) -> NewStateFile:
    """Folded rows as a file; its name tells its bucket or shard, and what this try has drawn."""
    drawn = int.from_bytes(store.runtime.rng.randbytes(8), "big") % 10**_RANDOM_DIGITS
    name = f"{place:03d}{drawn:0{_RANDOM_DIGITS}d}-{job.attempt}"
    path = file_path(job.domain, table, name)
    ref, raw = await store.runtime.tasks.in_thread(lambda: encode_state_file(table, rows, path))
    try:
        await store.create(path, raw)
    except (Unknown, Conflict) as problem:
        # No manifest names it, so nothing has happened.
        raise Unavailable(f"{path} could not be stored; retry") from problem
    return NewStateFile(table.name, ref)
