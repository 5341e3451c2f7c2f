"""The pictures of `grid`, line by line, in colour where the terminal has it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.text import Text

from arco.cli.flow.screen.grid import Grid, Tally
from arco.cli.flow.screen.marks import STYLES, Mark

_NARROW = 12  # more columns than this stand close together
_COUNT = 8  # characters that a count may have


def drawn(picture: Grid | Tally) -> Iterator[Text]:
    """The lines of a picture."""
    return _grid(picture) if isinstance(picture, Grid) else _tally(picture)


def legend(marks: Iterable[Mark]) -> Text:
    """What the letters mean, and how many there are of each."""
    counts, line = Counter(marks), Text()
    for mark in Mark:
        if counts[mark]:
            line.append(f"{mark.value} ", STYLES[mark])
            line.append(f"{mark.word} {counts[mark]:,}   ")
    line.rstrip()
    return line


def _grid(grid: Grid) -> Iterator[Text]:
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


def _tally(tally: Tally) -> Iterator[Text]:
    used = [mark for mark in Mark if any(counts[mark] for counts in tally.rows.values())]
    label = max(map(len, (tally.corner, *tally.rows)), default=0)
    widths = {mark: max(len(mark.word), _COUNT) + 2 for mark in used}
    head = "".join(f"{mark.word:>{widths[mark]}}" for mark in used)
    yield Text(f"{tally.corner:<{label}}{head}", style="dim")
    for name, counts in tally.rows.items():
        line = Text(f"{name:<{label}}")
        for mark in used:
            line.append(f"{counts[mark]:>{widths[mark]},}", STYLES[mark] if counts[mark] else "dim")
        yield line
