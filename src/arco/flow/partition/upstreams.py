"""What many partitions of an asset read at once.

The keys of the input are made once, in one list; what a partition reads are places in that list, nearly
always a range. So a hundred thousand partitions, each with its window of seven, cost a hundred thousand
keys and not seven times as many.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from arco.flow.partition.link import NONE, Free, Link
from arco.flow.partition.reading import Reading
from arco.flow.partition.subset import PartitionSet, keys_in, merged

Places = range | tuple[int, ...]
"""Where the keys that one partition reads stand in the list of all keys, in their order."""


@dataclass(frozen=True)
class Upstreams:
    """`keys` are the partitions of the input that anybody reads, `places` what each partition reads."""

    keys: tuple[str, ...]
    places: Sequence[Places]

    def of(self, number: int) -> tuple[str, ...]:
        """The keys that one of the partitions reads, by its number in their order."""
        return tuple(map(self.keys.__getitem__, self.places[number]))


def listed_upstreams(read: Iterable[tuple[str, ...]]) -> Upstreams:
    """From the keys that each partition reads."""
    numbers: dict[str, int] = {}
    places = [tuple(numbers.setdefault(key, len(numbers)) for key in keys) for keys in read]
    return Upstreams(tuple(numbers), places)


def linked_upstreams(
    keys: PartitionSet, links: tuple[Link | Free, ...], reading: Reading
) -> Upstreams:
    """From the links of the input's dimensions."""
    sides = [_side(keys, link, reading) for link in links]
    everything = keys_in(reading.reads.axes(reading.dynamic), [side.positions for side in sides])
    return Upstreams(tuple(everything), list(_places(keys, sides)))


@dataclass(frozen=True)
class _Side:
    """One dimension of the input: the positions that are read, and where each of the asset's reads them.

    `follows` is the number of the asset's dimension; None if all its partitions read the same, `whole`.
    """

    positions: Sequence[int]
    whole: range
    follows: int | None = None
    places: dict[int, range] | None = None

    def at(self, point: tuple[int, ...]) -> range:
        if self.follows is None or self.places is None:
            return self.whole
        return self.places[point[self.follows]]


def _side(keys: PartitionSet, link: Link | Free, reading: Reading) -> _Side:
    if isinstance(link, Free):
        read_by_all = link.read(reading)
        return _Side(read_by_all, range(len(read_by_all)))
    follows = reading.of.names.index(link.of.name)
    along = keys.along(follows)
    read = list(chain.from_iterable(link.ups(part, reading) for part in along))
    parts = merged(read)
    positions: Sequence[int] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
    places = dict(zip(chain.from_iterable(along), _numbered(read, parts), strict=True))
    return _Side(positions, range(len(positions)), follows, places)


def _numbered(read: Iterable[range], parts: tuple[range, ...]) -> Iterator[range]:
    """Ranges of positions as places among all positions of `parts`, of which each lies in one."""
    starts = [part.start for part in parts]
    before = list(accumulate(map(len, parts), initial=0))
    shifts = [number - start for number, start in zip(before, starts, strict=False)]
    for each in read:
        if not each:
            yield NONE
            continue
        shift = shifts[bisect_right(starts, each.start) - 1] if len(parts) > 1 else shifts[0]
        yield range(each.start + shift, each.stop + shift)


def _places(keys: PartitionSet, sides: list[_Side]) -> Iterable[Places]:
    if all(side.follows is None for side in sides):
        return [_flat(tuple(side.whole for side in sides), sides)] * len(keys)
    if len(sides) == 1 and len(keys.axes) == 1:
        return (sides[0].places or {}).values()
    return _flat_places(keys, sides)


def _flat_places(keys: PartitionSet, sides: list[_Side]) -> Iterator[Places]:
    known: dict[tuple[range, ...], Places] = {}
    for point in keys.points():
        box = tuple(side.at(point) for side in sides)
        found = known.get(box)
        if found is None:
            found = known[box] = _flat(box, sides)
        yield found


def _flat(box: tuple[range, ...], sides: list[_Side]) -> Places:
    """The places of a box among all keys, which go through the last dimension first."""
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
