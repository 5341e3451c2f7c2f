"""Writing state files: folded rows as Parquet, and the reference by which a manifest names the file."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.manifest import FileRef, Ref
from arco.compactor.domains import VISIBILITY, file_path
from arco.compactor.engine import FoldJob, MergeJob, NewStateFile
from arco.core.errors import Conflict, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.fold.parquet_file import encode_combined, encode_table
from arco.fold.table import StateTable
from arco.fold.tier1 import COMMIT
from arco.storage.store import Store


def encode_state_file(table: StateTable, rows: pa.Table, path: str) -> tuple[FileRef, bytes]:
    """The bytes of a state file with these folded and sorted rows, and its reference."""
    raw = encode_table(table, rows)
    return _file_ref(table, rows, path, raw, sha256_hex(raw), is_combined=False), raw


def encode_combined_file(
    tables: Mapping[str, StateTable], rows: Mapping[str, pa.Table], path: str
) -> tuple[dict[str, FileRef], Ref, bytes]:
    """A combined file with folded and sorted rows by table: a reference for each, its own, its bytes."""
    raw = encode_combined(tables, rows)
    sha256 = sha256_hex(raw)
    refs = {
        name: _file_ref(tables[name], each, path, raw, sha256, is_combined=True)
        for name, each in rows.items()
    }
    return refs, Ref(path=path, sha256=sha256), raw


def _file_ref(
    table: StateTable, rows: pa.Table, path: str, raw: bytes, sha256: str, *, is_combined: bool
) -> FileRef:
    return FileRef(
        path=path,
        rows=rows.num_rows,
        bytes=len(raw),
        sha256=sha256,
        low=_key_at(table, rows, 0),
        high=_key_at(table, rows, rows.num_rows - 1),
        buckets=table.buckets_in(rows),
        newest=pc.max(rows.column(COMMIT)).as_py() if COMMIT in rows.column_names else -1,
        dropped_from=_dropped_from(rows),
        visibility=VISIBILITY,
        is_combined=is_combined,
    )


def _key_at(table: StateTable, rows: pa.Table, at: int) -> tuple[str, ...]:
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
    store: Store, job: FoldJob | MergeJob, table: StateTable, shard: int, rows: pa.Table
) -> NewStateFile:
    """Create a state file. Its name has its bucket or shard and a random number, unique to this try."""
    random_number = int.from_bytes(store.runtime.rng.randbytes(8), "big") % 10**_RANDOM_DIGITS
    name = f"{shard:03d}{random_number:0{_RANDOM_DIGITS}d}-{job.attempt}"
    path = file_path(job.domain, table, name)
    ref, raw = await store.runtime.tasks.in_thread(lambda: encode_state_file(table, rows, path))
    try:
        await store.create(path, raw)
    except (Unknown, Conflict) as problem:
        # No manifest names it, so nothing was committed.
        raise Unavailable(f"{path} could not be stored; retry") from problem
    return NewStateFile(table.name, ref)
