"""Durations as people write them, a whole number and a unit: "30s", "10m", "3h" or "2d".

They are printed in two ways: exactly, as somebody wrote or could have written them, and roughly, as
somebody is told how long a thing took or how old it is.
"""

import re

from arco.core.errors import Invalid

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST_MS = 36_525 * _UNITS_MS["d"]
_TENTHS_BELOW_MS = 10_000
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


def parse_duration(text: str) -> int:
    """The milliseconds of a duration; a day is 24 hours, whatever the clocks do."""
    found = _DURATION.fullmatch(str(text))
    if found is None:
        raise Invalid(
            f"{text!r} is not a duration: write a whole number and one of s, m, h, d, such as '3h'"
        )
    duration_ms = int(found[1]) * _UNITS_MS[found[2]]
    if duration_ms > _LONGEST_MS:
        raise Invalid(f"{text!r} is more than a hundred years: write a duration such as '3h'")
    return duration_ms


def print_duration(ms: int) -> str:
    """A duration exactly, as people write it, in the largest unit that leaves no rest."""
    for unit in "dhms":
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms / 1_000:g}s"


def rough_duration(ms: float) -> str:
    """A duration roughly, in its two largest units: `0.8s`, `12s`, `3m 4s`, `1h`, `2d 5h`."""
    if ms < _TENTHS_BELOW_MS:
        return f"{ms // 100 / 10:.1f}s"
    parts: list[str] = []
    rest = int(ms)
    for unit in "dhms":
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return " ".join(filter(None, parts[:2]))
