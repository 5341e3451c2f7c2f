"""Encoding: rows as the bytes of a file, and the reference by which a manifest names it."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.catalog.manifest import FileRef
from arco.core.hashing import sha256_hex
from arco.fold.table import ColumnType, StateTable
from arco.fold.tier1 import COMMIT
from arco.fold.tier1 import DOMAIN as TIER1_DOMAIN
from arco.fold.tier2 import QUARANTINE

VISIBILITY = "all"

_ROW_GROUP = 32_768
# In a file of a few rows, which every commit writes, a dictionary and statistics are larger than what they
# spare, and the strong codec takes longer to set up for each column than to compress it.
_FEW_ROWS = 64


def file_path(domain: str, table: StateTable, name: str) -> str:
    """Where a file of a table lies; its visibility is part of the path, so that access can go by it."""
    root = "quarantine" if table.name == QUARANTINE.name else state_root(domain)
    return f"{root}/{domain}/{VISIBILITY}/{table.name}/{name}.parquet"


def index_path(domain: str, name: str) -> str:
    """Where an index of base files lies."""
    return f"{state_root(domain)}/{domain}/index/{name}.json"


def state_root(domain: str) -> str:
    """Below which folder the files of a domain lie."""
    return "snapshots" if domain == TIER1_DOMAIN else "state"


def encode(table: StateTable, rows: pa.Table, path: str) -> tuple[FileRef, bytes]:
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
