"""Floors: below which number a chain was collected (P6).

The floors of a chain are a chain themselves, at `{chain}/floor/`, which is never collected. A floor is
raised before anything below it goes, so a number that is missing above it never existed.
"""

from dataclasses import dataclass

import msgspec


class FloorBody(msgspec.Struct, frozen=True):
    """What a number of the floor chain carries."""

    floor: int


@dataclass(frozen=True)
class FloorMark:
    """A floor that was seen: its number in the floor chain, and what it says."""

    index: int
    floor: int


NO_FLOOR = FloorMark(-1, 0)
