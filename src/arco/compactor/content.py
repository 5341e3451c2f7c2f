"""The content of a state file, held against all that its manifest claims about it.

The hash of a file says that its bytes are those that were published. This says that they are right: a
Parquet file of its table, sorted, with one row for each key, in the buckets and between the bounds by which
readers pass files over. It is worked out anew, not with the code that has made the claims.
"""

import io
from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.catalog.manifest import FileRef
from arco.fold.table import StateTable
from arco.fold.tier1 import COMMIT

DROPPED = "dropped_at"


def fault_in(table: StateTable, ref: FileRef, raw: bytes, *, in_tail: bool) -> pa.Table | str:
    """The rows of a file, or what is wrong with it in one sentence."""
    try:
        rows = pq.read_table(io.BytesIO(raw), use_threads=False)
    except (pa.ArrowException, OSError, ValueError):
        return "is not a Parquet file"
    fault = _fault_in_schema(table, rows.schema)
    if fault is None and rows.num_rows == 0:
        fault = "has no rows"
    if fault is None:
        fault = _fault_in_rows(table, rows) or _fault_in_claims(table, ref, rows)
    if fault is None and in_tail and COMMIT in table.schema.names:
        fault = _fault_in_tail(rows)
    return rows if fault is None else fault


def _fault_in_schema(table: StateTable, schema: pa.Schema) -> str | None:
    needed = {*table.key, *table.sort, *_stamps(table)}
    missing = sorted(needed - set(schema.names))
    if missing:
        return f"has no column {missing[0]}"
    for field in schema:
        if field.name not in table.schema.names:
            return f"has a column {field.name}, which {table.name} does not"
        wanted = table.schema.field(field.name).type
        if field.type != wanted:
            return f"has {field.name} as {field.type}, not as {wanted}"
    return None


def _fault_in_rows(table: StateTable, rows: pa.Table) -> str | None:
    for name in (*table.key, *_stamps(table)):
        if rows.column(name).null_count:
            return f"has a row without {name}"
    if rows.group_by(list(table.key)).aggregate([]).num_rows != rows.num_rows:
        return "has two rows with one key"
    order = [(name, "ascending", "at_start") for name in (*table.sort, *table.key)]
    if pc.sort_indices(rows, sort_keys=order).to_pylist() != list(range(rows.num_rows)):
        return "is not sorted"
    return None


def _fault_in_claims(table: StateTable, ref: FileRef, rows: pa.Table) -> str | None:
    found: Iterable[tuple[str, object, object]] = (
        ("rows", ref.rows, rows.num_rows),
        ("low", ref.low, _bound(table, rows, 0)),
        ("high", ref.high, _bound(table, rows, rows.num_rows - 1)),
        ("buckets", ref.buckets, tuple(sorted(set(table.buckets_of(rows))))),
        ("newest", ref.newest, _newest(rows)),
        ("dropped_from", ref.dropped_from, _dropped_from(rows)),
    )
    for name, said, is_so in found:
        if said != is_so:
            return f"has {name} {is_so!r}, and its manifest says {said!r}"
    return None


def _stamps(table: StateTable) -> tuple[str, ...]:
    """What the compactor writes into every row: in Tier 2 nothing, as rows there have no commit."""
    return tuple(name for name in (COMMIT,) if name in table.schema.names)


def _newest(rows: pa.Table) -> int:
    if COMMIT not in rows.column_names:
        return -1
    newest: int = pc.max(rows.column(COMMIT)).as_py()
    return newest


def _fault_in_tail(rows: pa.Table) -> str | None:
    if pc.count_distinct(rows.column(COMMIT)).as_py() != 1:
        return "is of one commit, and has rows of several"
    return None


def _bound(table: StateTable, rows: pa.Table, at: int) -> tuple[str, ...]:
    values = (rows.column(name)[at].as_py() for name in table.sort)
    return tuple("" if value is None else str(value) for value in values)


def _dropped_from(rows: pa.Table) -> datetime | None:
    if DROPPED not in rows.column_names:
        return None
    first: datetime | None = pc.min(rows.column(DROPPED)).as_py()
    return first
