"""Dimensions whose values are listed: in the code, or as facts that come in while it runs."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from arco.core.errors import Invalid
from arco.flow.partition.dimension import NOTHING_KNOWN, Keys, Known, check_name, position_in


@dataclass(frozen=True)
class Listed:
    """Values in the order of their text."""

    name: str
    values: tuple[str, ...]

    def value(self, position: int) -> str:
        return self.values[position]

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        return map(self.values.__getitem__, positions)

    def position(self, value: str) -> int:
        found = bisect_left(self.values, value)
        if self.values[found : found + 1] != (value,):
            raise Invalid(f"{value!r} is not a value of dimension {self.name!r}{self._example()}")
        return found

    def _example(self) -> str:
        if not self.values:
            return ": it has none yet"
        return f": write one of {', '.join(map(repr, self.values[:5]))}" + (
            f" (of {len(self.values)})" if len(self.values) > 5 else ""
        )


@dataclass(frozen=True)
class Static:
    """A few values that stand in the code; their order there means nothing."""

    name: str
    values: Iterable[str]

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "values", _checked(self.name, self.values))
        if not self.values:
            raise Invalid(
                f"dimension {self.name!r} has no values: write Static({self.name!r}, ['eu', 'us'])"
            )

    @property
    def listed(self) -> Listed:
        """Its values, sorted."""
        return Listed(self.name, tuple(self.values))

    def axis(self, dynamic: Known = NOTHING_KNOWN) -> Listed:  # noqa: ARG002
        return self.listed

    def declared(self, dynamic: Known = NOTHING_KNOWN) -> range:  # noqa: ARG002
        return range(len(self.listed.values))

    def existing(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> range:  # noqa: ARG002
        return self.declared(dynamic)

    def keys(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> Sequence[str]:
        return Keys(self.listed, self.existing(now, dynamic))

    def __contains__(self, value: object) -> bool:
        return position_in(self.listed, value) is not None


@dataclass(frozen=True)
class Dynamic:
    """Values that come in while it runs: whoever asks says which are known, under its name."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)

    def axis(self, dynamic: Known = NOTHING_KNOWN) -> Listed:
        values = dynamic.get(self.name, ())
        return Listed(
            self.name, values if isinstance(values, _Sorted) else _checked(self.name, values)
        )

    def declared(self, dynamic: Known = NOTHING_KNOWN) -> range:
        return range(len(self.axis(dynamic).values))

    def existing(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> range:  # noqa: ARG002
        return self.declared(dynamic)

    def keys(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> Sequence[str]:
        return Keys(self.axis(dynamic), self.existing(now, dynamic))

    def __contains__(self, value: object) -> bool:
        """Any value may become one."""
        return isinstance(value, str) and bool(value) and "\0" not in value


class _Sorted(tuple[str, ...]):
    """Values that were checked already."""

    __slots__ = ()


def known(dynamic: Known) -> Known:
    """The same values, checked and sorted once: for a caller who will ask about many partitions."""
    return {name: _Sorted(_checked(name, values)) for name, values in dynamic.items()}


def _checked(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """The values, sorted; Invalid if one cannot be or is there twice."""
    example = f"write a list of texts, such as [{'eu'!r}, {'us'!r}]"
    if isinstance(values, str):
        raise Invalid(f"the values of dimension {name!r} are one text, {values!r}: {example}")
    listed: list[str] = []
    for value in values:
        if not isinstance(value, str) or not value or "\0" in value:
            raise Invalid(f"{value!r} cannot be a value of dimension {name!r}: {example}")
        listed.append(value)
    ordered = tuple(sorted(listed))
    for one, next_one in pairwise(ordered):
        if one == next_one:
            raise Invalid(
                f"{one!r} is there twice among the values of dimension {name!r}: {example}"
            )
    return ordered
