"""Task keys such as `silver.orders@ds=2026-01-10`, and ranges of partition keys.

A task key leaves out the catalog `default`; a task without partitions has the name alone. `@` and `%` in a
name are written as in a URL, so that the first `@` always ends the name.

Consecutive partition keys are shown as a range, `ds=2026-01-01..2026-01-31`, which also selects them. Only
the texts of the keys are needed, not the project. So the night on which an hour occurs twice is not known:
the second occurrence counts as part of a range that continues on both sides.
"""

import re
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from arco.events.partition_key import format_partition_key, parse_partition_key
from arco.flow.table_name import DEFAULT_CATALOG, full_name

MAX_KEY = 255  # the limit of the event field that names a task

_PREFIX = f"{DEFAULT_CATALOG}."


class TaskName(NamedTuple):
    """The parts of a task key: the full name of the maker, and the partition, '' if there is one only."""

    maker: str
    partition: str


def task_key(maker: str, partition: str) -> str:
    """The key of a task; `maker` is the full name of an asset or the name of a task of the project."""
    name = short_name(maker).replace("%", "%25").replace("@", "%40")
    return f"{name}@{partition}" if partition else name


def read_key(key: str) -> TaskName:
    """The parts of a key; the inverse of `task_key`."""
    name, _, partition = key.partition("@")
    return TaskName(full_name(name.replace("%40", "@").replace("%25", "%")), partition)


def short_name(maker: str) -> str:
    """A full name without the catalog `default`."""
    short = maker.removeprefix(_PREFIX)
    return short if full_name(short) == maker else maker


_STEP = 2  # the odd positions are for hours that occur twice
_TIME = re.compile(
    r"([0-9]{4})-"
    r"(?:W([0-9]{2})|[0-9]{2}(?:-([0-9]{2})(?:T([01][0-9]|2[0-3])([+-][0-9]{4})?)?)?)"
)


class _Line(NamedTuple):
    """What the keys of one range share: the time dimension, its grain, and the rest of the key."""

    name: str
    grain: str
    rest: str


class _Point(NamedTuple):
    """A key on its line; `at` grows by `_STEP` from one to the next."""

    number: int
    key: str
    value: str
    at: int


def key_ranges(keys: Iterable[str]) -> list[str]:
    """The keys as ranges, in the order of the first key of each."""
    texts: list[tuple[int, str]] = []
    for line, points in _lines(keys).items():
        first = last = points[0]
        for point in points[1:]:
            if not _follows(last, point):
                texts.append((first.number, _text(line, first, last)))
                first = point
            last = point
        texts.append((first.number, _text(line, first, last)))
    return [text for _, text in sorted(texts)]


def describe_keys(keys: Iterable[str], most: int = 3) -> str:
    """The first few ranges of keys, as part of a sentence."""
    texts = key_ranges(keys)
    shown = ", ".join(each or "all of it" for each in texts[:most])
    return f"{shown} and {len(texts) - most} more" if len(texts) > most else shown


def _lines(keys: Iterable[str]) -> dict[_Line, list[_Point]]:
    lines: dict[_Line, list[_Point]] = {}
    for number, key in enumerate(keys):
        values = parse_partition_key(key) or {}
        line, point = _Line("", "", key), _Point(number, key, "", 0)
        for name, value in values.items():
            position = _time_position(value)
            if position is not None:
                rest = format_partition_key(
                    {other: values[other] for other in values if other != name}
                )
                grain, at = position
                line, point = _Line(name, grain, rest), _Point(number, key, value, at)
                break
        lines.setdefault(line, []).append(point)
    return lines


def _follows(one: _Point, other: _Point) -> bool:
    return 0 < other.at - one.at <= (1 if (one.at | other.at) % _STEP else _STEP)


def _text(line: _Line, first: _Point, last: _Point) -> str:
    if first is last:
        return first.key
    side = f"{line.name}={first.value}..{last.value}"
    rest = line.rest.replace(",", "%2C")  # a comma would end the term
    return "/".join(sorted([side, *filter(None, rest.split("/"))]))


def _time_position(value: str) -> tuple[str, int] | None:
    """The grain and the position of a value; None if it is not a time."""
    spelled = _TIME.fullmatch(value)
    if spelled is None:
        return None
    try:
        return _calendar_position(value, spelled)
    except ValueError:  # the calendar has no such day or week
        return None


def _calendar_position(value: str, spelled: re.Match[str]) -> tuple[str, int]:
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
