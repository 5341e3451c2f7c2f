"""Blobs: rows of one table on their way from the task that read them to the one that writes them.

Each shard of a table is folded by one task and becomes one file. A blob is small enough to be a value in a
row of Spark.
"""

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from arco.compactor.shard import by_shard
from arco.fold.table import StateTable

# Of rows in memory; what travels is compressed. An engine keeps several of them in its own memory at once.
_BLOB_BYTES = 4 * 1024 * 1024

_FORMAT = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class Blob(msgspec.Struct, frozen=True):
    """Some rows of one shard of a table, as an Arrow stream."""

    table: str
    shard: int
    data: bytes


def pack(table: StateTable, rows: pa.Table, shards: int) -> Iterator[Blob]:
    """`rows` as blobs, each of one shard."""
    for shard, part in by_shard(table, rows, shards):
        for piece in _pieces(part):
            yield Blob(table.name, shard, _write(piece))


def unpack(table: StateTable, blobs: Iterable[bytes]) -> pa.Table:
    """The rows of all these blobs of one table."""
    read = [pa.ipc.open_stream(data).read_all() for data in blobs]
    return pa.concat_tables([table.empty, *read])


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    most = max(1, rows.num_rows * _BLOB_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)


def _write(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_FORMAT) as stream:
        stream.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data
