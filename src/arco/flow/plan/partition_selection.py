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
    text: str | None, assets: Sequence[Partitions], now: datetime, dynamic: DynamicValues
) -> list[PartitionSet]:
    """For each of these the partitions that a text selects; without a text all that exist."""
    existing = [each.keys(now, dynamic) for each in assets]
    if text is None:
        return existing
    selections = [
        _AssetSelection(each, tuple(DimensionSelection(one, now, dynamic) for one in each))
        for each in assets
    ]
    is_key = any(text in each for each in existing)
    for part in [text] if is_key else map(str.strip, text.split(",")):
        _Term(part, selections).choose()
    return [PartitionSet.of(each.partitions.axes(dynamic), each.ranges) for each in selections]


@dataclass(frozen=True)
class _AssetSelection:
    """The partitions of one asset, and what was selected of them so far."""

    partitions: Partitions
    dimensions: tuple[DimensionSelection, ...]
    ranges: list[tuple[range, ...]] = field(default_factory=list)

    @property
    def timed(self) -> list[DimensionSelection]:
        return [
            selection
            for selection in self.dimensions
            if isinstance(selection.dimension, TimeDimension)
        ]

    @property
    def listed(self) -> list[DimensionSelection]:
        return [
            selection
            for selection in self.dimensions
            if not isinstance(selection.dimension, TimeDimension)
        ]


@dataclass
class _Term:
    """One of several comma-separated terms."""

    text: str
    assets: list[_AssetSelection]
    is_valid: bool = False
    errors: list[Invalid] = field(default_factory=list)

    def choose(self) -> None:
        named = self._named()
        for asset in self.assets:
            asset.ranges.append(self._ranges(asset, named))
        if self.errors and not self.is_valid:
            raise self.errors[0]
        if not (self.is_valid or named or self.text in ("all", "latest") or self._reads_as_time()):
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
        dimensions = {
            selection.dimension.name for asset in self.assets for selection in asset.dimensions
        }
        for name in named:
            if name not in dimensions:
                names = ", ".join(map(repr, sorted(dimensions))) or "none"
                raise Invalid(f"{self.text!r} names {name!r}, and the dimensions are {names}")
        return named

    def _ranges(self, asset: _AssetSelection, named: dict[str, str] | None) -> tuple[range, ...]:
        if named is None:
            return self._unnamed_ranges(asset)
        own = {selection.dimension.name for selection in asset.dimensions}
        foreign = [
            value for name, value in named.items() if name not in own and self._is_time(name)
        ]
        open_timed = [
            selection for selection in asset.timed if selection.dimension.name not in named
        ]
        return tuple(
            self._chosen(selection, named[selection.dimension.name])
            if selection.dimension.name in named
            else self._chosen(selection, foreign[0])
            if foreign and open_timed == [selection]
            else selection.existing
            for selection in asset.dimensions
        )

    def _is_time(self, name: str) -> bool:
        return any(
            selection.dimension.name == name for asset in self.assets for selection in asset.timed
        )

    def _unnamed_ranges(self, asset: _AssetSelection) -> tuple[range, ...]:
        candidates = self._candidate_dimensions(asset)
        if len(candidates) > 1:
            names = ", ".join(repr(selection.dimension.name) for selection in candidates)
            raise Invalid(f"{self.text!r} does not name one of {names}: {_EXAMPLE}")
        return tuple(
            self._chosen(selection, self.text) if selection in candidates else selection.existing
            for selection in asset.dimensions
        )

    def _candidate_dimensions(self, asset: _AssetSelection) -> list[DimensionSelection]:
        """The dimensions that a text without a dimension name may select from."""
        if self.text == "all":
            return []
        if self.text == "latest" or self._reads_as_time() or self._is_meant_as_time():
            return asset.timed
        return asset.listed if any(self._listed()) else asset.timed

    def _is_meant_as_time(self) -> bool:
        """Whether a text has the form of a date without being one: 2026-02-30.

        Not if there is no time dimension, or if another dimension has this value.
        """
        ends = [end for end in self.text.split("..") if end]
        if not ends or not all(_LIKE_TIME.fullmatch(end) for end in ends):
            return False
        timed = any(asset.timed for asset in self.assets)
        return timed and not any(
            _has(selection, end) for selection in self._listed() for end in ends
        )

    def _reads_as_time(self) -> bool:
        probe = Daily("probe", "2000-01-01")
        ends = [end for end in self.text.split("..") if end]
        return bool(ends) and all(_find_positions(probe, end) is not None for end in ends)

    def _listed(self) -> Iterator[DimensionSelection]:
        return (selection for asset in self.assets for selection in asset.listed)

    def _chosen(self, selection: DimensionSelection, value: str) -> range:
        dimension = selection.dimension
        try:
            if isinstance(dimension, TimeDimension) and value not in ("all", "latest"):
                positions = self._time(selection, dimension, value)
            else:
                positions = selection.chosen(value)
        except Invalid as error:
            self.errors.append(error)
            return _existing_part(selection, value)
        self.is_valid = True
        return positions

    def _time(self, selection: DimensionSelection, dimension: TimeDimension, value: str) -> range:
        """The positions of a time or a range of time; Invalid if part of it does not exist."""
        ends = [end for end in value.split("..", 1) if end]
        if not ends or any(position_in(dimension, end) is not None for end in ends):
            return selection.chosen(value)
        positions = intersect_ranges(_range(selection, dimension, value), selection.existing)
        if not positions:
            raise selection.missing(dimension, _range(selection, dimension, value).start, value)
        return positions


def _has(selection: DimensionSelection, value: str) -> bool:
    return position_in(selection.dimension.axis(selection.dynamic), value) is not None


def _existing_part(selection: DimensionSelection, value: str) -> range:
    """The existing part of what the text selects."""
    if not isinstance(selection.dimension, TimeDimension) or value in ("all", "latest"):
        return EMPTY_RANGE
    try:
        return intersect_ranges(_range(selection, selection.dimension, value), selection.existing)
    except Invalid:
        return EMPTY_RANGE


def _range(selection: DimensionSelection, dimension: TimeDimension, value: str) -> range:
    first, dots, last = value.partition("..")
    begin = _require_positions(dimension, first).start if first else selection.existing.start
    end = first if not dots else last
    stop = _require_positions(dimension, end).stop if end else selection.existing.stop
    if begin >= stop and first and last:
        raise Invalid(f"'{first}..{last}' runs backwards: write '{last}..{first}'")
    return range(begin, stop)


def _require_positions(dimension: TimeDimension, text: str) -> range:
    positions = _find_positions(dimension, text)
    if positions is None:
        dimension.position(text)  # raises with the precise reason, such as a skipped hour
        raise dimension.not_a_key(text)
    return positions


def _find_positions(dimension: TimeDimension, text: str) -> range | None:
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
