"""Filters: what a plan asks of each table that it reads, so that files can be passed over unread.

They are taken from the optimized plan, where a filter that stands on a table itself applies to every row
that the query takes from there: the optimizer has moved it as far down as the query's meaning allows. Only
such filters count, and only what is understood of them; all else asks for everything.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datafusion.expr import Between, BinaryExpr, Column, Filter, InList, Literal, TableScan
from datafusion.plan import LogicalPlan

from arco.query.protocol import SystemScan
from arco.query.pruning import ALL_VALUES, Span, Spans, intersect, point_spans, union

_SCAN = re.compile(r"^\s*TableScan: (?:(?:datafusion\.)?system\.)?(\w+)(?=[\s,]|$)", re.MULTILINE)
_TEXTS = frozenset({"Utf8", "Utf8View", "LargeUtf8"})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
# The plan holds what these say now, and the query is run later.
_CLOCK = re.compile(r"\b(now|today|current_(date|time|timestamp))\b", re.IGNORECASE)
# Every step copies what lies below it and goes one deeper, so long filters are not followed to their end.
_MOST_STEPS = 300

ColumnsOf = Callable[[str], frozenset[str]]


@dataclass(frozen=True)
class _Seen:
    """One place where a plan reads a table."""

    table: str
    columns: tuple[str, ...]
    filters: tuple[Any, ...]


def scans_of(
    sql: str,
    plan: LogicalPlan,
    schema: str,
    tables: Mapping[str, Sequence[str]],
    filtered: ColumnsOf,
) -> tuple[SystemScan, ...]:
    """What a plan reads of the given tables of a schema: which columns, and which of their rows."""
    seen: dict[str, list[_Seen]] = {}
    for each in _walk(plan, schema):
        seen.setdefault(each.table, []).append(each)
    # Subqueries inside of expressions are out of sight here, but not in the plan's text.
    written = Counter(_SCAN.findall(plan.display_indent()))
    scans = []
    for name, columns in tables.items():
        found = seen.get(name, [])
        if len(found) != written[name]:
            scans.append(SystemScan(view=name, columns=tuple(columns), wanted=({},)))
        elif found:
            used = {column for each in found for column in each.columns}
            interest = frozenset[str]() if _CLOCK.search(sql) else filtered(name)
            wanted = tuple(_wanted(each, interest) for each in found)
            scans.append(SystemScan(view=name, columns=tuple(sorted(used)), wanted=wanted))
    return tuple(scans)


def _walk(plan: LogicalPlan, schema: str) -> Iterator[_Seen]:
    waiting: list[tuple[LogicalPlan, tuple[Any, ...]]] = [(plan, ())]
    while waiting:
        node, above = waiting.pop()
        variant = node.to_variant()
        if isinstance(variant, TableScan):
            _, where, table = variant.fqn()
            if where in (None, schema):
                columns = tuple(name for _, name in variant.projection())
                yield _Seen(table, columns, (*above, *variant.filters()))
            continue
        filters = (variant.predicate(),) if isinstance(variant, Filter) else ()
        waiting += [(each, filters) for each in reversed(node.inputs())]


def _wanted(seen: _Seen, columns: frozenset[str]) -> dict[str, Spans]:
    """By column, which values can meet all filters; a column without an entry may have any."""
    wanted = {}
    for column in columns:
        spans = ALL_VALUES
        for each in seen.filters:
            spans = intersect(spans, _Reading(column).spans(each))
        if spans != ALL_VALUES:
            wanted[column] = spans
    return wanted


class _Reading:
    """Reads one filter for what it says of one column."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._steps = 0

    def spans(self, filter_: Any) -> Spans:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return ALL_VALUES
        match filter_.variant_name():
            case "BinaryExpr":
                return self._binary(filter_.to_variant())
            case "InList":
                return self._in_list(filter_.to_variant())
            case "Between":
                return self._between(filter_.to_variant())
            case _:
                return ALL_VALUES

    def _binary(self, filter_: BinaryExpr) -> Spans:
        left, operator, right = filter_.left(), filter_.op(), filter_.right()
        if operator in ("AND", "OR"):
            one, other = self.spans(left), self.spans(right)
            return intersect(one, other) if operator == "AND" else union(one, other)
        if operator in _TURNED and self._is_column(right):
            left, operator, right = right, _TURNED[operator], left
        value = _text(right)
        if value is None or not self._is_column(left):
            return ALL_VALUES
        return _compared(operator, value)

    def _in_list(self, filter_: InList) -> Spans:
        if filter_.negated() or not self._is_column(filter_.expr()):
            return ALL_VALUES
        values = [_text(each) for each in filter_.list()]
        known = [value for value in values if value is not None]
        return point_spans(known) if len(known) == len(values) else ALL_VALUES

    def _between(self, filter_: Between) -> Spans:
        low, high = _text(filter_.low()), _text(filter_.high())
        if filter_.negated() or not self._is_column(filter_.expr()) or low is None or high is None:
            return ALL_VALUES
        return intersect((Span(low, None),), (Span(None, high),))

    def _is_column(self, side: Any) -> bool:
        if side.variant_name() != "Column":
            return False
        column: Column = side.to_variant()
        return bool(column.name() == self._column)


def _compared(operator: str, value: str) -> Spans:
    match operator:
        case "=":
            return point_spans([value])
        case "<" | "<=":
            return (Span(None, value),)
        case ">" | ">=":
            return (Span(value, None),)
        case _:
            return ALL_VALUES


def _text(side: Any) -> str | None:
    """The text of a literal; None if it is another kind of thing."""
    if side.variant_name() != "Literal":
        return None
    literal: Literal = side.to_variant()
    if literal.data_type() not in _TEXTS:
        return None
    value: str | None = literal.value_string()
    return value
