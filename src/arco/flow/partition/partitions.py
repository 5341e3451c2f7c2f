"""The partitions of an asset: the product of its dimensions, and the texts that select some of them.

    all                                        every partition that exists
    latest                                     the newest of each time dimension
    2026-01-15                                 one value, where there is one dimension
    2026-01-01..2026-01-31                     a range, end included; either end may be left out
    ds=2026-01-01..2026-01-31/region=eu        by name; a dimension that is not named is selected fully
    ds=2026-01-01,ds=2026-01-05                several of these

A key always selects itself. Only time dimensions have ranges: in others `a..b` is a value. `%`, `/` and `,`
in a value are written as in a URL, `%25`, `%2F` and `%2C`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from arco.core.errors import Invalid
from arco.events.partition_key import format_partition_key, parse_partition_key
from arco.flow.partition.calendar import Daily, Hourly, Monthly, Weekly
from arco.flow.partition.dimension import (
    NO_DYNAMIC_VALUES,
    Dimension,
    Dynamic,
    DynamicValues,
    Static,
    position_in,
)
from arco.flow.partition.partition_set import Axes, Box, PartitionSet
from arco.flow.partition.time_dimension import TimeDimension

_KINDS = (Hourly, Daily, Weekly, Monthly, Static, Dynamic)
_EXAMPLE = "write Partitions([Daily('ds', start='2026-01-01'), Static('region', ['eu', 'us'])])"


@dataclass(frozen=True)
class Partitions:
    """The dimensions of an asset; the order in which they are given has no meaning."""

    dimensions: Dimension | Iterable[Dimension] = ()
    in_order: tuple[Dimension, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dimensions: object = self.dimensions
        if isinstance(dimensions, _KINDS):
            dimensions = (dimensions,)
        if not isinstance(dimensions, Iterable) or isinstance(dimensions, str):
            raise Invalid(f"{dimensions!r} is not a list of dimensions: {_EXAMPLE}")
        listed = tuple(dimensions)
        for dimension in listed:
            if not isinstance(dimension, _KINDS):
                raise Invalid(f"{dimension!r} is not a dimension: {_EXAMPLE}")
        names = [dimension.name for dimension in listed]
        for name in names:
            if names.count(name) > 1:
                raise Invalid(f"two dimensions have the name {name!r}: {_EXAMPLE}")
        # As in a key, where `a1=` stands before `a=`.
        object.__setattr__(self, "in_order", tuple(sorted(listed, key=_as_in_a_key)))
        object.__setattr__(self, "dimensions", self.in_order)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in the order of a key."""
        return tuple(dimension.name for dimension in self)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.in_order)

    def __bool__(self) -> bool:
        """Whether the asset is partitioned at all."""
        return bool(self.names)

    def axes(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Axes:
        """The values of each dimension."""
        return tuple((dimension.name, dimension.axis(dynamic)) for dimension in self)

    def keys(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> PartitionSet:
        """The partitions that exist at `now`."""
        box = tuple(dimension.existing(now, dynamic) for dimension in self)
        return PartitionSet.of(self.axes(dynamic), [box])

    def parse(
        self, text: str, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES
    ) -> PartitionSet:
        """The existing partitions that a text selects, see the module docstring."""
        return select_partitions(text, self.in_order, now, dynamic)

    def values(self, key: str) -> dict[str, str]:
        """The value of each dimension in a key; Invalid if it is not a key of these partitions."""
        parsed = parse_partition_key(key)
        if key not in self or parsed is None:
            written = "/".join(f"{name}=..." for name in self.names)
            raise Invalid(f"{key!r} is not a partition of these: write a key such as {written!r}")
        return parsed

    def __contains__(self, key: object) -> bool:
        """Whether it is, or may become, the key of a partition."""
        values = parse_partition_key(key) if isinstance(key, str) else None
        if (
            values is None
            or values.keys() != set(self.names)
            or format_partition_key(values) != key
        ):
            return False
        return all(values[dimension.name] in dimension for dimension in self)


def _as_in_a_key(dimension: Dimension) -> str:
    return f"{dimension.name}="


def select_partitions(
    text: str, dimensions: tuple[Dimension, ...], now: datetime, dynamic: DynamicValues
) -> PartitionSet:
    """The partitions that a text selects; Invalid, with an example, if it is wrong or ambiguous."""
    if not isinstance(text, str):
        raise Invalid(f"{text!r} is not a text that chooses partitions: write 'all'")
    sides = tuple(DimensionSelection(dimension, now, dynamic) for dimension in dimensions)
    axes = tuple((side.dimension.name, side.dimension.axis(dynamic)) for side in sides)
    everything = PartitionSet.of(axes, [tuple(side.existing for side in sides)])
    if text in everything:
        return PartitionSet.of_keys(axes, [text])
    if text == "all" or (text == "latest" and not sides):
        return everything
    if text == "latest":
        return PartitionSet.of(axes, [_latest(sides)])
    if not sides:
        raise Invalid(f"{text!r} chooses nothing: the asset is not partitioned, write 'all'")
    return PartitionSet.of(axes, [_box(part.strip(), sides) for part in text.split(",")])


@dataclass(frozen=True)
class DimensionSelection:
    """What can be selected of one dimension at one time."""

    dimension: Dimension
    now: datetime
    dynamic: DynamicValues

    @property
    def existing(self) -> range:
        return self.dimension.existing(self.now, self.dynamic)

    def chosen(self, value: str) -> range:
        """The positions that an unescaped text selects."""
        dimension = self.dimension
        if value == "all" and position_in(dimension.axis(self.dynamic), value) is None:
            return self.existing
        if not isinstance(dimension, TimeDimension):
            return _one(dimension.axis(self.dynamic).position(value))
        if value == "latest":
            return self.latest()
        first, dots, last = value.partition("..")
        if not dots:
            return _one(self._position(dimension, value))
        return self._range(dimension, first, last)

    def latest(self) -> range:
        if not self.existing:
            raise Invalid(
                f"no partition of dimension {self.dimension.name!r} exists yet at "
                f"{self.now.isoformat()}: write 'all' to choose all that exist, even if none do"
            )
        return self.existing[-1:]

    def _range(self, dimension: TimeDimension, first: str, last: str) -> range:
        start = self._position(dimension, first) if first else self.existing.start
        stop = self._position(dimension, last) + 1 if last else self.existing.stop
        if first and last and start >= stop:
            raise Invalid(f"'{first}..{last}' runs backwards: write '{last}..{first}'")
        return range(start, stop)

    def _position(self, dimension: TimeDimension, value: str) -> int:
        position = dimension.position(value)
        if position not in self.existing:
            raise self.missing(dimension, position, value)
        return position

    def missing(self, dimension: TimeDimension, position: int, value: str) -> Invalid:
        """The error for a time partition that does not exist."""
        declared, existing = dimension.declared(), self.existing
        if position < declared.start:
            why = f"before the first one: write '{dimension.start}' or later"
        elif position >= declared.stop:
            why = f"after the last one: write '{dimension.value(declared.stop - 1)}' or earlier"
        elif existing:
            newest = dimension.value(existing[-1])
            why = f"not complete at {self.now.isoformat()}: write '{newest}' or earlier"
        else:
            why = f"not complete at {self.now.isoformat()}, none is: write 'all' to choose none"
        return Invalid(f"partition {value!r} of dimension {dimension.name!r} is {why}")


def _latest(sides: Iterable[DimensionSelection]) -> Box:
    sides = tuple(sides)
    if not any(isinstance(side.dimension, TimeDimension) for side in sides):
        raise Invalid(
            f"'latest' needs a dimension of time, and there is only {_side_names(sides)}: write 'all'"
        )
    return tuple(
        side.latest() if isinstance(side.dimension, TimeDimension) else side.existing
        for side in sides
    )


def _box(text: str, sides: tuple[DimensionSelection, ...]) -> Box:
    """The positions that one of several comma-separated terms selects."""
    if not text:
        raise Invalid(f"there is an empty term, or no text at all: {_example(sides)}")
    named = _named(text, sides)
    for name in named:
        if name not in [side.dimension.name for side in sides]:
            raise Invalid(
                f"{text!r} names {name!r}, and the dimensions are {_side_names(sides)}: {_example(sides)}"
            )
    return tuple(
        side.chosen(named[side.dimension.name]) if side.dimension.name in named else side.existing
        for side in sides
    )


def _named(text: str, sides: tuple[DimensionSelection, ...]) -> dict[str, str]:
    if "=" in text:
        named = parse_partition_key(text)
    elif len(sides) == 1:
        named = parse_partition_key(f"{sides[0].dimension.name}={text.replace('/', '%2F')}")
    else:
        raise Invalid(
            f"{text!r} does not name one of the dimensions {_side_names(sides)}: {_example(sides)}"
        )
    if named is None:
        raise Invalid(f"{text!r} is not a list of name=value, each name once: {_example(sides)}")
    return named


def _one(position: int) -> range:
    return range(position, position + 1)


def _side_names(sides: Iterable[DimensionSelection]) -> str:
    return ", ".join(repr(side.dimension.name) for side in sides)


def _example(sides: Iterable[DimensionSelection]) -> str:
    return "write '" + "/".join(map(_pattern, sides)) + "'"


def _pattern(side: DimensionSelection) -> str:
    dimension = side.dimension
    if isinstance(dimension, TimeDimension):
        return f"{dimension.name}={dimension.example}"
    keys = dimension.keys(side.now, side.dynamic)
    return f"{dimension.name}={keys[0] if keys else '...'}"
