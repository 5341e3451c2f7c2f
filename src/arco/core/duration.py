"""Durations as a whole number and a unit: "30s", "10m", "3h" or "2d".

`print_duration` is exact and can be parsed again; `rough_duration` is for run times and ages.
"""

import re

from arco.core.errors import Invalid

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_MS = 36_525 * _UNITS_MS["d"]
_TENTHS_BELOW_MS = 10_000
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


def parse_duration(text: str) -> int:
    """The milliseconds of a duration; a day is 24 hours, also when daylight saving changes."""
    match = _DURATION.fullmatch(str(text))
    if match is None:
        raise Invalid(
            f"{text!r} is not a duration: write a whole number and one of s, m, h, d, such as '3h'"
        )
    duration_ms = int(match[1]) * _UNITS_MS[match[2]]
    if duration_ms > _MAX_MS:
        raise Invalid(f"{text!r} is more than a hundred years: write a duration such as '3h'")
    return duration_ms


def print_duration(ms: int) -> str:
    """The exact duration in the largest unit that divides it."""
    for unit in "dhms":
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms / 1_000:g}s"


def rough_duration(ms: float) -> str:
    """The duration in its two largest units: `0.8s`, `12s`, `3m 4s`, `1h`, `2d 5h`."""
    if ms < _TENTHS_BELOW_MS:
        return f"{ms // 100 / 10:.1f}s"
    parts: list[str] = []
    rest = int(ms)
    for unit in "dhms":
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return " ".join(filter(None, parts[:2]))
