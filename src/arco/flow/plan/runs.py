"""Keys of partitions told shortly: those that follow each other in time as `ds=2026-01-01..2026-01-31`.

A run is a text that chooses its partitions. Only the texts of the keys are looked at, so that a plan can be
told without its project. So it cannot know on which night an hour is there twice: the second one counts as
part of a run that goes on on both sides of it.
"""

import re
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from arco.events.partition_key import format_partition_key, parse_partition_key

_STEP = 2  # which leaves room for an hour that is there twice
_TIME = re.compile(
    r"([0-9]{4})-"
    r"(?:W([0-9]{2})|[0-9]{2}(?:-([0-9]{2})(?:T([01][0-9]|2[0-3])([+-][0-9]{4})?)?)?)"
)


class _Line(NamedTuple):
    """What keys of one run share: the dimension of time, its grain, and the rest of the key."""

    name: str
    grain: str
    rest: str


class _Point(NamedTuple):
    """A key on its line; `at` grows by `_STEP` from one to the next."""

    number: int
    key: str
    value: str
    at: int


def runs(keys: Iterable[str]) -> list[str]:
    """The keys as runs, in the order of their first ones."""
    found: list[tuple[int, str]] = []
    for line, points in _lines(keys).items():
        first = last = points[0]
        for point in points[1:]:
            if not _follows(last, point):
                found.append((first.number, _text(line, first, last)))
                first = point
            last = point
        found.append((first.number, _text(line, first, last)))
    return [text for _, text in sorted(found)]


def listed(keys: Iterable[str], most: int = 3) -> str:
    """A few runs as part of a sentence."""
    found = runs(keys)
    shown = ", ".join(each or "all of it" for each in found[:most])
    return f"{shown} and {len(found) - most} more" if len(found) > most else shown


def _lines(keys: Iterable[str]) -> dict[_Line, list[_Point]]:
    lines: dict[_Line, list[_Point]] = {}
    for number, key in enumerate(keys):
        values = parse_partition_key(key) or {}
        line, point = _Line("", "", key), _Point(number, key, "", 0)
        for name, value in values.items():
            placed = _placed(value)
            if placed is not None:
                rest = format_partition_key(
                    {other: values[other] for other in values if other != name}
                )
                line, point = _Line(name, placed[0], rest), _Point(number, key, value, placed[1])
                break
        lines.setdefault(line, []).append(point)
    return lines


def _follows(one: _Point, other: _Point) -> bool:
    return 0 < other.at - one.at <= (1 if (one.at | other.at) % _STEP else _STEP)


def _text(line: _Line, first: _Point, last: _Point) -> str:
    if first is last:
        return first.key
    side = f"{line.name}={first.value}..{last.value}"
    rest = line.rest.replace(",", "%2C")  # a comma would end the choice
    return "/".join(sorted([side, *filter(None, rest.split("/"))]))


def _placed(value: str) -> tuple[str, int] | None:
    """The grain of what may be a time, and its place among others of that grain."""
    spelled = _TIME.fullmatch(value)
    if spelled is None:
        return None
    try:
        return _place(value, spelled)
    except ValueError:  # the calendar has no such day or week
        return None


def _place(value: str, spelled: re.Match[str]) -> tuple[str, int]:
    year, week, day, hour, offset = spelled.groups()
    if week is not None:
        return "week", date.fromisocalendar(int(year), int(week), 1).toordinal() // 7 * _STEP
    if day is None:
        first = date.fromisoformat(f"{value}-01")
        return "month", (first.year * 12 + first.month) * _STEP
    number = date.fromisoformat(value[:10]).toordinal()
    if hour is None:
        return "day", number * _STEP
    return "hour", (number * 24 + int(hour)) * _STEP + int(offset is not None)
