"""What many partitions of an asset read, computed together.

The keys of the input are formatted once into one list; what a partition reads are places in that list,
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

Places = range | tuple[int, ...]
"""The indexes, in the list of all keys, of the keys that one partition reads."""


@dataclass(frozen=True)
class Upstreams:
    """`keys` are all partitions of the input that are read, `places` what each partition reads."""

    keys: tuple[str, ...]
    places: Sequence[Places]

    def of(self, number: int) -> tuple[str, ...]:
        """The keys that the partition with this number reads."""
        return tuple(map(self.keys.__getitem__, self.places[number]))


def upstreams_of_keys(read: Iterable[tuple[str, ...]]) -> Upstreams:
    """Build from the keys that each partition reads."""
    numbers: dict[str, int] = {}
    places = [tuple(numbers.setdefault(key, len(numbers)) for key in keys) for keys in read]
    return Upstreams(tuple(numbers), places)


def upstreams_of_links(
    keys: PartitionSet,
    links: Links,
    context: MappingContext,
) -> Upstreams:
    """Build from the links of the input's dimensions."""
    sides = [_side(keys, link, context) for link in links]
    everything = keys_in(context.reads.axes(context.dynamic), [side.positions for side in sides])
    return Upstreams(tuple(everything), list(_places(keys, sides)))


@dataclass(frozen=True)
class _Side:
    """One dimension of the input: the positions that are read, and which ones each partition reads.

    `follows` is the number of the asset's dimension; None if all partitions read the same, `full`.
    """

    positions: Sequence[int]
    full: range
    follows: int | None = None
    places: dict[int, range] | None = None

    def at(self, point: tuple[int, ...]) -> range:
        if self.follows is None or self.places is None:
            return self.full
        return self.places[point[self.follows]]


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
    places = dict(zip(chain.from_iterable(along), _numbered(read, parts), strict=True))
    return _Side(positions, range(len(positions)), follows, places)


def _numbered(read: Iterable[range], parts: tuple[range, ...]) -> Iterator[range]:
    """Ranges of positions as indexes into the positions of `parts`; each range lies in one part."""
    starts = [part.start for part in parts]
    before = list(accumulate(map(len, parts), initial=0))
    shifts = [number - start for number, start in zip(before, starts, strict=False)]
    for each in read:
        if not each:
            yield EMPTY_RANGE
            continue
        shift = shifts[bisect_right(starts, each.start) - 1] if len(parts) > 1 else shifts[0]
        yield range(each.start + shift, each.stop + shift)


def _places(keys: PartitionSet, sides: list[_Side]) -> Iterable[Places]:
    if all(side.follows is None for side in sides):
        return [_flat(tuple(side.full for side in sides), sides)] * len(keys)
    if len(sides) == 1 and len(keys.axes) == 1:
        return (sides[0].places or {}).values()
    return _flat_places(keys, sides)


def _flat_places(keys: PartitionSet, sides: list[_Side]) -> Iterator[Places]:
    by_box: dict[tuple[range, ...], Places] = {}
    for point in keys.points():
        box = tuple(side.at(point) for side in sides)
        places = by_box.get(box)
        if places is None:
            places = by_box[box] = _flat(box, sides)
        yield places


def _flat(box: tuple[range, ...], sides: list[_Side]) -> Places:
    """The indexes of a box in the list of all keys, in which the last dimension varies fastest."""
    flat: Places = range(1)
    for side, of in zip(box, sides, strict=True):
        flat = _joined(flat, side, len(of.positions))
    return flat


def _joined(outer: Places, inner: range, size: int) -> Places:
    if isinstance(outer, range):
        if len(outer) == 1:
            start = outer[0] * size
            return range(start + inner.start, start + inner.stop)
        if len(inner) == 1:
            first = inner.start
            return range(outer.start * size + first, outer.stop * size + first, outer.step * size)
        if len(inner) == size and outer.step == 1:
            return range(outer.start * size, outer.stop * size)
    return tuple(place * size + each for place in outer for each in inner)
