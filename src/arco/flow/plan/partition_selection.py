"""The partitions that one text selects of many assets with different dimensions.

`2026-01-01..2026-01-31` selects days of a daily asset, and overlapping weeks, months or hours of others. A
dimension that the text does not mention is selected fully. The text must fit at least one of the assets
exactly; for the others it is reduced to what they have. A key always selects itself, also with commas.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from arco.core.errors import Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.partition import Daily, Hourly, Monthly, Partitions, PartitionSet, Weekly
from arco.flow.partition.dimension import DynamicValues, position_in
from arco.flow.partition.link import EMPTY_RANGE, intersect_ranges
from arco.flow.partition.partitions import DimensionSelection
from arco.flow.partition.time_dimension import TimeDimension

_GRAINS: tuple[type[TimeDimension], ...] = (Hourly, Daily, Weekly, Monthly)
_LIKE_TIME = re.compile(r"\d{4}-(\d\d?|W\d\d?)(-\d\d?)?([T-]\d\d?)?")
_EXAMPLE = "write '2026-01-01..2026-01-31', 'ds=2026-01-15/region=eu', 'all' or 'latest'"


def select_partitions_of_all(
    text: str | None, cuts: Sequence[Partitions], now: datetime, dynamic: DynamicValues
) -> list[PartitionSet]:
    """For each of these the partitions that a text selects; without a text all that exist."""
    existing = [each.keys(now, dynamic) for each in cuts]
    if text is None:
        return existing
    selections = [
        _Cut(each, tuple(DimensionSelection(one, now, dynamic) for one in each)) for each in cuts
    ]
    is_key = any(text in each for each in existing)
    for part in [text] if is_key else map(str.strip, text.split(",")):
        _Part(part, selections).choose()
    return [PartitionSet.of(each.partitions.axes(dynamic), each.boxes) for each in selections]


@dataclass(frozen=True)
class _Cut:
    """The partitions of one asset, and what was selected of them so far."""

    partitions: Partitions
    sides: tuple[DimensionSelection, ...]
    boxes: list[tuple[range, ...]] = field(default_factory=list)

    @property
    def timed(self) -> list[DimensionSelection]:
        return [side for side in self.sides if isinstance(side.dimension, TimeDimension)]

    @property
    def listed(self) -> list[DimensionSelection]:
        return [side for side in self.sides if not isinstance(side.dimension, TimeDimension)]


@dataclass
class _Part:
    """One of several comma-separated terms."""

    text: str
    cuts: list[_Cut]
    fits: bool = False
    wrong: list[Invalid] = field(default_factory=list)

    def choose(self) -> None:
        named = self._named()
        for cut in self.cuts:
            cut.boxes.append(self._box(cut, named))
        if self.wrong and not self.fits:
            raise self.wrong[0]
        if not (self.fits or named or self.text in ("all", "latest") or self._reads_as_time()):
            raise Invalid(f"{self.text!r} selects nothing: nothing is partitioned, write 'all'")

    def _named(self) -> dict[str, str] | None:
        """The values by dimension name; None if the text names no dimension."""
        if not self.text:
            raise Invalid(f"there is an empty term, or no text at all: {_EXAMPLE}")
        if "=" not in self.text:
            return None
        named = parse_partition_key(self.text)
        if named is None:
            raise Invalid(f"{self.text!r} is not a list of name=value, each name once: {_EXAMPLE}")
        dimensions = {side.dimension.name for cut in self.cuts for side in cut.sides}
        for name in named:
            if name not in dimensions:
                names = ", ".join(map(repr, sorted(dimensions))) or "none"
                raise Invalid(f"{self.text!r} names {name!r}, and the dimensions are {names}")
        return named

    def _box(self, cut: _Cut, named: dict[str, str] | None) -> tuple[range, ...]:
        if named is None:
            return self._unnamed_box(cut)
        own = {side.dimension.name for side in cut.sides}
        foreign = [
            value for name, value in named.items() if name not in own and self._is_time(name)
        ]
        open_timed = [side for side in cut.timed if side.dimension.name not in named]
        return tuple(
            self._chosen(side, named[side.dimension.name])
            if side.dimension.name in named
            else self._chosen(side, foreign[0])
            if foreign and open_timed == [side]
            else side.existing
            for side in cut.sides
        )

    def _is_time(self, name: str) -> bool:
        return any(side.dimension.name == name for cut in self.cuts for side in cut.timed)

    def _unnamed_box(self, cut: _Cut) -> tuple[range, ...]:
        meant = self._meant(cut)
        if len(meant) > 1:
            names = ", ".join(repr(side.dimension.name) for side in meant)
            raise Invalid(f"{self.text!r} does not name one of {names}: {_EXAMPLE}")
        return tuple(
            self._chosen(side, self.text) if side in meant else side.existing for side in cut.sides
        )

    def _meant(self, cut: _Cut) -> list[DimensionSelection]:
        """The dimensions that a text without a dimension name may select from."""
        if self.text == "all":
            return []
        if self.text == "latest" or self._reads_as_time() or self._is_meant_as_time():
            return cut.timed
        return cut.listed if any(self._listed()) else cut.timed

    def _is_meant_as_time(self) -> bool:
        """Whether a text has the form of a date without being one: 2026-02-30.

        Not if there is no time dimension, or if another dimension has this value.
        """
        ends = [end for end in self.text.split("..") if end]
        if not ends or not all(_LIKE_TIME.fullmatch(end) for end in ends):
            return False
        timed = any(cut.timed for cut in self.cuts)
        return timed and not any(_has(side, end) for side in self._listed() for end in ends)

    def _reads_as_time(self) -> bool:
        probe = Daily("probe", "2000-01-01")
        ends = [end for end in self.text.split("..") if end]
        return bool(ends) and all(_place(probe, end) is not None for end in ends)

    def _listed(self) -> Iterator[DimensionSelection]:
        return (side for cut in self.cuts for side in cut.listed)

    def _chosen(self, side: DimensionSelection, value: str) -> range:
        dimension = side.dimension
        try:
            if isinstance(dimension, TimeDimension) and value not in ("all", "latest"):
                positions = self._time(side, dimension, value)
            else:
                positions = side.chosen(value)
        except Invalid as wrong:
            self.wrong.append(wrong)
            return _cut_to(side, value)
        self.fits = True
        return positions

    def _time(self, side: DimensionSelection, dimension: TimeDimension, value: str) -> range:
        """The positions of a time or a range of time; Invalid if part of it does not exist."""
        ends = [end for end in value.split("..", 1) if end]
        if not ends or any(position_in(dimension, end) is not None for end in ends):
            return side.chosen(value)
        positions = intersect_ranges(_range(side, dimension, value), side.existing)
        if not positions:
            raise side.missing(dimension, _range(side, dimension, value).start, value)
        return positions


def _has(side: DimensionSelection, value: str) -> bool:
    return position_in(side.dimension.axis(side.dynamic), value) is not None


def _cut_to(side: DimensionSelection, value: str) -> range:
    """The existing part of what the text selects."""
    if not isinstance(side.dimension, TimeDimension) or value in ("all", "latest"):
        return EMPTY_RANGE
    try:
        return intersect_ranges(_range(side, side.dimension, value), side.existing)
    except Invalid:
        return EMPTY_RANGE


def _range(side: DimensionSelection, dimension: TimeDimension, value: str) -> range:
    first, dots, last = value.partition("..")
    begin = _placed(dimension, first).start if first else side.existing.start
    end = first if not dots else last
    stop = _placed(dimension, end).stop if end else side.existing.stop
    if begin >= stop and first and last:
        raise Invalid(f"'{first}..{last}' runs backwards: write '{last}..{first}'")
    return range(begin, stop)


def _placed(dimension: TimeDimension, text: str) -> range:
    positions = _place(dimension, text)
    if positions is None:
        dimension.position(text)  # raises with the precise reason, such as a skipped hour
        raise dimension.not_a_key(text)
    return positions


def _place(dimension: TimeDimension, text: str) -> range | None:
    """The positions that overlap with the hour, day, week or month of a text."""
    own = position_in(dimension, text)
    if own is not None:
        return range(own, own + 1)
    for other in _other_grains(dimension, text):
        at = position_in(other, text)
        if at is not None:
            last = other.begin(at + 1) - timedelta(microseconds=1)
            return range(dimension.position_at(other.begin(at)), dimension.position_at(last) + 1)
    return None


def _other_grains(dimension: TimeDimension, text: str) -> Iterable[TimeDimension]:
    for grain in _GRAINS:
        try:
            yield grain(dimension.name, text, tz=dimension.tz)
        except Invalid:
            continue
