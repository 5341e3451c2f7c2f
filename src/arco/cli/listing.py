"""Lists: a table on a terminal, aligned lines in a pipe, and one document for programs.

A pipe gets every line as soon as its page is there, and nothing is cut off: the first rows say how wide
the columns are, and what is wider later simply takes its room.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice

import msgspec
from rich.cells import cell_len

Cells = Sequence[str]
Pages = Iterator[list[msgspec.Raw]]

_MEASURED = 1_000  # rows that say how wide the columns are
_MOST_ON_A_TERMINAL = 5_000  # rows; above that a table takes longer to draw than to read


def print_rows(headings: Cells, pages: Iterable[Sequence[Cells]]) -> None:
    """Print a list for people."""
    if sys.stdout.isatty():
        _draw(headings, _gather(pages))
    else:
        _align(headings, pages)


def print_items(pages: Pages) -> None:
    """Print a list for programs: one document, one item to a line, as they come."""
    items = chain.from_iterable(pages)
    first = next(items, None)  # a list that cannot be had prints nothing at all
    print('{"items": [', end="")
    if first is not None:
        print(f"\n{bytes(first).decode()}", end="")
    for item in items:
        print(f",\n{bytes(item).decode()}", end="")
    print("\n]}")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print what is known of one thing, leaving out what is empty."""
    shown = [(name, one_line(value)) for name, value in fields if value]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        print(f"{name:<{width}}  {value}")


def one_line(text: str) -> str:
    """`text` with everything escaped that would break a line or speak to the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _align(headings: Cells, pages: Iterable[Sequence[Cells]]) -> None:
    rows = ([one_line(cell) for cell in row] for row in chain.from_iterable(pages))
    first = [headings, *islice(rows, _MEASURED)]
    widths = [max(cell_len(row[at]) for row in first) for at in range(len(headings))]
    for row in chain(first, rows):
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

    if len(rows) > _MOST_ON_A_TERMINAL:
        _align(headings, [rows])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"{len(rows)} {'line' if len(rows) == 1 else 'lines'}", style="dim")


def _gather(pages: Iterable[Sequence[Cells]]) -> list[Cells]:
    """All rows, with a bar where there are many to wait for."""
    rows = chain.from_iterable(pages)
    gathered = list(islice(rows, _MEASURED))
    if len(gathered) == _MEASURED:
        with _progress() as advance:
            for row in rows:
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
