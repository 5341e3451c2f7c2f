"""Links: how one dimension of an input hangs on the asset that reads it, both ways, by arithmetic.

`up` gives the positions of the input that one partition of the asset reads, `down` those of the asset that
read one partition of the input.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from arco.core.errors import Invalid
from arco.flow.partition.calendar import Calendar
from arco.flow.partition.dimension import Dimension, position_in
from arco.flow.partition.listed import Dynamic, Static
from arco.flow.partition.reading import Reading
from arco.flow.partition.timed import Timed

NONE = range(0)
OTHERWISE = "write partitions='all', partitions='latest' or partitions=function"


class Link(Protocol):
    """A dimension of the input that follows one of the asset."""

    @property
    def of(self) -> Dimension:
        """The dimension of the asset."""

    def up(self, position: int, reading: Reading) -> range:
        """The positions of the input that this position of the asset reads."""

    def ups(self, positions: range, reading: Reading) -> Iterator[range]:
        """The same for many positions of the asset."""

    def down(self, position: int, reading: Reading) -> range:
        """The positions of the asset that read this position of the input."""


@dataclass(frozen=True)
class Free:
    """A dimension of the input that follows none of the asset: all of it is read, or the newest."""

    reads: Dimension
    newest: bool = False

    def read(self, reading: Reading) -> range:
        """The positions that every partition of the asset reads."""
        existing = self.reads.existing(reading.now, reading.dynamic)
        return existing[-1:] if self.newest else existing


@dataclass(frozen=True)
class Same:
    """Each value of the asset reads the same value of the input."""

    of: Dimension
    reads: Dimension

    def up(self, position: int, reading: Reading) -> range:
        return _same(self.of, self.reads, position, reading)

    def ups(self, positions: range, reading: Reading) -> Iterator[range]:
        return (self.up(position, reading) for position in positions)

    def down(self, position: int, reading: Reading) -> range:
        return _same(self.reads, self.of, position, reading)


@dataclass(frozen=True)
class Shifted:
    """Each partition of time reads those from `back` to `ahead` of its own, or all that lie in them.

    Days, weeks and months meet by their dates, hours by their moments.
    """

    of: Timed
    reads: Timed
    back: int = 0
    ahead: int = 0

    def up(self, position: int, reading: Reading) -> range:  # noqa: ARG002
        start, stop = self._border(position + self.back), self._border(position + self.ahead + 1)
        return clipped(range(start, stop), self.reads.declared())

    def ups(self, positions: range, reading: Reading) -> Iterator[range]:  # noqa: ARG002
        declared = self.reads.declared()
        first, last = declared.start, declared.stop
        starts = self._borders(positions, self.back)
        stops = self._borders(positions, self.ahead + 1)
        for start, stop in zip(starts, stops, strict=True):
            yield range(max(start, first), min(stop, last))

    def down(self, position: int, reading: Reading) -> range:  # noqa: ARG002
        holder = self._holder(position)
        return range(holder - self.ahead, holder - self.back + 1)

    def _borders(self, positions: range, shift: int) -> Iterable[int]:
        moved = range(positions.start + shift, positions.stop + shift)
        return moved if type(self.of) is type(self.reads) else map(self._border, moved)

    def _border(self, position: int) -> int:
        """The position in the input's grain at which one of the asset begins."""
        if type(self.of) is type(self.reads):
            return position
        within = min(max(position, self.of.lowest), self.of.highest)
        if isinstance(self.of, Calendar) and isinstance(self.reads, Calendar):
            return self.reads.position_of_day(self.of.first_day(within))
        return self.reads.position_at(self.of.begin(within))

    def _holder(self, position: int) -> int:
        """The position in the asset's grain of the one that holds one of the input."""
        if type(self.of) is type(self.reads):
            return position
        if isinstance(self.of, Calendar) and isinstance(self.reads, Calendar):
            return self.of.position_of_day(self.reads.first_day(position))
        return self.of.position_at(self.reads.begin(position))


def listed_link(dimension: Dimension, of: Iterable[Dimension]) -> Link | Free:
    """The link of a dimension that is not followed through time."""
    partner = next((one for one in of if one.name == dimension.name), None)
    if partner is None:
        return Free(dimension)
    if isinstance(partner, Dynamic) and isinstance(dimension, Dynamic):
        return Same(partner, dimension)
    if not isinstance(partner, Static) or not isinstance(dimension, Static):
        raise Invalid(
            f"dimension {dimension.name!r} is {type(partner).__name__} in the asset and "
            f"{type(dimension).__name__} in the input, so its values cannot meet: {OTHERWISE}"
        )
    lacking = [value for value in partner.values if value not in dimension]
    if lacking:
        raise Invalid(
            f"dimension {dimension.name!r} of the input has no value {lacking[0]!r}, which the asset "
            f"would read: add it to the input, or {OTHERWISE}"
        )
    return Same(partner, dimension)


def clipped(one: range, other: range) -> range:
    """What two ranges share."""
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _same(here: Dimension, there: Dimension, position: int, reading: Reading) -> range:
    value = here.axis(reading.dynamic).value(position)
    found = position_in(there.axis(reading.dynamic), value)
    return NONE if found is None else range(found, found + 1)
