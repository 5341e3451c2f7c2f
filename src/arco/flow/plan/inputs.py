"""One input of an asset or task, for many of its partitions at once."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from arco.flow.define.table import InputDef
from arco.flow.partition import Upstreams
from arco.flow.partition.upstreams import Places
from arco.flow.plan.fingerprints import digest_of_lines, material_line
from arco.flow.plan.known import KnownTable

T = TypeVar("T")
U = TypeVar("U")

_MANY = 16
"""From so many partitions on, an answer is kept for others that read the same."""


@dataclass(frozen=True, eq=False)
class Input:
    """The input as it stands.

    `is_own`: it is a table that the asset writes itself. `takes_what_is_there`: a part of it will do.
    """

    declared: InputDef
    table: KnownTable
    upstreams: Upstreams
    is_own: bool = False
    takes_what_is_there: bool = False

    def keys(self, number: int) -> tuple[str, ...]:
        """The partitions that the asset's partition with this number reads."""
        return self.upstreams.of(number)

    def skipped(self, number: int, planned: Container[str]) -> tuple[str, ...]:
        """The partitions that are not read, as they have no data and nothing in the plan makes them."""
        if not self.accepts_partial or None not in self.materials:
            return ()
        keys, materials = self.upstreams.keys, self.materials
        return tuple(
            keys[place]
            for place in self.upstreams.places[number]
            if materials[place] is None and keys[place] not in planned
        )

    @cached_property
    def materials(self) -> list[str | None]:
        """Of all partitions that anybody reads."""
        return self.table.materials(self.upstreams.keys)

    @cached_property
    def digests(self) -> list[str]:
        """For each partition of the asset what it would read now, as `material_digest` tells it."""
        keys = self.upstreams.keys
        lines = list(map(material_line, keys, self.materials))
        told = self.telling(lines, digest_of_lines)
        if not all(one < other for one, other in pairwise(keys)):
            # What follows in a calendar may stand elsewhere among texts, and texts are what is sorted.
            told = self.telling(list(zip(keys, lines, strict=True)), _sorted_digest)
        return [told(number) for number in range(len(self.upstreams.places))]

    def telling(self, column: list[T], tell: Callable[[list[T]], U]) -> Callable[[int], U]:
        """What is told of the part of a column that a partition of the asset reads, by its number."""
        kept: dict[Places, U] = {}
        all_places = self.upstreams.places

        def told(number: int) -> U:
            places = all_places[number]
            if len(places) < _MANY:
                return tell(part_of(column, places))
            if places not in kept:
                kept[places] = tell(part_of(column, places))
            return kept[places]

        return told


def part_of(column: list[T], places: Places) -> list[T]:
    """The values of a column at some places."""
    if isinstance(places, range):
        return column[places.start : places.stop : places.step] if places else []
    return [column[place] for place in places]


def _sorted_digest(read: list[tuple[str, bytes]]) -> str:
    return digest_of_lines(line for _, line in sorted(read))
