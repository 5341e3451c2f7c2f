"""The state of the catalog as its files and its events say it, read without the code that is judged."""

from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog.event import read_event
from arco.catalog.manifest import CommitOperation
from arco.catalog.model import AnyRow, to_columns
from arco.core import json
from arco.ledger.envelope import Envelope

from .model_rows import Row, plain

KEYS = {
    "catalogs": ("catalog_id",),
    "schemas": ("schema_id",),
    "tables": ("schema_id", "table_id"),
    "columns": ("table_id", "column_id"),
    "schema_versions": ("table_id", "version"),
    "objects": ("id",),
    "places": ("location", "table_id"),
}

Key = tuple[str, tuple[Any, ...]]
State = dict[Key, Row]


@lru_cache(maxsize=4096)
def rows_in(table: str, raw: bytes) -> list[tuple[Key, tuple[int, int], Row]]:
    """A table's rows in a Parquet file, each with its key and its order. Not to be changed."""
    file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
    rows = file.read(use_threads=False).to_pylist(maps_as_pydicts="strict")
    if "_commit" not in file.schema_arrow.names:  # a combined file: a column for each table
        rows = [row[table] for row in rows if row[table] is not None]
    return [(_key(table, row), (row["_commit"], row.pop("_position")), _tidy(row)) for row in rows]


def lay(state: State, orders: dict[Key, tuple[int, int]], table: str, raw: bytes) -> None:
    """Put the rows of a file over those of lower order (P22)."""
    for key, order, row in rows_in(table, raw):
        if order >= orders.get(key, (-1, -1)):
            state[key], orders[key] = row, order


def rows_of(bodies: dict[str, bytes], operation: CommitOperation) -> list[tuple[Key, Row]]:
    """The rows in the event of an operation, from the line of the ledger that the operation names."""
    lines = bodies[operation.event_path].split(b"\n")
    envelope = json.decode(lines[operation.line], Envelope)
    change, tables = read_event(envelope)
    if (envelope.event_id, change.request_id) != (operation.event_id, operation.request_id):
        raise AssertionError(
            f"{operation.event_path}#{operation.line} is not the event of {operation.request_id}"
        )
    return [
        (_key(table, values), _tidy(values))
        for table, rows in tables.items()
        for values in map(_values, rows)
    ]


def unversioned(row: Row) -> Row:
    """A row of `schema_versions` as the model has it: the columns read, the differences left out."""
    if "changes" not in row:
        return row
    columns = msgspec.json.decode(row["columns"])
    return plain({**row, "columns": columns, "changes": None})


def _key(table: str, row: Row) -> Key:
    return table, tuple(row[name] for name in KEYS[table])


def _tidy(row: Row) -> Row:
    if not row.get("_moved"):
        row.pop("_moved", None)
    return plain(row)


def _values(row: AnyRow) -> Row:
    return {name: _plain(value) for name, value in to_columns(row).items()}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
