"""The partitions of an asset: the product of its dimensions, none for an asset that is one piece."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from arco.core.errors import Invalid
from arco.events.partition_key import format_partition_key, parse_partition_key
from arco.flow.partition.calendar import Daily, Monthly, Weekly
from arco.flow.partition.choose import choose
from arco.flow.partition.dimension import NOTHING_KNOWN, Dimension, Known
from arco.flow.partition.hourly import Hourly
from arco.flow.partition.listed import Dynamic, Static
from arco.flow.partition.subset import Axes, PartitionSet

_KINDS = (Hourly, Daily, Weekly, Monthly, Static, Dynamic)
_EXAMPLE = "write Partitions([Daily('ds', start='2026-01-01'), Static('region', ['eu', 'us'])])"


@dataclass(frozen=True)
class Partitions:
    """How an asset is cut; the order in which the dimensions are given means nothing."""

    dimensions: Dimension | Iterable[Dimension] = ()
    in_order: tuple[Dimension, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: object = self.dimensions
        if isinstance(given, _KINDS):
            given = (given,)
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise Invalid(f"{given!r} is not a list of dimensions: {_EXAMPLE}")
        listed = tuple(given)
        for dimension in listed:
            if not isinstance(dimension, _KINDS):
                raise Invalid(f"{dimension!r} is not a dimension: {_EXAMPLE}")
        names = [dimension.name for dimension in listed]
        for name in names:
            if names.count(name) > 1:
                raise Invalid(f"two dimensions have the name {name!r}: {_EXAMPLE}")
        # As in a key, where `a1=` stands before `a=`.
        object.__setattr__(self, "in_order", tuple(sorted(listed, key=_as_in_a_key)))
        object.__setattr__(self, "dimensions", self.in_order)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in the order of a key."""
        return tuple(dimension.name for dimension in self)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.in_order)

    def __bool__(self) -> bool:
        """If the asset is cut at all."""
        return bool(self.names)

    def axes(self, dynamic: Known = NOTHING_KNOWN) -> Axes:
        """The values of each dimension."""
        return tuple((dimension.name, dimension.axis(dynamic)) for dimension in self)

    def keys(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> PartitionSet:
        """The partitions that exist at a moment."""
        box = tuple(dimension.existing(now, dynamic) for dimension in self)
        return PartitionSet.of(self.axes(dynamic), [box])

    def parse(self, text: str, now: datetime, dynamic: Known = NOTHING_KNOWN) -> PartitionSet:
        """The partitions that a text chooses among those that exist; see `choose`."""
        return choose(text, self.in_order, now, dynamic)

    def values(self, key: str) -> dict[str, str]:
        """The value of each dimension in a key; Invalid if it is not a key of these."""
        found = parse_partition_key(key)
        if key not in self or found is None:
            written = "/".join(f"{name}=..." for name in self.names)
            raise Invalid(f"{key!r} is not a partition of these: write a key such as {written!r}")
        return found

    def __contains__(self, key: object) -> bool:
        """If it is, or may become, the key of a partition."""
        values = parse_partition_key(key) if isinstance(key, str) else None
        if (
            values is None
            or values.keys() != set(self.names)
            or format_partition_key(values) != key
        ):
            return False
        return all(values[dimension.name] in dimension for dimension in self)


def _as_in_a_key(dimension: Dimension) -> str:
    return f"{dimension.name}="
