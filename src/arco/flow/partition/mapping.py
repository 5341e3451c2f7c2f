"""Mappings: which partitions of an input one partition of an asset reads, and the other way round.

What a partition reads is a fact of the calendar: it is told even if the input is not there yet, so that
nobody runs without it. Only "all" and "latest" mean what exists now. The other way, what is affected, are
always partitions that exist now.
"""

from abc import ABC, abstractmethod

from arco.core.errors import Invalid
from arco.flow.partition.dimension import Known
from arco.flow.partition.link import Free, Link, clipped
from arco.flow.partition.product import Partitions
from arco.flow.partition.reading import Reading
from arco.flow.partition.subset import Box, PartitionSet, positions
from arco.flow.partition.timed import Timed
from arco.flow.partition.upstreams import Upstreams, linked_upstreams


class Mapping(ABC):
    """Which partitions of an input one partition of an asset reads."""

    @abstractmethod
    def check(self, of: Partitions, reads: Partitions) -> None:
        """Raise Invalid, saying why, if it cannot work between these."""

    @abstractmethod
    def upstream_set(self, key: str, reading: Reading) -> PartitionSet:
        """The partitions of the input that a partition of the asset reads, as ranges."""

    @abstractmethod
    def downstream_set(self, key: str, reading: Reading) -> PartitionSet:
        """The partitions of the asset that exist and read a partition of the input, as ranges."""

    @abstractmethod
    def upstreams(self, keys: PartitionSet, reading: Reading) -> Upstreams:
        """What each of many partitions of the asset reads, for far less than asking for each."""

    def takes_what_is_there(self, of: Partitions, reads: Partitions) -> bool:  # noqa: ARG002
        """Whether a part of what is read will do, since all that exists is meant and no more."""
        return False

    def upstream(self, key: str, reading: Reading) -> tuple[str, ...]:
        """The keys of the input that a partition of the asset reads, in canonical order."""
        return tuple(self.upstream_set(key, reading))

    def downstream(self, key: str, reading: Reading) -> tuple[str, ...]:
        """The keys of the asset that exist and read a partition of the input, in canonical order."""
        return tuple(self.downstream_set(key, reading))


class Linked(Mapping):
    """A mapping that says for each dimension of the input on which one of the asset it hangs."""

    @abstractmethod
    def links(self, of: Partitions, reads: Partitions) -> tuple[Link | Free, ...]:
        """A link for each dimension of the input, in its order; Invalid if it cannot work."""

    def check(self, of: Partitions, reads: Partitions) -> None:
        self.links(of, reads)

    def takes_what_is_there(self, of: Partitions, reads: Partitions) -> bool:
        links = self.links(of, reads)
        return any(isinstance(link, Free) and not link.newest for link in links)

    def upstream_set(self, key: str, reading: Reading) -> PartitionSet:
        of = reading.of
        at = dict(zip(of.names, place(key, of, reading.dynamic), strict=True))
        box: Box = tuple(
            link.read(reading) if isinstance(link, Free) else link.up(at[link.of.name], reading)
            for link in self.links(of, reading.reads)
        )
        return PartitionSet.of(reading.reads.axes(reading.dynamic), [box])

    def upstreams(self, keys: PartitionSet, reading: Reading) -> Upstreams:
        return linked_upstreams(keys, self.links(reading.of, reading.reads), reading)

    def downstream_set(self, key: str, reading: Reading) -> PartitionSet:
        of, reads, dynamic = reading.of, reading.reads, reading.dynamic
        affected = {dimension.name: dimension.existing(reading.now, dynamic) for dimension in of}
        reached = True
        links = self.links(of, reads)
        for link, position in zip(links, place(key, reads, dynamic), strict=True):
            if isinstance(link, Free):
                reached = reached and position in link.read(reading)
            else:
                name = link.of.name
                affected[name] = clipped(affected[name], link.down(position, reading))
        return PartitionSet.of(of.axes(dynamic), [tuple(affected.values())] if reached else [])


def place(key: str, partitions: Partitions, dynamic: Known) -> tuple[int, ...]:
    """The positions of a key; Invalid if it is not, and will not be, a partition."""
    found = positions(partitions.axes(dynamic), key)
    sides = (dimension.declared(dynamic) for dimension in partitions)
    if not all(position in side for position, side in zip(found, sides, strict=True)):
        raise Invalid(
            f"{key!r} is outside the start and end of its dimensions: write a key such as "
            f"{written(partitions)}"
        )
    return found


def written(partitions: Partitions) -> str:
    """A key of these, as an example."""
    return repr(
        "/".join(f"{d.name}={d.start if isinstance(d, Timed) else '...'}" for d in partitions)
    )
