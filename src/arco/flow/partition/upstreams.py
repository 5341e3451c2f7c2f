"""What many partitions of an asset read, computed together.

The keys of the input are formatted once into one list; what a partition reads are indexes in that list,
nearly always a range. So 100,000 partitions with a window of seven cost 100,000 keys, not 700,000.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from arco.flow.partition.link import (
    EMPTY_RANGE,
    DimensionLink,
    Links,
    MappingContext,
    UnlinkedDimension,
)
from arco.flow.partition.partition_set import PartitionSet, keys_in, merge_ranges

KeyIndexes = range | tuple[int, ...]
"""The indexes, in the list of all keys, of the keys that one partition reads."""


@dataclass(frozen=True)
class Upstreams:
    """`keys` are all partitions of the input that are read, `indexes` what each partition reads."""

    keys: tuple[str, ...]
    indexes: Sequence[KeyIndexes]

    def of(self, number: int) -> tuple[str, ...]:
        """The keys that the partition with this number reads."""
        return tuple(map(self.keys.__getitem__, self.indexes[number]))


def upstreams_of_keys(read: Iterable[tuple[str, ...]]) -> Upstreams:
    """Build from the keys that each partition reads."""
    numbers: dict[str, int] = {}
    indexes = [tuple(numbers.setdefault(key, len(numbers)) for key in keys) for keys in read]
    return Upstreams(tuple(numbers), indexes)


def upstreams_of_links(
    keys: PartitionSet,
    links: Links,
    context: MappingContext,
) -> Upstreams:
    """Build from the links of the input's dimensions."""
    sides = [_side(keys, link, context) for link in links]
    everything = keys_in(context.reads.axes(context.dynamic), [side.positions for side in sides])
    return Upstreams(tuple(everything), list(_indexes(keys, sides)))


@dataclass(frozen=True)
class _Side:
    """One dimension of the input: the positions that are read, and which ones each partition reads.

    `follows` is the number of the asset's dimension; None if all partitions read the same, `full`.
    """

    positions: Sequence[int]
    full: range
    follows: int | None = None
    indexes: dict[int, range] | None = None

    def at(self, point: tuple[int, ...]) -> range:
        if self.follows is None or self.indexes is None:
            return self.full
        return self.indexes[point[self.follows]]


def _side(
    keys: PartitionSet, link: DimensionLink | UnlinkedDimension, context: MappingContext
) -> _Side:
    if isinstance(link, UnlinkedDimension):
        read_by_all = link.read(context)
        return _Side(read_by_all, range(len(read_by_all)))
    follows = context.of.names.index(link.of.name)
    along = keys.along(follows)
    read = list(chain.from_iterable(link.ups(part, context) for part in along))
    parts = merge_ranges(read)
    positions: Sequence[int] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
    indexes = dict(zip(chain.from_iterable(along), _numbered(read, parts), strict=True))
    return _Side(positions, range(len(positions)), follows, indexes)


def _numbered(read: Iterable[range], parts: tuple[range, ...]) -> Iterator[range]:
    """Ranges of positions as indexes into the positions of `parts`; each range lies in one part."""
    starts = [part.start for part in parts]
    before = list(accumulate(map(len, parts), initial=0))
    shifts = [number - start for number, start in zip(before, starts, strict=False)]
    for positions in read:
        if not positions:
            yield EMPTY_RANGE
            continue
        shift = shifts[bisect_right(starts, positions.start) - 1] if len(parts) > 1 else shifts[0]
        yield range(positions.start + shift, positions.stop + shift)


def _indexes(keys: PartitionSet, sides: list[_Side]) -> Iterable[KeyIndexes]:
    if all(side.follows is None for side in sides):
        return [_flat(tuple(side.full for side in sides), sides)] * len(keys)
    if len(sides) == 1 and len(keys.axes) == 1:
        return (sides[0].indexes or {}).values()
    return _flat_indexes(keys, sides)


def _flat_indexes(keys: PartitionSet, sides: list[_Side]) -> Iterator[KeyIndexes]:
    by_box: dict[tuple[range, ...], KeyIndexes] = {}
    for point in keys.points():
        box = tuple(side.at(point) for side in sides)
        indexes = by_box.get(box)
        if indexes is None:
            indexes = by_box[box] = _flat(box, sides)
        yield indexes


def _flat(box: tuple[range, ...], sides: list[_Side]) -> KeyIndexes:
    """The indexes of a box in the list of all keys, in which the last dimension varies fastest."""
    flat: KeyIndexes = range(1)
    for side, of in zip(box, sides, strict=True):
        flat = _joined(flat, side, len(of.positions))
    return flat


def _joined(outer: KeyIndexes, inner: range, size: int) -> KeyIndexes:
    if isinstance(outer, range):
        if len(outer) == 1:
            start = outer[0] * size
            return range(start + inner.start, start + inner.stop)
        if len(inner) == 1:
            first = inner.start
            return range(outer.start * size + first, outer.stop * size + first, outer.step * size)
        if len(inner) == size and outer.step == 1:
            return range(outer.start * size, outer.stop * size)
    return tuple(index * size + each for index in outer for each in inner)
