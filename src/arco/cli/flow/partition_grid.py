"""Partitions as a picture: a calendar for time, a grid for the rest, counts where there are too many.

2026-01  . . . . C C C F C C
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from rich.text import Text

from arco.events.partition_key import parse_partition_key
from arco.flow.partition import Daily, Hourly, Monthly, Partitions, Weekly
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.context import TableIndex


class PartitionMark(StrEnum):
    """The status of a partition, as a letter."""

    COMPLETE = "C"
    STALE = "S"
    RUNNING = "R"
    FAILED_OLDER_DATA_SERVED = "O"
    FAILED_NEVER_MADE = "F"
    MISSING = "."

    @property
    def word(self) -> str:
        """What the letter stands for."""
        return _WORDS.get(self.name, self.name.lower())

    @property
    def status(self) -> str:
        """The status alone, whether or not older data are served."""
        return self.name.partition("_")[0]


_WORDS = {
    "FAILED_OLDER_DATA_SERVED": "failed, older data served",
    "FAILED_NEVER_MADE": "failed, never made",
}


STYLES = {
    PartitionMark.COMPLETE: "green",
    PartitionMark.STALE: "yellow",
    PartitionMark.RUNNING: "cyan",
    PartitionMark.FAILED_OLDER_DATA_SERVED: "red",
    PartitionMark.FAILED_NEVER_MADE: "bold red",
    PartitionMark.MISSING: "dim",
}


def marks_of(
    table: TableIndex,
    existing: Iterable[str],
    stale: Collection[str],
    current: Collection[str] = (),
) -> dict[str, PartitionMark]:
    """A mark for each partition: those that exist by the calendar, and those with recorded state.

    `current` are those whose data are what would be made now, whatever became of the last attempt. All
    partitions of a source without recorded partitions exist once it exists, as for planning.
    """
    keys, state = list(existing), table.state
    marks = {
        key: PartitionMark.MISSING if material is None else PartitionMark.COMPLETE
        for key, material in zip(keys, table.materials(keys), strict=True)
    }
    for key, status, material in zip(state.keys, state.statuses, state.materials, strict=True):
        is_over = status == "FAILED" and key in current
        marks[key] = _mark("COMPLETE" if is_over else status, material, is_stale=key in stale)
    return marks


def _mark(status: str, material: str | None, *, is_stale: bool) -> PartitionMark:
    if status == "FAILED":
        return (
            PartitionMark.FAILED_NEVER_MADE
            if material is None
            else PartitionMark.FAILED_OLDER_DATA_SERVED
        )
    if status == "RUNNING":
        return PartitionMark.RUNNING
    if material is None and status != "COMPLETE":
        return PartitionMark.MISSING
    return PartitionMark.STALE if is_stale else PartitionMark.COMPLETE


_MAX_ROWS = 120
_MAX_COLUMNS = 60

Cell = tuple[str, str]  # the row and the column of a partition


@dataclass
class PartitionGrid:
    """Rows and columns of marks; a cell without a mark is no partition."""

    corner: str
    rows: dict[str, dict[str, PartitionMark]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    every: int = 1  # which columns are named: those whose number this divides


@dataclass
class PartitionCounts:
    """How many partitions of each period have which status."""

    corner: str
    rows: dict[str, Counter[PartitionMark]] = field(default_factory=dict)


def lay_out(
    partitions: Partitions, marks: dict[str, PartitionMark]
) -> PartitionGrid | PartitionCounts:
    """The best picture of these: all cells if a person can look at them, else counts."""
    timed = [each for each in partitions if isinstance(each, TimeDimension)]
    if len(timed) == 1 and len(partitions.names) == 1:
        return _calendar(timed[0], marks)
    if len(timed) == 1:
        return _product(timed[0], marks)
    return _listed(partitions, marks)


def _calendar(
    timed: TimeDimension, marks: dict[str, PartitionMark]
) -> PartitionGrid | PartitionCounts:
    corner, columns, every, cell = _layout(timed)
    grid = PartitionGrid(corner, columns=columns, every=every)
    for key, mark in sorted(marks.items()):
        row, column = cell(_value(key, timed.name))
        grid.rows.setdefault(row, {})[column] = mark
        if column not in grid.columns:  # the hour that a clock shows twice
            grid.columns += (column,)
    return grid if len(grid.rows) <= _MAX_ROWS else _count_periods(timed, marks)


def _product(
    timed: TimeDimension, marks: dict[str, PartitionMark]
) -> PartitionGrid | PartitionCounts:
    """Time goes down, all else stands side by side."""
    grid = PartitionGrid(timed.name)
    columns: dict[str, None] = {}
    for key, mark in sorted(marks.items()):
        values = parse_partition_key(key) or {}
        row = values.pop(timed.name, key)
        column = "/".join(values[name] for name in sorted(values))
        columns[column] = None
        grid.rows.setdefault(row, {})[column] = mark
    grid.columns = tuple(sorted(columns))
    if len(grid.rows) > _MAX_ROWS or len(grid.columns) > _MAX_COLUMNS:
        return _count_periods(timed, marks)
    return grid


def _listed(
    partitions: Partitions, marks: dict[str, PartitionMark]
) -> PartitionGrid | PartitionCounts:
    """One list goes down; of two or more, the first goes down and the rest stands beside it."""
    first = partitions.names[0] if partitions.names else ""
    grid = PartitionGrid(first)
    tally = PartitionCounts(first)
    columns: dict[str, None] = {}
    for key, mark in sorted(marks.items()):
        values = parse_partition_key(key) or {}
        row = values.pop(first, key)
        column = "/".join(values[name] for name in sorted(values))
        columns[column] = None
        grid.rows.setdefault(row, {})[column] = mark
        tally.rows.setdefault(row, Counter())[mark] += 1
    grid.columns = tuple(sorted(columns))
    if len(grid.rows) > _MAX_ROWS:
        return PartitionCounts(first, {"all": _total(tally.rows.values())})
    return grid if len(grid.columns) <= _MAX_COLUMNS else tally


def _count_periods(timed: TimeDimension, marks: dict[str, PartitionMark]) -> PartitionCounts:
    """By month; by year where weeks and months are counted, or where there are too many months."""
    by_year = isinstance(timed, Weekly | Monthly)
    for width in (4,) if by_year else (7, 4):
        rows: dict[str, Counter[PartitionMark]] = {}
        for key, mark in sorted(marks.items()):
            rows.setdefault(_value(key, timed.name)[:width], Counter())[mark] += 1
        if len(rows) <= 2 * _MAX_ROWS:
            break
    return PartitionCounts("year" if width == 4 else "month", rows)


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


def _total(counts: Iterable[Counter[PartitionMark]]) -> Counter[PartitionMark]:
    total: Counter[PartitionMark] = Counter()
    for each in counts:
        total.update(each)
    return total


_NARROW = 12  # more columns than this stand close together
_COUNT = 8  # characters that a count may have


def draw(layout: PartitionGrid | PartitionCounts) -> Iterator[Text]:
    """The lines of a picture, with colours."""
    return _draw_grid(layout) if isinstance(layout, PartitionGrid) else _draw_counts(layout)


def legend(marks: Iterable[PartitionMark]) -> Text:
    """What the letters mean, and how many there are of each."""
    counts, line = Counter(marks), Text()
    for mark in PartitionMark:
        if counts[mark]:
            line.append(f"{mark.value} ", STYLES[mark])
            line.append(f"{mark.word} {counts[mark]:,}   ")
    line.rstrip()
    return line


def _draw_grid(grid: PartitionGrid) -> Iterator[Text]:
    label = max(map(len, (grid.corner, *grid.rows)), default=0)
    is_narrow = len(grid.columns) > _NARROW and all(len(each) <= 2 for each in grid.columns[:12])
    width = 2 if is_narrow else max(map(len, grid.columns), default=0) + 2
    head = "".join(
        _heading(name, at, grid.every).ljust(width) for at, name in enumerate(grid.columns)
    )
    yield Text(f"{grid.corner:<{label}}  {head}".rstrip(), style="dim")
    for name, marks in grid.rows.items():
        line = Text(f"{name:<{label}}  ")
        for column in grid.columns:
            mark = marks.get(column)
            line.append((mark.value if mark else "").ljust(width), STYLES[mark] if mark else "")
        line.rstrip()
        yield line


def _heading(name: str, at: int, every: int) -> str:
    """A number is shown here and there, or the columns would not fit."""
    if every == 1 or at == 0 or not name.isdigit():
        return name if every == 1 or name.isdigit() else "+"
    return name if int(name) % every == 0 else ""


def _draw_counts(tally: PartitionCounts) -> Iterator[Text]:
    used = [mark for mark in PartitionMark if any(counts[mark] for counts in tally.rows.values())]
    label = max(map(len, (tally.corner, *tally.rows)), default=0)
    widths = {mark: max(len(mark.word), _COUNT) + 2 for mark in used}
    head = "".join(f"{mark.word:>{widths[mark]}}" for mark in used)
    yield Text(f"{tally.corner:<{label}}{head}", style="dim")
    for name, counts in tally.rows.items():
        line = Text(f"{name:<{label}}")
        for mark in used:
            line.append(f"{counts[mark]:>{widths[mark]},}", STYLES[mark] if counts[mark] else "dim")
        yield line
