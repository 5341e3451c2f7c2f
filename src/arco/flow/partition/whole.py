"""Mappings that read what exists now, whichever partition asks: all of it, or the newest."""

from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.flow.partition.link import Free, Link, listed_link
from arco.flow.partition.mapping import Linked, Mapping
from arco.flow.partition.product import Partitions
from arco.flow.partition.timed import Timed


@dataclass(frozen=True)
class _Everything(Linked):
    """Each partition reads all of the input that exists."""

    def links(self, of: Partitions, reads: Partitions) -> tuple[Link | Free, ...]:  # noqa: ARG002
        return tuple(Free(dimension) for dimension in reads)


@dataclass(frozen=True)
class _Latest(Linked):
    """Each partition reads the newest of the input that exists, in each dimension of time."""

    def links(self, of: Partitions, reads: Partitions) -> tuple[Link | Free, ...]:
        if not any(isinstance(dimension, Timed) for dimension in reads):
            raise Invalid(
                "'latest' needs an input with a dimension of time, and this one has "
                f"{', '.join(map(repr, reads.names)) or 'none'}: write partitions='all'"
            )
        return tuple(
            Free(dimension, newest=True)
            if isinstance(dimension, Timed)
            else listed_link(dimension, of)
            for dimension in reads
        )


all_partitions: Mapping = _Everything()
latest: Mapping = _Latest()
