"""Mappings: which partitions of an input a partition of an asset reads, and the reverse.

What a partition reads follows from the calendar, whether or not the input has data: a run waits for it.
Only `all_partitions` and `latest` read what exists now. The reverse gives existing partitions only.

A dimension of the input is linked to the dimension of the asset with the same name, or else to the only
other time dimension if both sides have exactly one. Unlinked dimensions of the input are read completely.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.flow.partition.calendar import CalendarDimension, Daily, Hourly
from arco.flow.partition.dimension import Dimension, DynamicValues
from arco.flow.partition.link import (
    ALTERNATIVES,
    DimensionLink,
    Links,
    MappingContext,
    TimeShiftLink,
    UnlinkedDimension,
    intersect_ranges,
    link_values,
)
from arco.flow.partition.partition_set import Box, PartitionSet, positions
from arco.flow.partition.partitions import Partitions
from arco.flow.partition.time_dimension import TimeDimension, hour_shift_s
from arco.flow.partition.upstreams import Upstreams, upstreams_of_keys, upstreams_of_links


class Mapping(ABC):
    """Which partitions of an input one partition of an asset reads."""

    @abstractmethod
    def check(self, of: Partitions, reads: Partitions) -> None:
        """Raise Invalid with the reason if the mapping cannot work between these partitions."""

    @abstractmethod
    def upstream_set(self, key: str, context: MappingContext) -> PartitionSet:
        """The partitions of the input that a partition of the asset reads."""

    @abstractmethod
    def downstream_set(self, key: str, context: MappingContext) -> PartitionSet:
        """The existing partitions of the asset that read a partition of the input."""

    @abstractmethod
    def upstreams(self, keys: PartitionSet, context: MappingContext) -> Upstreams:
        """What each of many partitions of the asset reads, much faster than one by one."""

    def accepts_partial(self, of: Partitions, reads: Partitions) -> bool:  # noqa: ARG002
        """Whether a run may proceed with only some of the partitions that it reads."""
        return False

    def upstream(self, key: str, context: MappingContext) -> tuple[str, ...]:
        """The keys of the input that a partition of the asset reads, in canonical order."""
        return tuple(self.upstream_set(key, context))

    def downstream(self, key: str, context: MappingContext) -> tuple[str, ...]:
        """The keys of existing partitions that read a partition of the input, in canonical order."""
        return tuple(self.downstream_set(key, context))


class LinkedMapping(Mapping):
    """A mapping that links each dimension of the input to a dimension of the asset, or to none."""

    @abstractmethod
    def links(self, of: Partitions, reads: Partitions) -> Links:
        """A link for each dimension of the input, in order; Invalid if the mapping cannot work."""

    def check(self, of: Partitions, reads: Partitions) -> None:
        self.links(of, reads)

    def accepts_partial(self, of: Partitions, reads: Partitions) -> bool:
        links = self.links(of, reads)
        return any(isinstance(link, UnlinkedDimension) and not link.newest for link in links)

    def upstream_set(self, key: str, context: MappingContext) -> PartitionSet:
        of = context.of
        at = dict(zip(of.names, key_positions(key, of, context.dynamic), strict=True))
        box: Box = tuple(
            link.read(context)
            if isinstance(link, UnlinkedDimension)
            else link.up(at[link.of.name], context)
            for link in self.links(of, context.reads)
        )
        return PartitionSet.of(context.reads.axes(context.dynamic), [box])

    def upstreams(self, keys: PartitionSet, context: MappingContext) -> Upstreams:
        return upstreams_of_links(keys, self.links(context.of, context.reads), context)

    def downstream_set(self, key: str, context: MappingContext) -> PartitionSet:
        of, reads, dynamic = context.of, context.reads, context.dynamic
        affected = {dimension.name: dimension.existing(context.now, dynamic) for dimension in of}
        reached = True
        links = self.links(of, reads)
        for link, position in zip(links, key_positions(key, reads, dynamic), strict=True):
            if isinstance(link, UnlinkedDimension):
                reached = reached and position in link.read(context)
            else:
                name = link.of.name
                affected[name] = intersect_ranges(affected[name], link.down(position, context))
        return PartitionSet.of(of.axes(dynamic), [tuple(affected.values())] if reached else [])


def key_positions(key: str, partitions: Partitions, dynamic: DynamicValues) -> tuple[int, ...]:
    """The positions of a key; Invalid if it can never be the key of a partition."""
    key_place = positions(partitions.axes(dynamic), key)
    sides = (dimension.declared(dynamic) for dimension in partitions)
    if not all(position in side for position, side in zip(key_place, sides, strict=True)):
        raise Invalid(
            f"{key!r} is outside the start and end of its dimensions: write a key such as "
            f"{example_key(partitions)}"
        )
    return key_place


def example_key(partitions: Partitions) -> str:
    """An example of a key, for error messages."""
    return repr(
        "/".join(
            f"{d.name}={d.start if isinstance(d, TimeDimension) else '...'}" for d in partitions
        )
    )


@dataclass(frozen=True)
class _Everything(LinkedMapping):
    """Each partition reads all existing partitions of the input."""

    def links(self, of: Partitions, reads: Partitions) -> Links:  # noqa: ARG002
        return tuple(UnlinkedDimension(dimension) for dimension in reads)


@dataclass(frozen=True)
class _Latest(LinkedMapping):
    """Each partition reads the newest existing partition of the input, in each time dimension."""

    def links(self, of: Partitions, reads: Partitions) -> Links:
        if not any(isinstance(dimension, TimeDimension) for dimension in reads):
            raise Invalid(
                "'latest' needs an input with a dimension of time, and this one has "
                f"{', '.join(map(repr, reads.names)) or 'none'}: write partitions='all'"
            )
        return tuple(
            UnlinkedDimension(dimension, newest=True)
            if isinstance(dimension, TimeDimension)
            else link_values(dimension, of)
            for dimension in reads
        )


all_partitions: Mapping = _Everything()
latest: Mapping = _Latest()


@dataclass(frozen=True)
class ShiftMapping(LinkedMapping):
    """Each partition reads from `back` to `ahead` steps of its own time, and equal values otherwise."""

    label: str
    back: int = 0
    ahead: int = 0
    same: bool = True
    finer: bool = True
    timed: bool = True
    whole: bool = True
    renamed: bool = True

    def links(self, of: Partitions, reads: Partitions) -> Links:
        partners = _partners(of, reads)
        links = tuple(self._link(dimension, partners, of) for dimension in reads)
        timed = sum(isinstance(link, TimeShiftLink) for link in links)
        if self.timed and timed != 1:
            raise Invalid(
                f"{self.label} needs one dimension of time that the asset and its input share, and "
                f"they share {timed} (asset: {_names(of)}; input: {_names(reads)}): {ALTERNATIVES}"
            )
        return links

    def _link(
        self, dimension: Dimension, partners: dict[str, Dimension], of: Partitions
    ) -> DimensionLink | UnlinkedDimension:
        partner = partners.get(dimension.name)
        if partner is None and not self.whole:
            raise Invalid(
                f"{self.label} needs each dimension of the input, and the asset (by {_names(of)}) "
                f"lacks {dimension.name!r}: {ALTERNATIVES}"
            )
        if isinstance(dimension, TimeDimension) and isinstance(partner, TimeDimension):
            return self._shifted(partner, dimension)
        return link_values(dimension, of)

    def _shifted(self, of: TimeDimension, reads: TimeDimension) -> TimeShiftLink:
        same = _is_same(of, reads)
        if same and not self.same:
            raise Invalid(
                f"{self.label} gathers what is finer, and {reads.name!r} of the input is {of.grain} "
                "like that of the asset: write mapping=identity"
            )
        if not same and not self.finer:
            raise Invalid(
                f"{self.label} needs the same grain, and the input has {reads.grain} for {of.grain} "
                "of the asset: write mapping=roll_up"
            )
        if same and not self.renamed and of.name != reads.name:
            raise Invalid(
                f"{reads.name!r} of the input and {of.name!r} of the asset are both {of.grain} but "
                "have different names, so they may mean different things: write mapping=identity "
                "if they mean the same, or partitions='all'"
            )
        return TimeShiftLink(of, reads, self.back, self.ahead)


def window(count: int) -> Mapping:
    """The same partition and the ones before it, `count` in total."""
    if not _is_integer(count) or count < 1:
        raise Invalid(f"window={count!r} reads nothing: write a whole number from 1, as window=7")
    return ShiftMapping(f"window={count}", back=1 - count)


def offset(steps: int) -> Mapping:
    """The partition `steps` later, or earlier if negative."""
    if not _is_integer(steps):
        raise Invalid(
            f"offset={steps!r} is not a number of steps: write offset=-1 for the one before"
        )
    return ShiftMapping(f"offset={steps}", back=steps, ahead=steps)


identity: Mapping = ShiftMapping("identity", finer=False, timed=False, whole=False)
roll_up: Mapping = ShiftMapping("roll_up", same=False)


def default_mapping(of: Partitions, reads: Partitions) -> Mapping:
    """The mapping of an input that declares none; Invalid if it would be ambiguous.

    Shared dimensions have equal values, finer time dimensions roll up, others are read completely.
    """
    mapping = ShiftMapping("the default mapping", timed=False, renamed=False)
    mapping.check(of, reads)
    return mapping


def _partners(of: Partitions, reads: Partitions) -> dict[str, Dimension]:
    """The dimension of the asset to which each dimension of the input is linked, if any."""
    partners = {dimension.name: dimension for dimension in of if dimension.name in reads.names}
    input_times = [each for each in reads if _is_free_time(each, partners)]
    asset_times = [each for each in of if _is_free_time(each, partners)]
    if len(input_times) == 1 and len(asset_times) == 1:
        partners[input_times[0].name] = asset_times[0]
    return partners


def _is_free_time(dimension: Dimension, partners: dict[str, Dimension]) -> bool:
    return isinstance(dimension, TimeDimension) and dimension.name not in partners


def _is_same(of: TimeDimension, reads: TimeDimension) -> bool:
    """Whether both have the same grain; False if the input is finer, Invalid if it does not fit."""
    if isinstance(of, Hourly) and isinstance(reads, Hourly):
        if of.tz != reads.tz:
            raise Invalid(
                f"the hours of {of.name!r} are of {of.tz} and those of the input of {reads.tz}, so "
                f"they have different names: write the same tz for both, or {ALTERNATIVES}"
            )
        return True
    if type(of) is type(reads):
        return True
    if isinstance(reads, Hourly) and isinstance(of, CalendarDimension):
        _check_hours(of, reads)
        return False
    if isinstance(reads, Daily) and isinstance(of, CalendarDimension):
        return False
    raise Invalid(
        f"{reads.grain} of the input does not fit into {of.grain} of the asset, so it is not clear "
        f"which one to read: {ALTERNATIVES}"
    )


def _check_hours(of: CalendarDimension, reads: Hourly) -> None:
    """Raise Invalid unless an hour of the input begins at the asset's midnight."""
    year = int(str(of.start)[:4])
    if hour_shift_s(of.zone, year) != reads.shift_s:
        raise Invalid(
            f"midnight in {of.tz} is within an hour of {reads.tz}: write tz={of.tz!r} for the hours "
            f"of the input, or {ALTERNATIVES}"
        )


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _names(partitions: Partitions) -> str:
    return ", ".join(map(repr, partitions.names)) or "nothing"


