"""Sets of partitions, stored as boxes: a range of positions for each dimension.

The boxes of a set are disjoint, so that its size is the sum of theirs. Keys are formatted during iteration.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from math import prod

from arco.core.errors import Invalid
from arco.events.partition_key import format_partition_key, parse_partition_key
from arco.flow.partition.dimension import Axis

Box = tuple[range, ...]
Axes = tuple[tuple[str, Axis], ...]
"""The name and the axis of each dimension, in the order in which a key names them."""


@dataclass(frozen=True, eq=False)
class PartitionSet(Collection[str]):
    """Keys of partitions in their canonical order: by the first dimension, then by the next."""

    axes: Axes
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, axes: Axes, boxes: Iterable[Box]) -> "PartitionSet":
        """The union of these boxes, which may overlap."""
        return cls(axes, _disjoint(len(axes), boxes))

    @classmethod
    def of_keys(cls, axes: Axes, keys: Iterable[str]) -> "PartitionSet":
        """The set of these keys; Invalid if one of them is not a key."""
        return cls.of(axes, (_point(positions(axes, key)) for key in keys))

    def __len__(self) -> int:
        return sum(_size(box) for box in self.boxes)

    def __bool__(self) -> bool:
        return bool(self.boxes)

    def __iter__(self) -> Iterator[str]:
        if len(self.boxes) > 1 and len(self.axes) > 1:
            return map(self._key, self.points())
        return chain.from_iterable(keys_in(self.axes, box) for box in self._in_order())

    def points(self) -> Iterator[tuple[int, ...]]:
        """The positions of each partition, one for each dimension, in the order of the keys."""
        return merge(*map(_walk, self.boxes))

    def along(self, at: int) -> tuple[range, ...]:
        """The positions that occur in one dimension."""
        return merge_ranges(box[at] for box in self.boxes)

    def __reversed__(self) -> Iterator[str]:
        backwards = (_walk(tuple(side[::-1] for side in box)) for box in self.boxes)
        return map(self._key, merge(*backwards, reverse=True))

    def __contains__(self, key: object) -> bool:
        try:
            wanted = positions(self.axes, key)
        except Invalid:
            return False
        return any(
            all(position in side for position, side in zip(wanted, box, strict=True))
            for box in self.boxes
        )

    def __or__(self, other: "PartitionSet") -> "PartitionSet":
        return PartitionSet.of(self.axes, chain(self.boxes, self._comparable(other).boxes))

    def __sub__(self, other: "PartitionSet") -> "PartitionSet":
        return PartitionSet(self.axes, tuple(_without(self.boxes, self._comparable(other).boxes)))

    def __and__(self, other: "PartitionSet") -> "PartitionSet":
        return self - (self - other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionSet) or self.axes != other.axes:
            return False
        return len(self) == len(other) and not self - other

    def __hash__(self) -> int:
        return hash((tuple(name for name, _ in self.axes), len(self)))

    def __repr__(self) -> str:
        if not self:
            return "<PartitionSet: none>"
        return f"<PartitionSet: {len(self)}, {next(iter(self))!r} to {next(reversed(self))!r}>"

    def _key(self, at: Sequence[int]) -> str:
        named = zip(self.axes, at, strict=True)
        return format_partition_key(
            {name: axis.value(position) for (name, axis), position in named}
        )

    def _in_order(self) -> list[Box]:
        """The boxes in order, for a set with at most one dimension, where boxes do not interleave."""
        return sorted(self.boxes, key=lambda box: [side.start for side in box])

    def _comparable(self, other: "PartitionSet") -> "PartitionSet":
        if self.axes != other.axes:
            raise Invalid(
                f"partitions by {_names(self.axes)} and by {_names(other.axes)} cannot be combined: "
                "get both sets from one Partitions, such as by parse('2026-01-01..2026-01-31')"
            )
        return other


def positions(axes: Axes, key: object) -> tuple[int, ...]:
    """The position of a key on each axis; Invalid unless it is spelled canonically."""
    values = parse_partition_key(key) if isinstance(key, str) else None
    names = [name for name, _ in axes]
    if values is None or sorted(values) != sorted(names):
        raise Invalid(f"{key!r} is not a key of partitions by {_names(axes)}: {_example(axes)}")
    if format_partition_key(values) != key:
        raise Invalid(
            f"{key!r} is not how the key is spelled: write {format_partition_key(values)!r}"
        )
    return tuple(axis.position(values[name]) for name, axis in axes)


def _example(axes: Axes) -> str:
    if not axes:
        return "it is not partitioned, write ''"
    return "write it as '" + "/".join(f"{name}=..." for name, _ in axes) + "'"


def _names(axes: Axes) -> str:
    return ", ".join(repr(name) for name, _ in axes) or "nothing"


def keys_in(axes: Axes, box: Sequence[Iterable[int]]) -> Iterator[str]:
    """The keys of all positions of a box, in order."""
    if not axes:
        yield ""
        return
    (name, axis), rest = axes[0], None
    for value in axis.values_at(box[0]):
        part = (
            f"{name}={value}"
            if "%" not in value and "/" not in value
            else format_partition_key({name: value})
        )
        if len(axes) == 1:
            yield part
            continue
        rest = list(keys_in(axes[1:], box[1:])) if rest is None else rest
        for other in rest:
            yield f"{part}/{other}"


def _point(at: Iterable[int]) -> Box:
    return tuple(range(position, position + 1) for position in at)


def _size(box: Box) -> int:
    return prod(map(len, box))


def _walk(box: Box) -> Iterator[tuple[int, ...]]:
    if not box:
        yield ()
        return
    for position in box[0]:
        for rest in _walk(box[1:]):
            yield (position, *rest)


def _disjoint(dimensions: int, boxes: Iterable[Box]) -> tuple[Box, ...]:
    filled = [box for box in boxes if all(box)]
    if dimensions == 1:
        return tuple((side,) for side in merge_ranges(side for (side,) in filled))
    disjoint: list[Box] = []
    for box in filled:
        disjoint += _without([box], disjoint)
    return tuple(disjoint)


def merge_ranges(sides: Iterable[range]) -> tuple[range, ...]:
    """The ranges in order, with adjacent and overlapping ones joined."""
    merged: list[range] = []
    for side in sorted((side for side in sides if side), key=lambda side: side.start):
        if merged and side.start <= merged[-1].stop:
            if side.stop > merged[-1].stop:
                merged[-1] = range(merged[-1].start, side.stop)
        else:
            merged.append(side)
    return tuple(merged)


def _without(boxes: Iterable[Box], removed: Iterable[Box]) -> list[Box]:
    remaining = list(boxes)
    for box_to_remove in removed:
        remaining = [piece for box in remaining for piece in _cut(box, box_to_remove)]
    return remaining


def _cut(box: Box, removed: Box) -> Iterator[Box]:
    """The rest of a box, as one part below and one above the removed range in each dimension."""
    shared = tuple(
        range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(box, removed, strict=True)
    )
    if not all(shared):
        yield box
        return
    for at, (side, both) in enumerate(zip(box, shared, strict=True)):
        for part in (range(side.start, both.start), range(both.stop, side.stop)):
            if part:
                yield (*shared[:at], part, *box[at + 1 :])
