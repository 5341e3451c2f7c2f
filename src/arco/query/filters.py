"""Filters of a query plan: the values that each table scan wants, by which files are pruned.

They are taken from the optimized plan, where the optimizer has pushed filters down to the scans, so that a
filter on a scan applies to every row that the query takes from it. Only such filters are used, and only the
forms understood here; any other filter allows all values.
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
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
# The plan holds their values at planning time, and the query runs later.
_CLOCK = re.compile(r"\b(now|today|current_(date|time|timestamp))\b", re.IGNORECASE)
# Every step copies the expressions below it and recurses, so long filters are not read to their end.
_MAX_STEPS = 300

ColumnsOf = Callable[[str], frozenset[str]]


@dataclass(frozen=True)
class _PlannedScan:
    """One scan of a table in a plan."""

    table: str
    columns: tuple[str, ...]
    filters: tuple[Any, ...]


def scans_of(
    sql: str,
    plan: LogicalPlan,
    schema: str,
    tables: Mapping[str, Sequence[str]],
    filter_columns: ColumnsOf,
) -> tuple[SystemScan, ...]:
    """The columns and values that a plan reads of the given tables of a schema."""
    planned: dict[str, list[_PlannedScan]] = {}
    for each in _walk(plan, schema):
        planned.setdefault(each.table, []).append(each)
    # Subqueries in expressions are not among the inputs of a plan, but they are in its text.
    in_text = Counter(_SCAN.findall(plan.display_indent()))
    scans = []
    for name, columns in tables.items():
        own = planned.get(name, [])
        if len(own) != in_text[name]:
            scans.append(SystemScan(view=name, columns=tuple(columns), wanted=({},)))
        elif own:
            used = {column for each in own for column in each.columns}
            relevant = frozenset[str]() if _CLOCK.search(sql) else filter_columns(name)
            wanted = tuple(_wanted(each, relevant) for each in own)
            scans.append(SystemScan(view=name, columns=tuple(sorted(used)), wanted=wanted))
    return tuple(scans)


def _walk(plan: LogicalPlan, schema: str) -> Iterator[_PlannedScan]:
    waiting: list[tuple[LogicalPlan, tuple[Any, ...]]] = [(plan, ())]
    while waiting:
        node, filters_above = waiting.pop()
        variant = node.to_variant()
        if isinstance(variant, TableScan):
            _, scan_schema, table = variant.fqn()
            if scan_schema in (None, schema):
                columns = tuple(name for _, name in variant.projection())
                yield _PlannedScan(table, columns, (*filters_above, *variant.filters()))
            continue
        filters = (variant.predicate(),) if isinstance(variant, Filter) else ()
        waiting += [(each, filters) for each in reversed(node.inputs())]


def _wanted(scan: _PlannedScan, columns: frozenset[str]) -> dict[str, Spans]:
    """By column, the values that satisfy all filters; a column without an entry may have any value."""
    wanted = {}
    for column in columns:
        spans = ALL_VALUES
        for each in scan.filters:
            spans = intersect(spans, _FilterReader(column).spans(each))
        if spans != ALL_VALUES:
            wanted[column] = spans
    return wanted


class _FilterReader:
    """Reads the values that one filter allows for one column."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._steps = 0

    def spans(self, filter_: Any) -> Spans:
        self._steps += 1
        if self._steps > _MAX_STEPS:
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
        if operator in _MIRRORED and self._is_column(right):
            left, operator, right = right, _MIRRORED[operator], left
        value = _text(right)
        if value is None or not self._is_column(left):
            return ALL_VALUES
        return _compared(operator, value)

    def _in_list(self, filter_: InList) -> Spans:
        if filter_.negated() or not self._is_column(filter_.expr()):
            return ALL_VALUES
        values = [_text(each) for each in filter_.list()]
        texts = [value for value in values if value is not None]
        return point_spans(texts) if len(texts) == len(values) else ALL_VALUES

    def _between(self, filter_: Between) -> Spans:
        low, high = _text(filter_.low()), _text(filter_.high())
        if filter_.negated() or not self._is_column(filter_.expr()) or low is None or high is None:
            return ALL_VALUES
        return intersect((Span(low, None),), (Span(None, high),))

    def _is_column(self, expression: Any) -> bool:
        if expression.variant_name() != "Column":
            return False
        column: Column = expression.to_variant()
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


def _text(expression: Any) -> str | None:
    """The text of a literal; None for any other expression."""
    if expression.variant_name() != "Literal":
        return None
    literal: Literal = expression.to_variant()
    if literal.data_type() not in _TEXTS:
        return None
    value: str | None = literal.value_string()
    return value
