"""The result of a query: lines for people, and JSON, CSV or an Arrow file for programs."""

import csv
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from arco.cli.listing import print_rows
from arco.core import json
from arco.core.errors import Invalid

_ROWS = 1_000


def print_result(table: pa.Table) -> None:
    """Print lines for people."""
    print_rows(table.column_names, ([_texts(row) for row in page] for page in _pages(table)))


def print_csv(table: pa.Table) -> None:
    """Print comma-separated values, as RFC 4180 has them; nulls are empty."""
    writer = csv.writer(sys.stdout)
    writer.writerow(table.column_names)
    for page in _pages(table):
        writer.writerows([_texts(row) for row in page])


def print_json(table: pa.Table) -> None:
    """Print the document that the API answers a query with, one row to a line."""
    columns = [{"name": each.name, "type": str(each.type)} for each in table.schema]
    print(f'{{"columns": {json.encode(columns).decode()},\n"rows": [', end="")
    between = "\n"
    for page in _pages(table):
        for row in page:
            print(f"{between}{_encode(row)}", end="")
            between = ",\n"
    print("\n]}")


def write_arrow(table: pa.Table, file: str) -> None:
    """Write an Arrow file, and say so."""
    place = Path(file).expanduser()
    try:
        with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except OSError as problem:
        raise Invalid(f"--arrow {file!r} cannot be written: {problem}") from problem
    print(f"Wrote {table.num_rows} rows to {place}.")


def _pages(table: pa.Table) -> Iterator[list[tuple[Any, ...]]]:
    """The rows, some at a time; Python's times end at microseconds."""
    for start in range(0, max(1, table.num_rows), _ROWS):
        columns = [_values(column) for column in table.slice(start, _ROWS).columns]
        yield list(zip(*columns, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def _texts(row: tuple[Any, ...]) -> list[str]:
    return [_text(value) for value in row]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return _encode(value) if isinstance(value, list | dict | tuple | bytes) else str(value)


def _encode(value: Any) -> str:
    try:
        return json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as problem:
        raise Invalid("a value cannot be written as JSON: cast it, or use --arrow") from problem