KeyFunction = Callable[[str], str | Iterable[str]]
"""From a key to the keys that it reads, or that read it."""


@dataclass(frozen=True)
class _Custom(Mapping):
    """A function of the user. Without its inverse, every existing key is tried to find readers."""

    function: KeyFunction
    inverse: KeyFunction | None = None

    def check(self, of: Partitions, reads: Partitions) -> None:
        """A function can only be checked by calling it."""

    def upstream_set(self, key: str, context: MappingContext) -> PartitionSet:
        reads, dynamic = context.reads, context.dynamic
        key_positions(key, context.of, dynamic)
        return PartitionSet.of_keys(reads.axes(dynamic), self._call(self.function, key, reads))

    def upstreams(self, keys: PartitionSet, context: MappingContext) -> Upstreams:
        return upstreams_of_keys(self.upstream(key, context) for key in keys)

    def downstream_set(self, key: str, context: MappingContext) -> PartitionSet:
        of, reads, dynamic = context.of, context.reads, context.dynamic
        key_positions(key, reads, dynamic)
        axes, existing = of.axes(dynamic), of.keys(context.now, dynamic)
        if self.inverse is not None:
            return PartitionSet.of_keys(axes, self._call(self.inverse, key, of)) & existing
        readers = (one for one in existing if key in self._call(self.function, one, reads))
        return PartitionSet.of_keys(axes, readers)

    def _call(self, function: KeyFunction, key: str, answers: Partitions) -> tuple[str, ...]:
        try:
            result = function(key)
            is_key_or_wrong = isinstance(result, str) or not isinstance(result, Iterable)
            listed = result if is_key_or_wrong else [*result]
        except Exception as wrong:
            raise Invalid(
                f"a custom mapping raised {type(wrong).__name__} for {key!r}, which is the text that "
                f"it is called with: {wrong}"
            ) from wrong
        if not isinstance(listed, str | list):
            raise Invalid(
                f"a custom mapping returned {result!r} for {key!r}: return a key or a list of keys, "
                f"{example_key(answers)}"
            )
        keys = (listed,) if isinstance(listed, str) else tuple(listed)
        for one in keys:
            if one not in answers:
                raise Invalid(
                    f"a custom mapping returned {one!r} for {key!r}, which is not a partition of the "
                    f"other side: return keys such as {example_key(answers)}"
                )
        return keys


def custom(function: KeyFunction, inverse: KeyFunction | None = None) -> Mapping:
    """A mapping by a function from a key of the asset to the keys of the input that it reads.

    With many partitions pass the inverse as well, from a key of the input to those of the asset.
    """
    for candidate in (function, inverse or function):
        if not callable(candidate):
            raise Invalid(f"{candidate!r} is not a function: write partitions=lambda key: [key]")
    return _Custom(function, inverse)
