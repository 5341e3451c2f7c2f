"""From which source columns a value was computed, and by which kind of transformation.

A value that passes several steps has the strongest of their types: the sum of a cast is an AGGREGATE. The
order is DIRECT, CAST, EXPRESSION, CASE, AGGREGATE, WINDOW, UNKNOWN. A struct built in the plan keeps the
derivation of each field, for as long as the plan only accesses single fields of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from arco.events.lineage_payload import Transformation
from arco.flow.lineage.observation import Dataset

_STRENGTH: dict[Transformation, int] = {
    "DIRECT": 0,
    "CAST": 1,
    "EXPRESSION": 2,
    "CASE": 3,
    "AGGREGATE": 4,
    "WINDOW": 5,
    "UNKNOWN": 6,
}


@dataclass(frozen=True)
class SourceColumn:
    """A column that a plan reads; it has several datasets if its relation reads several paths."""

    datasets: tuple[Dataset, ...]
    column: str
    is_partition: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Derivation:
    """How a value was computed: its source columns, its SQL text, and its fields if it is a new struct."""

    sources: Mapping[SourceColumn, Transformation] = field(default_factory=dict)
    sql: str | None = None
    fields: "tuple[Derivation, ...] | None" = None

    def after(self, step: Transformation) -> "Derivation":
        """The value after one more step, which hides the fields of a struct."""
        if step == "DIRECT":
            return self
        return Derivation({source: _stronger(was, step) for source, was in self.sources.items()})

    def with_sql(self, sql: str | None) -> "Derivation":
        """The same value with a text."""
        return replace(self, sql=sql)


@dataclass(frozen=True)
class PlanColumn:
    """An output column of an operator."""

    id: int
    name: str
    derivation: Derivation


PlanColumns = tuple[PlanColumn, ...]


def combine(derivations: Iterable[Derivation]) -> Derivation:
    """One value computed from several; fields are kept if all values have the same number of them."""
    values = tuple(derivations)
    if len(values) == 1:
        return values[0]
    sources: dict[SourceColumn, Transformation] = {}
    for value in values:
        for source, step in value.sources.items():
            sources[source] = _stronger(sources.get(source, "DIRECT"), step)
    sql = next((value.sql for value in values if value.sql), None)
    return Derivation(sources, sql, _combine_fields(values))


def _stronger(one: Transformation, other: Transformation) -> Transformation:
    return one if _STRENGTH[one] >= _STRENGTH[other] else other


def _combine_fields(values: tuple[Derivation, ...]) -> tuple[Derivation, ...] | None:
    widths = {len(value.fields) if value.fields is not None else -1 for value in values}
    if len(widths) != 1 or -1 in widths:
        return None
    fields = zip(*(value.fields or () for value in values), strict=True)
    return tuple(combine(same_field) for same_field in fields)
