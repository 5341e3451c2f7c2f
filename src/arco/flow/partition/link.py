"""Links between a dimension of an asset and a dimension of its input, in both directions, by arithmetic.

`up` gives the positions of the input that one partition of the asset reads, `down` those of the asset that
read one partition of the input.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from arco.core.errors import Invalid
from arco.flow.partition.calendar import CalendarDimension
from arco.flow.partition.dimension import Dimension, Dynamic, DynamicValues, Static, position_in
from arco.flow.partition.partitions import Partitions
from arco.flow.partition.time_dimension import TimeDimension


@dataclass(frozen=True)
class MappingContext:
    """The partitions of an asset (`of`) and of its input (`reads`), and what decides which exist."""

    of: Partitions
    reads: Partitions
    now: datetime
    dynamic: DynamicValues = field(default_factory=dict)


EMPTY_RANGE = range(0)
ALTERNATIVES = "write partitions='all', partitions='latest' or partitions=function"


class DimensionLink(Protocol):
    """A dimension of the input that follows a dimension of the asset."""

    @property
    def of(self) -> Dimension:
        """The dimension of the asset."""

    def up(self, position: int, context: MappingContext) -> range:
        """The positions of the input that this position of the asset reads."""

    def ups(self, positions: range, context: MappingContext) -> Iterator[range]:
        """The same for many positions of the asset."""

    def down(self, position: int, context: MappingContext) -> range:
        """The positions of the asset that read this position of the input."""


@dataclass(frozen=True)
class UnlinkedDimension:
    """A dimension of the input that follows none of the asset: all values are read, or the newest."""

    reads: Dimension
    newest: bool = False

    def read(self, context: MappingContext) -> range:
        """The positions that every partition of the asset reads."""
        existing = self.reads.existing(context.now, context.dynamic)
        return existing[-1:] if self.newest else existing


Links = tuple[DimensionLink | UnlinkedDimension, ...]
"""A link for each dimension of the input, in order."""


@dataclass(frozen=True)
class SameValueLink:
    """Each value of the asset reads the same value of the input."""

    of: Dimension
    reads: Dimension

    def up(self, position: int, context: MappingContext) -> range:
        return _matching_position(self.of, self.reads, position, context)

    def ups(self, positions: range, context: MappingContext) -> Iterator[range]:
        return (self.up(position, context) for position in positions)

    def down(self, position: int, context: MappingContext) -> range:
        return _matching_position(self.reads, self.of, position, context)


@dataclass(frozen=True)
class TimeShiftLink:
    """Each partition reads the input from `back` to `ahead` steps of its own time.

    A finer input is read for the full span. Days, weeks and months are matched by date, hours by moment.
    """

    of: TimeDimension
    reads: TimeDimension
    back: int = 0
    ahead: int = 0

    def up(self, position: int, context: MappingContext) -> range:  # noqa: ARG002
        start, stop = self._border(position + self.back), self._border(position + self.ahead + 1)
        return intersect_ranges(range(start, stop), self.reads.declared())

    def ups(self, positions: range, context: MappingContext) -> Iterator[range]:  # noqa: ARG002
        declared = self.reads.declared()
        first, last = declared.start, declared.stop
        starts = self._borders(positions, self.back)
        stops = self._borders(positions, self.ahead + 1)
        for start, stop in zip(starts, stops, strict=True):
            yield range(max(start, first), min(stop, last))

    def down(self, position: int, context: MappingContext) -> range:  # noqa: ARG002
        holder = self._holder(position)
        return range(holder - self.ahead, holder - self.back + 1)

    def _borders(self, positions: range, shift: int) -> Iterable[int]:
        moved = range(positions.start + shift, positions.stop + shift)
        return moved if type(self.of) is type(self.reads) else map(self._border, moved)

    def _border(self, position: int) -> int:
        """The position of the input at which a position of the asset begins."""
        if type(self.of) is type(self.reads):
            return position
        within = min(max(position, self.of.lowest), self.of.highest)
        if isinstance(self.of, CalendarDimension) and isinstance(self.reads, CalendarDimension):
            return self.reads.position_of_day(self.of.first_day(within))
        return self.reads.position_at(self.of.begin(within))

    def _holder(self, position: int) -> int:
        """The position of the asset that contains a position of the input."""
        if type(self.of) is type(self.reads):
            return position
        if isinstance(self.of, CalendarDimension) and isinstance(self.reads, CalendarDimension):
            return self.of.position_of_day(self.reads.first_day(position))
        return self.of.position_at(self.reads.begin(position))


def link_values(dimension: Dimension, of: Iterable[Dimension]) -> DimensionLink | UnlinkedDimension:
    """The link of a dimension of the input whose values are matched, not shifted in time."""
    partner = next((one for one in of if one.name == dimension.name), None)
    if partner is None:
        return UnlinkedDimension(dimension)
    if isinstance(partner, Dynamic) and isinstance(dimension, Dynamic):
        return SameValueLink(partner, dimension)
    if not isinstance(partner, Static) or not isinstance(dimension, Static):
        raise Invalid(
            f"dimension {dimension.name!r} is {type(partner).__name__} in the asset and "
            f"{type(dimension).__name__} in the input, so values cannot be matched: {ALTERNATIVES}"
        )
    lacking = [value for value in partner.values if value not in dimension]
    if lacking:
        raise Invalid(
            f"dimension {dimension.name!r} of the input has no value {lacking[0]!r}, which the asset "
            f"would read: add it to the input, or {ALTERNATIVES}"
        )
    return SameValueLink(partner, dimension)


def intersect_ranges(one: range, other: range) -> range:
    """The intersection of two ranges."""
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _matching_position(
    one: Dimension, other: Dimension, position: int, context: MappingContext
) -> range:
    value = one.axis(context.dynamic).value(position)
    match = position_in(other.axis(context.dynamic), value)
    return EMPTY_RANGE if match is None else range(match, match + 1)
