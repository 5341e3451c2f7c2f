"""Dimensions: a column by which an asset is partitioned, and the values that it takes.

Each value has a position, an integer that grows in the order of the values. Sets of partitions are ranges
of positions, so that the values of a time dimension are never all in memory. `Static` and `Dynamic`
dimensions have listed values: from the code, or registered at run time.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Protocol, overload

from arco.core.errors import Invalid

DynamicValues = Mapping[str, Sequence[str]]
"""The values of the dynamic dimensions by dimension name."""

NO_DYNAMIC_VALUES: DynamicValues = {}


class Axis(Protocol):
    """Converts between values and positions."""

    def value(self, position: int) -> str:
        """The value at a position."""

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        """The values at many positions."""

    def position(self, value: str) -> int:
        """The position of a value; Invalid if the text is no value of this axis."""


class Dimension(Protocol):
    """A column by which an asset is partitioned."""

    @property
    def name(self) -> str:
        """The name of the column."""

    def axis(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Axis:
        """The values and their positions."""

    def declared(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:
        """The positions between the declared start and end."""

    def existing(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:
        """The positions whose partitions exist at `now`."""

    def keys(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Sequence[str]:
        """The values whose partitions exist at `now`, in order; formatted when they are read."""

    def __contains__(self, value: object) -> bool: ...


@dataclass(frozen=True, eq=False)
class Keys(Sequence[str]):
    """A range of values that are formatted when they are read."""

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
        return has_value(self.axis, self.positions, value)

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        """The index of a value; ValueError if it is not in the range, as for a list."""
        if has_value(self.axis, self.positions, value):
            position = self.positions.index(self.axis.position(value))
            if position in range(len(self))[start:stop]:
                return position
        raise ValueError(f"{value!r} is not among these partitions")

    def count(self, value: object) -> int:
        return int(value in self)


def position_in(axis: Axis, value: object) -> int | None:
    """The position of a value, None if it is no value of this axis."""
    if not isinstance(value, str):
        return None
    try:
        return axis.position(value)
    except Invalid:
        return None


def has_value(axis: Axis, positions: range, value: object) -> bool:
    """Whether `value` is a value of the axis at one of these positions."""
    position = position_in(axis, value)
    # `None in range` would compare every element.
    return position is not None and position in positions


def check_name(name: object) -> None:
    """Raise Invalid unless a dimension can have this name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise Invalid(
            f"{name!r} cannot name a dimension: use letters, digits and '_', such as 'ds'"
        )


def require_moment(now: object) -> datetime:
    """`now` itself; Invalid unless it has a time zone and a year that keys can be written for."""
    if not isinstance(now, datetime) or now.tzinfo is None or not 1000 <= now.year <= 9998:
        raise Invalid(
            f"{now!r} is not a moment of the years 1000 to 9998 in a time zone: "
            "write datetime(2026, 1, 15, tzinfo=UTC)"
        )
    return now


@dataclass(frozen=True)
class ListedAxis:
    """Listed values in text order."""

    name: str
    values: tuple[str, ...]

    def value(self, position: int) -> str:
        return self.values[position]

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        return map(self.values.__getitem__, positions)

    def position(self, value: str) -> int:
        position = bisect_left(self.values, value)
        if self.values[position : position + 1] != (value,):
            raise Invalid(f"{value!r} is not a value of dimension {self.name!r}{self._example()}")
        return position

    def _example(self) -> str:
        if not self.values:
            return ": it has none yet"
        return f": write one of {', '.join(map(repr, self.values[:5]))}" + (
            f" (of {len(self.values)})" if len(self.values) > 5 else ""
        )


@dataclass(frozen=True)
class Static:
    """Values that are listed in the code; their order in the code has no meaning."""

    name: str
    values: Iterable[str]

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "values", _checked_values(self.name, self.values))
        if not self.values:
            raise Invalid(
                f"dimension {self.name!r} has no values: write Static({self.name!r}, ['eu', 'us'])"
            )

    @property
    def listed(self) -> ListedAxis:
        """The sorted values."""
        return ListedAxis(self.name, tuple(self.values))

    def axis(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> ListedAxis:  # noqa: ARG002
        return self.listed

    def declared(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:  # noqa: ARG002
        return range(len(self.listed.values))

    def existing(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:  # noqa: ARG002
        return self.declared(dynamic)

    def keys(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Sequence[str]:
        return Keys(self.listed, self.existing(now, dynamic))

    def __contains__(self, value: object) -> bool:
        return position_in(self.listed, value) is not None


@dataclass(frozen=True)
class Dynamic:
    """Values that are registered at run time; callers pass them as `dynamic`, by dimension name."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)

    def axis(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> ListedAxis:
        values = dynamic.get(self.name, ())
        return ListedAxis(
            self.name, values if isinstance(values, _Sorted) else _checked_values(self.name, values)
        )

    def declared(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:
        return range(len(self.axis(dynamic).values))

    def existing(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:  # noqa: ARG002
        return self.declared(dynamic)

    def keys(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Sequence[str]:
        return Keys(self.axis(dynamic), self.existing(now, dynamic))

    def __contains__(self, value: object) -> bool:
        """Any text may be registered later."""
        return isinstance(value, str) and bool(value) and "\0" not in value


class _Sorted(tuple[str, ...]):
    """Values that have been validated and sorted."""

    __slots__ = ()


def checked_dynamic_values(dynamic: DynamicValues) -> DynamicValues:
    """The values, validated and sorted once, for a caller that looks up many partitions."""
    return {name: _Sorted(_checked_values(name, values)) for name, values in dynamic.items()}


def _checked_values(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """The sorted values; Invalid if one is not a non-empty text or is listed twice."""
    example = f"write a list of texts, such as [{'eu'!r}, {'us'!r}]"
    if isinstance(values, str):
        raise Invalid(f"the values of dimension {name!r} are one text, {values!r}: {example}")
    listed: list[str] = []
    for value in values:
        if not isinstance(value, str) or not value or "\0" in value:
            raise Invalid(f"{value!r} cannot be a value of dimension {name!r}: {example}")
        listed.append(value)
    ordered = tuple(sorted(listed))
    for one, next_one in pairwise(ordered):
        if one == next_one:
            raise Invalid(
                f"{one!r} is listed twice among the values of dimension {name!r}: {example}"
            )
    return ordered
