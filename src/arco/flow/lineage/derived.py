"""Derived: from which columns a value was made, and how.

A value that passes several steps has the strongest of their types: the sum of a cast is an AGGREGATE. The
order is DIRECT, CAST, EXPRESSION, CASE, AGGREGATE, WINDOW, UNKNOWN. A struct remembers the origin of each
of its fields for as long as nothing looks into it but the access to a field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from arco.events.lineage import Transformation
from arco.flow.lineage.observation import Dataset

_STRONGER: dict[Transformation, int] = {
    "DIRECT": 0,
    "CAST": 1,
    "EXPRESSION": 2,
    "CASE": 3,
    "AGGREGATE": 4,
    "WINDOW": 5,
    "UNKNOWN": 6,
}


@dataclass(frozen=True)
class Origin:
    """A column of what was read; `datasets` are several if one relation reads several paths."""

    datasets: tuple[Dataset, ...]
    column: str
    is_partition: bool = field(default=False, compare=False)


Sources = Mapping[Origin, Transformation]


@dataclass(frozen=True)
class Derived:
    """A value: its origins with a type each, its text, and its fields if it is a struct made here."""

    sources: Sources = field(default_factory=dict)
    sql: str | None = None
    fields: "tuple[Derived, ...] | None" = None

    def by(self, how: Transformation) -> "Derived":
        """The same after one more step, which hides the fields of a struct."""
        if how == "DIRECT":
            return self
        return Derived({origin: stronger(was, how) for origin, was in self.sources.items()})

    def told_as(self, sql: str | None) -> "Derived":
        """The same with a text."""
        return replace(self, sql=sql)


@dataclass(frozen=True)
class Column:
    """An output of an operator."""

    id: int
    name: str
    derived: Derived


Columns = tuple[Column, ...]


def stronger(one: Transformation, other: Transformation) -> Transformation:
    """The type of a value that passed both."""
    return one if _STRONGER[one] >= _STRONGER[other] else other


def together(values: Iterable[Derived]) -> Derived:
    """What several values were made from, as one value; fields are kept if all have them alike."""
    given = tuple(values)
    if len(given) == 1:
        return given[0]
    sources: dict[Origin, Transformation] = {}
    for value in given:
        for origin, how in value.sources.items():
            sources[origin] = stronger(sources.get(origin, "DIRECT"), how)
    text = next((value.sql for value in given if value.sql), None)
    return Derived(sources, text, _fields_of_all(given))


def _fields_of_all(values: tuple[Derived, ...]) -> tuple[Derived, ...] | None:
    widths = {len(value.fields) if value.fields is not None else -1 for value in values}
    if len(widths) != 1 or -1 in widths:
        return None
    each = zip(*(value.fields or () for value in values), strict=True)
    return tuple(together(alike) for alike in each)
