"""A dimension: one column by which an asset is cut, and the values that it takes.

Each value has a position, a whole number; what follows another has a higher one. Sets of partitions are
ranges of positions, so that nothing here is ever a list of all values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, overload

from arco.core.errors import Invalid

Known = Mapping[str, Sequence[str]]
"""The values of the dynamic dimensions, by the name of the dimension."""

NOTHING_KNOWN: Known = {}


class Axis(Protocol):
    """Values and their positions, both ways."""

    def value(self, position: int) -> str:
        """The value at a position."""

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        """The values at many positions."""

    def position(self, value: str) -> int:
        """The position of a value; Invalid if it is not spelled as one or is not one of them."""


class Dimension(Protocol):
    """One column by which an asset is cut."""

    @property
    def name(self) -> str:
        """The column."""

    def axis(self, dynamic: Known = NOTHING_KNOWN) -> Axis:
        """Its values and their positions."""

    def declared(self, dynamic: Known = NOTHING_KNOWN) -> range:
        """The positions that it will ever have."""

    def existing(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> range:
        """The positions that it has at this moment."""

    def keys(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> Sequence[str]:
        """The values that it has at this moment, in order, made only when looked at."""

    def __contains__(self, value: object) -> bool: ...


@dataclass(frozen=True, eq=False)
class Keys(Sequence[str]):
    """Values that follow each other, made only when looked at."""

    axis: Axis
    positions: range

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Keys": ...
    def __getitem__(self, index: int | slice) -> "str | Keys":
        if isinstance(index, slice):
            return Keys(self.axis, self.positions[index])
        return self.axis.value(self.positions[index])

    def __iter__(self) -> Iterator[str]:
        return self.axis.values_at(self.positions)

    def __contains__(self, value: object) -> bool:
        return holds(self.axis, self.positions, value)

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        """Where a value stands; ValueError if it is not among them, as a list would say."""
        if holds(self.axis, self.positions, value):
            found = self.positions.index(self.axis.position(value))
            if found in range(len(self))[start:stop]:
                return found
        raise ValueError(f"{value!r} is not among these partitions")

    def count(self, value: object) -> int:
        return int(value in self)


def position_in(axis: Axis, value: object) -> int | None:
    """The position of what may be a value."""
    if not isinstance(value, str):
        return None
    try:
        return axis.position(value)
    except Invalid:
        return None


def holds(axis: Axis, positions: range, value: object) -> bool:
    """If what may be a value stands at one of these positions."""
    position = position_in(axis, value)
    # A range that is asked for what is no number walks over all of its own.
    return position is not None and position in positions


def check_name(name: object) -> None:
    """Raise Invalid unless a column may have this name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise Invalid(
            f"{name!r} cannot name a dimension: use letters, digits and '_', such as 'ds'"
        )


def checked_now(now: object) -> datetime:
    """A moment of our calendar, and not the reading of some clock somewhere."""
    if not isinstance(now, datetime) or now.tzinfo is None or not 1000 <= now.year <= 9998:
        raise Invalid(
            f"{now!r} is not a moment of the years 1000 to 9998 in a time zone: "
            "write datetime(2026, 1, 15, tzinfo=UTC)"
        )
    return now
