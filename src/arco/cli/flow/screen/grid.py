"""Partitions as a picture: a calendar for time, a grid for the rest, counts where there are too many.

2026-01  . . . . C C C F C C
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from arco.cli.flow.screen.marks import Mark
from arco.events.partition_key import parse_partition_key
from arco.flow.partition import Daily, Hourly, Monthly, Partitions, Weekly
from arco.flow.partition.time_dimension import TimeDimension

_MOST_ROWS = 120
_MOST_COLUMNS = 60

Cell = tuple[str, str]  # the row and the column that a partition stands in


@dataclass
class Grid:
    """Rows and columns of marks; where there is none, there is no such partition."""

    corner: str
    rows: dict[str, dict[str, Mark]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    every: int = 1  # which columns are named: those whose number this divides


@dataclass
class Tally:
    """How many partitions of each period stand how."""

    corner: str
    rows: dict[str, Counter[Mark]] = field(default_factory=dict)


def picture(partitions: Partitions, marks: dict[str, Mark]) -> Grid | Tally:
    """The best picture of these: all cells if a person can look at them, else counts."""
    timed = [each for each in partitions if isinstance(each, TimeDimension)]
    if len(timed) == 1 and len(partitions.names) == 1:
        return _calendar(timed[0], marks)
    if len(timed) == 1:
        return _product(timed[0], marks)
    return _listed(partitions, marks)


def _calendar(timed: TimeDimension, marks: dict[str, Mark]) -> Grid | Tally:
    corner, columns, every, cell = _layout(timed)
    grid = Grid(corner, columns=columns, every=every)
    for key, mark in sorted(marks.items()):
        row, column = cell(_value(key, timed.name))
        grid.rows.setdefault(row, {})[column] = mark
        if column not in grid.columns:  # the hour that a clock shows twice
            grid.columns += (column,)
    return grid if len(grid.rows) <= _MOST_ROWS else _tally(timed, marks)


def _product(timed: TimeDimension, marks: dict[str, Mark]) -> Grid | Tally:
    """Time goes down, all else stands side by side."""
    grid = Grid(timed.name)
    columns: dict[str, None] = {}
    for key, mark in sorted(marks.items()):
        values = parse_partition_key(key) or {}
        row = values.pop(timed.name, key)
        column = "/".join(values[name] for name in sorted(values))
        columns[column] = None
        grid.rows.setdefault(row, {})[column] = mark
    grid.columns = tuple(sorted(columns))
    if len(grid.rows) > _MOST_ROWS or len(grid.columns) > _MOST_COLUMNS:
        return _tally(timed, marks)
    return grid


def _listed(partitions: Partitions, marks: dict[str, Mark]) -> Grid | Tally:
    """One list goes down; of two or more, the first goes down and the rest stands beside it."""
    first = partitions.names[0] if partitions.names else ""
    grid = Grid(first)
    tally = Tally(first)
    columns: dict[str, None] = {}
    for key, mark in sorted(marks.items()):
        values = parse_partition_key(key) or {}
        row = values.pop(first, key)
        column = "/".join(values[name] for name in sorted(values))
        columns[column] = None
        grid.rows.setdefault(row, {})[column] = mark
        tally.rows.setdefault(row, Counter())[mark] += 1
    grid.columns = tuple(sorted(columns))
    if len(grid.rows) > _MOST_ROWS:
        return Tally(first, {"all": _total(tally.rows.values())})
    return grid if len(grid.columns) <= _MOST_COLUMNS else tally


def _tally(timed: TimeDimension, marks: dict[str, Mark]) -> Tally:
    """By month; by year where weeks and months are counted, or where there are too many months."""
    by_year = isinstance(timed, Weekly | Monthly)
    for width in (4,) if by_year else (7, 4):
        rows: dict[str, Counter[Mark]] = {}
        for key, mark in sorted(marks.items()):
            rows.setdefault(_value(key, timed.name)[:width], Counter())[mark] += 1
        if len(rows) <= 2 * _MOST_ROWS:
            break
    return Tally("year" if width == 4 else "month", rows)


def _layout(timed: TimeDimension) -> tuple[str, tuple[str, ...], int, Callable[[str], Cell]]:
    """How the partitions of a grain lie on a page: corner, columns, which are named, the cell of one."""
    match timed:
        case Hourly():
            return "day", _numbers(0, 24), 3, lambda value: (value[:10], value[11:])
        case Daily():
            return "month", _numbers(1, 32), 5, lambda value: (value[:7], value[8:])
        case Weekly():
            return "year", _numbers(1, 54), 5, lambda value: (value[:4], value[6:])
        case _:
            return "year", _numbers(1, 13), 1, lambda value: (value[:4], value[5:])


def _numbers(start: int, stop: int) -> tuple[str, ...]:
    return tuple(f"{each:02}" for each in range(start, stop))


def _value(key: str, name: str) -> str:
    return (parse_partition_key(key) or {}).get(name, key)


def _total(counts: Iterable[Counter[Mark]]) -> Counter[Mark]:
    total: Counter[Mark] = Counter()
    for each in counts:
        total.update(each)
    return total
