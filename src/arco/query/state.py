"""State: the rows of one table of state, made of the files that a manifest names."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.core.errors import Corrupt
from arco.fold.fold import conform, fold
from arco.fold.table import Table
from arco.fold.tier1 import MOVED


@dataclass(frozen=True)
class Piece:
    """The rows of one file."""

    rows: pa.Table
    tail: bool
    buckets: frozenset[int]


def decode(table: Table, raw: bytes, rows: int) -> pa.Table:
    """The rows of a file with the table's columns as they are today, or `Corrupt`."""
    try:
        found = conform(table, pq.read_table(io.BytesIO(raw), use_threads=False))
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"a file of {table.name} is not Parquet of that table") from problem
    if found.num_rows != rows:
        raise Corrupt(
            f"a file of {table.name} has {found.num_rows} rows, and its manifest says {rows}"
        )
    return found


def merge(table: Table, pieces: Sequence[Piece]) -> pa.Table:
    """One row for each key, without those that have moved to another bucket.

    A base file was folded when it was written, so one that the tail has no news for is taken as it is.
    """
    news = frozenset[int]().union(*(piece.buckets for piece in pieces if piece.tail))
    stale = [piece.rows for piece in pieces if piece.tail or piece.buckets & news]
    done = [piece.rows for piece in pieces if not piece.tail and not piece.buckets & news]
    empty = table.schema.empty_table()
    rows = pa.concat_tables([*done, fold(table, pa.concat_tables([empty, *stale]))])
    if MOVED in rows.column_names:
        rows = rows.filter(pc.invert(pc.fill_null(rows.column(MOVED), False)))
    return rows
