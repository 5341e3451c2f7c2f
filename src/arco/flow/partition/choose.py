"""The partitions that a text chooses: what people write on a command line.

    all                                        every partition that exists
    latest                                     the newest of each dimension of time
    2026-01-15                                 one value, where there is one dimension
    2026-01-01..2026-01-31                     a range, its end included; either end may be left out
    ds=2026-01-01..2026-01-31/region=eu        by name; a dimension that is not named is taken whole
    ds=2026-01-01,ds=2026-01-05                several of these

A key is always a text that chooses it. Only dimensions of time have ranges: elsewhere `a..b` is a value.
`%`, `/` and `,` in a value are written as in a URL, `%25`, `%2F` and `%2C`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from arco.core.errors import Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.partition.dimension import Dimension, Known, position_in
from arco.flow.partition.subset import Box, PartitionSet
from arco.flow.partition.timed import Timed


def choose(
    text: str, dimensions: tuple[Dimension, ...], now: datetime, dynamic: Known
) -> PartitionSet:
    """The partitions that a text chooses; Invalid, with an example, if it chooses none or is unclear."""
    if not isinstance(text, str):
        raise Invalid(f"{text!r} is not a text that chooses partitions: write 'all'")
    sides = tuple(Side(dimension, now, dynamic) for dimension in dimensions)
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
class Side:
    """One dimension at one moment."""

    dimension: Dimension
    now: datetime
    dynamic: Known

    @property
    def existing(self) -> range:
        return self.dimension.existing(self.now, self.dynamic)

    def chosen(self, value: str) -> range:
        """What a text, no longer escaped, chooses of this dimension."""
        dimension = self.dimension
        if value == "all" and position_in(dimension.axis(self.dynamic), value) is None:
            return self.existing
        if not isinstance(dimension, Timed):
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
                f"{self.now.isoformat()}: write 'all' to choose what there is, be it nothing"
            )
        return self.existing[-1:]

    def _range(self, dimension: Timed, first: str, last: str) -> range:
        start = self._position(dimension, first) if first else self.existing.start
        stop = self._position(dimension, last) + 1 if last else self.existing.stop
        if first and last and start >= stop:
            raise Invalid(f"'{first}..{last}' runs backwards: write '{last}..{first}'")
        return range(start, stop)

    def _position(self, dimension: Timed, value: str) -> int:
        position = dimension.position(value)
        if position not in self.existing:
            raise self.missing(dimension, position, value)
        return position

    def missing(self, dimension: Timed, position: int, value: str) -> Invalid:
        """The error for a partition of time that does not exist."""
        declared, existing = dimension.declared(), self.existing
        if position < declared.start:
            why = f"before the first one: write '{dimension.start}' or later"
        elif position >= declared.stop:
            why = f"after the last one: write '{dimension.value(declared.stop - 1)}' or earlier"
        elif existing:
            newest = dimension.value(existing[-1])
            why = f"not there yet at {self.now.isoformat()}: write '{newest}' or earlier"
        else:
            why = f"not there yet at {self.now.isoformat()}, none is: write 'all' to choose none"
        return Invalid(f"partition {value!r} of dimension {dimension.name!r} is {why}")


def _latest(sides: Iterable[Side]) -> Box:
    sides = tuple(sides)
    if not any(isinstance(side.dimension, Timed) for side in sides):
        raise Invalid(
            f"'latest' needs a dimension of time, and there is only {_names(sides)}: write 'all'"
        )
    return tuple(
        side.latest() if isinstance(side.dimension, Timed) else side.existing for side in sides
    )


def _box(text: str, sides: tuple[Side, ...]) -> Box:
    """What one of several choices, set apart by commas, chooses."""
    if not text:
        raise Invalid(f"there is nothing between two commas or at all: {_example(sides)}")
    named = _named(text, sides)
    for name in named:
        if name not in [side.dimension.name for side in sides]:
            raise Invalid(
                f"{text!r} names {name!r}, and the dimensions are {_names(sides)}: {_example(sides)}"
            )
    return tuple(
        side.chosen(named[side.dimension.name]) if side.dimension.name in named else side.existing
        for side in sides
    )


def _named(text: str, sides: tuple[Side, ...]) -> dict[str, str]:
    if "=" in text:
        named = parse_partition_key(text)
    elif len(sides) == 1:
        named = parse_partition_key(f"{sides[0].dimension.name}={text.replace('/', '%2F')}")
    else:
        raise Invalid(
            f"{text!r} does not say which of the dimensions {_names(sides)} it means: {_example(sides)}"
        )
    if named is None:
        raise Invalid(f"{text!r} is not a list of name=value, each name once: {_example(sides)}")
    return named


def _one(position: int) -> range:
    return range(position, position + 1)


def _names(sides: Iterable[Side]) -> str:
    return ", ".join(repr(side.dimension.name) for side in sides)


def _example(sides: Iterable[Side]) -> str:
    return "write '" + "/".join(map(_pattern, sides)) + "'"


def _pattern(side: Side) -> str:
    dimension = side.dimension
    if isinstance(dimension, Timed):
        return f"{dimension.name}={dimension.example}"
    keys = dimension.keys(side.now, side.dynamic)
    return f"{dimension.name}={keys[0] if keys else '...'}"
