"""The checks that need no code: `from arco import checks as c`, then `c.not_null("order_id")`."""

from collections.abc import Iterable

from arco.flow.define.check_rules import (
    AcceptedValues,
    CheckDef,
    Expression,
    Freshness,
    NotNull,
    QueryRule,
    Range,
    References,
    RowCount,
    Rule,
    Unique,
    name_check,
    parse_severity,
)
from arco.flow.define.declarations import declared_at, declared_name, report_problem
from arco.flow.define.options import duration_ms

Bound = float | int | str


def not_null(*columns: str, severity: str = "error", name: str | None = None) -> CheckDef:
    """No row has a null in any of these columns."""
    return _check(NotNull(_columns("not_null", columns)), "not_null", columns, severity, name)


def unique(*columns: str, severity: str = "error", name: str | None = None) -> CheckDef:
    """No two rows have the same values in these columns together."""
    return _check(Unique(_columns("unique", columns)), "unique", columns, severity, name)


def expr(expression: str, *, severity: str = "error", name: str | None = None) -> CheckDef:
    """A SQL expression is true for each row."""
    if not expression.strip():
        report_problem("the expression of a check is empty: write c.expr('amount >= 0')")
    return _check(Expression(expression), "expr", (expression,), severity, name)


def row_count(
    *,
    min: int | None = None,  # noqa: A002 - the word that people look for
    max: int | None = None,  # noqa: A002
    change: float | None = None,
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """The number of rows is within bounds, or differs from last time by at most the share `change`."""
    limits = {"min": min, "max": max, "change": change}
    bounds = [bound for bound, value in limits.items() if value is not None]
    if not bounds:
        report_problem("row_count needs min, max or change: c.row_count(min=1)")
    if min is not None and max is not None and min > max:
        report_problem(f"row_count with min={min} and max={max} can never hold")
    if change is not None and change < 0:
        report_problem(f"the change of a row_count is a share from 0 on, not {change}")
    return _check(RowCount(min, max, change), "row_count", bounds, severity, name)


def accepted_values(
    column: str,
    values: Iterable[str | int | float | bool],
    *,
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """A column has only these values."""
    accepted = tuple(values)
    if not accepted:
        report_problem(f"accepted_values of {column!r} accepts nothing: name at least one value")
    return _check(AcceptedValues(column, accepted), "accepted_values", (column,), severity, name)


def range(  # noqa: A001 - read as c.range
    column: str,
    *,
    min: Bound | None = None,  # noqa: A002
    max: Bound | None = None,  # noqa: A002
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """The values of a column are within bounds, both included."""
    if min is None and max is None:
        report_problem(f"the range of {column!r} needs min or max")
    return _check(Range(column, min, max), "range", (column,), severity, name)


def freshness(
    within: str, *, column: str | None = None, severity: str = "error", name: str | None = None
) -> CheckDef:
    """The newest time in `column`, or the last update of the table, is at most this old: "3h"."""
    rule = Freshness(duration_ms(within, "the time of a freshness check") or 0, column)
    return _check(rule, "freshness", () if column is None else (column,), severity, name)


def sql(query: str, *, severity: str = "error", name: str | None = None) -> CheckDef:
    """A SQL query returns no rows; rows that it returns are the bad ones."""
    if not query.strip():
        report_problem("the query of a check is empty")
    return _check(QueryRule(query), "sql", (), severity, name)


def references(
    column: str,
    table: str,
    other_column: str | None = None,
    *,
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """Each value of `column` exists in a column of another table, by default one of the same name."""
    rule = References(column, declared_name(table), other_column or column)
    return _check(rule, "references", (column,), severity, name)


def _columns(kind: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    if not columns:
        report_problem(f"{kind} needs a column: c.{kind}('order_id')")
    return columns


def _check(
    rule: Rule, kind: str, parts: Iterable[str], severity: str, name: str | None
) -> CheckDef:
    check_name = name_check(name, "_".join((kind, *parts)))
    return CheckDef(check_name, rule, parse_severity(severity), where=declared_at())
