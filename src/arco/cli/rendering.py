"""Lists and query results: a table on a terminal, aligned lines in a pipe, JSON, CSV or Arrow for programs.

A pipe gets every line as soon as it is read, and nothing is cut off: the first rows set the width of the
columns, and a wider cell later shifts its line.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.cells import cell_len

from arco.core import json
from arco.core.errors import Invalid

if TYPE_CHECKING:
    import pyarrow as pa

Cells = Sequence[str]

_MEASURED = 1_000  # rows that set the width of the columns
_MAX_ON_A_TERMINAL = 5_000  # rows; above that a table takes longer to draw than to read
_BATCH_ROWS = 1_000  # of a query result that are converted at once


def print_rows(headings: Cells, rows: Iterable[Cells]) -> None:
    """Print a list for people."""
    if sys.stdout.isatty():
        _draw(headings, _gather(rows))
    else:
        _align(headings, rows)


def print_items(documents: Iterable[bytes]) -> None:
    """Print a list of JSON documents as one document, one item to a line, as they are read."""
    items = iter(documents)
    first = next(items, None)  # a list that cannot be read prints nothing at all
    print('{"items": [', end="")
    if first is not None:
        print(f"\n{first.decode()}", end="")
    for item in items:
        print(f",\n{item.decode()}", end="")
    print("\n]}")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print the fields of one object, without those that are empty."""
    shown = [(name, one_line(value)) for name, value in fields if value]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        print(f"{name:<{width}}  {value}")


def one_line(text: str) -> str:
    """`text` with everything escaped that would break a line or control the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _align(headings: Cells, rows: Iterable[Cells]) -> None:
    escaped = ([one_line(cell) for cell in row] for row in rows)
    first = [headings, *islice(escaped, _MEASURED)]
    widths = [max(cell_len(row[at]) for row in first) for at in range(len(headings))]
    for row in chain(first, escaped):
        print(_line(row, widths))


def _line(row: Cells, widths: list[int]) -> str:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def _draw(headings: Cells, rows: list[Cells]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if len(rows) > _MAX_ON_A_TERMINAL:
        _align(headings, rows)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"{len(rows)} {'line' if len(rows) == 1 else 'lines'}", style="dim")


def _gather(rows: Iterable[Cells]) -> list[Cells]:
    """All rows, with a progress bar where there are many to wait for."""
    remaining = iter(rows)
    gathered = list(islice(remaining, _MEASURED))
    if len(gathered) == _MEASURED:
        with _progress() as advance:
            for row in remaining:
                gathered.append(row)
                advance(len(gathered))
    return gathered


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.completed} read"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda count: progress.update(task, completed=count)


# Query results


def print_result(table: "pa.Table") -> None:
    """Print lines for people."""
    print_rows(table.column_names, (_texts(row) for row in _rows(table)))


def print_csv(table: "pa.Table") -> None:
    """Print comma-separated values, as RFC 4180 has them; nulls are empty."""
    writer = csv.writer(sys.stdout)
    writer.writerow(table.column_names)
    writer.writerows(_texts(row) for row in _rows(table))


def print_json(table: "pa.Table") -> None:
    """Print the document that the API answers a query with, one row to a line."""
    columns = [{"name": each.name, "type": str(each.type)} for each in table.schema]
    print(f'{{"columns": {json.encode(columns).decode()},\n"rows": [', end="")
    between = "\n"
    for row in _rows(table):
        print(f"{between}{_encode(row)}", end="")
        between = ",\n"
    print("\n]}")


def write_arrow(table: "pa.Table", file: str) -> None:
    """Write an Arrow file, and print its name."""
    import pyarrow as pa

    path = Path(file).expanduser()
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except OSError as problem:
        raise Invalid(f"--arrow {file!r} cannot be written: {problem}") from problem
    print(f"Wrote {table.num_rows} rows to {path}.")


def _rows(table: "pa.Table") -> Iterator[tuple[Any, ...]]:
    """The rows, of which few are converted at a time; Python's times end at microseconds."""
    for start in range(0, max(1, table.num_rows), _BATCH_ROWS):
        columns = [_values(column) for column in table.slice(start, _BATCH_ROWS).columns]
        yield from zip(*columns, strict=True)


def _values(column: "pa.ChunkedArray") -> list[Any]:
    import pyarrow as pa

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
