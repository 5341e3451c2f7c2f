"""Mappings that a function of the user says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.flow.partition.mapping import Mapping, place, written
from arco.flow.partition.product import Partitions
from arco.flow.partition.reading import Reading
from arco.flow.partition.subset import PartitionSet
from arco.flow.partition.upstreams import Upstreams, listed_upstreams

Tells = Callable[[str], str | Iterable[str]]
"""From a key to the keys that it reads, or that read it."""


@dataclass(frozen=True)
class _Custom(Mapping):
    """A function says it; without its inverse, what is affected is found by asking for each key."""

    function: Tells
    inverse: Tells | None = None

    def check(self, of: Partitions, reads: Partitions) -> None:
        """Nothing is known of a function before it is asked."""

    def upstream_set(self, key: str, reading: Reading) -> PartitionSet:
        reads, dynamic = reading.reads, reading.dynamic
        place(key, reading.of, dynamic)
        return PartitionSet.of_keys(reads.axes(dynamic), self._asked(self.function, key, reads))

    def upstreams(self, keys: PartitionSet, reading: Reading) -> Upstreams:
        return listed_upstreams(self.upstream(key, reading) for key in keys)

    def downstream_set(self, key: str, reading: Reading) -> PartitionSet:
        of, reads, dynamic = reading.of, reading.reads, reading.dynamic
        place(key, reads, dynamic)
        axes, existing = of.axes(dynamic), of.keys(reading.now, dynamic)
        if self.inverse is not None:
            return PartitionSet.of_keys(axes, self._asked(self.inverse, key, of)) & existing
        found = (one for one in existing if key in self._asked(self.function, one, reads))
        return PartitionSet.of_keys(axes, found)

    def _asked(self, function: Tells, key: str, answers: Partitions) -> tuple[str, ...]:
        try:
            said = function(key)
            listed = said if isinstance(said, str) or not isinstance(said, Iterable) else [*said]
        except Exception as wrong:
            raise Invalid(
                f"a custom mapping raised {type(wrong).__name__} for {key!r}, which is the text that "
                f"it is given: {wrong}"
            ) from wrong
        if not isinstance(listed, str | list):
            raise Invalid(
                f"a custom mapping said {said!r} for {key!r}: return a key or a list of keys, "
                f"{written(answers)}"
            )
        keys = (listed,) if isinstance(listed, str) else tuple(listed)
        for one in keys:
            if one not in answers:
                raise Invalid(
                    f"a custom mapping said {one!r} for {key!r}, which is not a partition there: "
                    f"return keys such as {written(answers)}"
                )
        return keys


def custom(
    function: Tells,
    inverse: Tells | None = None,
) -> Mapping:
    """What a function says: from the key of the asset to the keys of the input that it reads.

    With many partitions give the inverse as well, from a key of the input to those of the asset.
    """
    for given in (function, inverse or function):
        _check_function(given)
    return _Custom(function, inverse)


def _check_function(given: object) -> None:
    if not callable(given):
        raise Invalid(f"{given!r} is not a function: write partitions=lambda key: [key]")
