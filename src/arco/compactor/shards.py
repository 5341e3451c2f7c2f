"""Shards: rows of a table split by bucket, and the blobs in which they travel between tasks.

A shard is a range of neighbouring buckets. Each shard of a table is folded by one task. A blob is small
enough to be a value in a row of Spark.
"""

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.fold.table import StateTable


def split_by_bucket(table: StateTable, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each non-empty bucket, in their original order."""
    return split_by_shard(table, rows, 1 if table.bucket is None else table.bucket.count)


def split_by_shard(
    table: StateTable, rows: pa.Table, shards: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each non-empty shard; a table without buckets is shard 0."""
    if table.bucket is None or shards == 1:
        yield 0, rows
        return
    values = rows.column(table.bucket.column).combine_chunks().dictionary_encode()
    shard_of_value = [
        table.bucket.of(value) * shards // table.bucket.count
        for value in values.dictionary.to_pylist()
    ]
    shard_of_row = pa.array(shard_of_value, pa.int32()).take(values.indices)
    # One stable sort and one copy serve all shards.
    ordered = rows.take(pc.sort_indices(shard_of_row))
    start = 0
    for shard, size in sorted(_sizes(shard_of_row)):
        yield shard, ordered.slice(start, size)
        start += size


def _sizes(shard_of_row: pa.Array) -> list[tuple[int, int]]:
    return [(each["values"], each["counts"]) for each in pc.value_counts(shard_of_row).to_pylist()]


# Of rows in memory, before compression. An engine holds several blobs at once.
_BLOB_BYTES = 4 * 1024 * 1024

_FORMAT = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class Blob(msgspec.Struct, frozen=True):
    """Some rows of one shard of a table, as an Arrow stream."""

    table: str
    shard: int
    data: bytes


def pack_rows(table: StateTable, rows: pa.Table, shards: int) -> Iterator[Blob]:
    """`rows` as blobs, each of one shard."""
    for shard, part in split_by_shard(table, rows, shards):
        for piece in _pieces(part):
            yield Blob(table.name, shard, _write(piece))


def unpack_rows(table: StateTable, blobs: Iterable[bytes]) -> pa.Table:
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
