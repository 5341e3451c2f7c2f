"""The checks that need no code: `from arco import checks as c`, then `c.not_null("order_id")`."""

from collections.abc import Iterable

from arco.flow.define.check import (
    AcceptedValues,
    CheckDef,
    Expression,
    Freshness,
    NotNull,
    Query,
    Range,
    References,
    RowCount,
    Rule,
    Unique,
    name_of,
    severity_of,
)
from arco.flow.define.collect import complain, here
from arco.flow.define.name import full_name
from arco.flow.define.retry import duration_ms

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
        complain("the expression of a check is empty: write c.expr('amount >= 0')")
    return _check(Expression(expression), "expr", (expression,), severity, name)


def row_count(
    *,
    min: int | None = None,  # noqa: A002 - the word that people look for
    max: int | None = None,  # noqa: A002
    change: float | None = None,
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """The number of rows is within bounds, or differs at most by the share `change` from last time."""
    asked = {"min": min, "max": max, "change": change}
    bounds = [bound for bound, value in asked.items() if value is not None]
    if not bounds:
        complain("row_count needs min, max or change: c.row_count(min=1)")
    if min is not None and max is not None and min > max:
        complain(f"row_count with min={min} and max={max} can never hold")
    if change is not None and change < 0:
        complain(f"the change of a row_count is a share from 0 on, not {change}")
    return _check(RowCount(min, max, change), "row_count", bounds, severity, name)


def accepted_values(
    column: str,
    values: Iterable[str | int | float | bool],
    *,
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """A column has no values but these."""
    accepted = tuple(values)
    if not accepted:
        complain(f"accepted_values of {column!r} accepts nothing: name at least one value")
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
        complain(f"the range of {column!r} needs min or max")
    return _check(Range(column, min, max), "range", (column,), severity, name)


def freshness(
    within: str, *, column: str | None = None, severity: str = "error", name: str | None = None
) -> CheckDef:
    """The newest moment in `column`, or the last update of the table, is at most so old: "3h"."""
    rule = Freshness(duration_ms(within, "the time of a freshness check") or 0, column)
    return _check(rule, "freshness", () if column is None else (column,), severity, name)


def sql(query: str, *, severity: str = "error", name: str | None = None) -> CheckDef:
    """A SQL query finds no rows; those it finds are the bad ones."""
    if not query.strip():
        complain("the query of a check is empty")
    return _check(Query(query), "sql", (), severity, name)


def references(
    column: str,
    table: str,
    other_column: str | None = None,
    *,
    severity: str = "error",
    name: str | None = None,
) -> CheckDef:
    """Each value of `column` is in a column of another table: by default one of the same name."""
    rule = References(column, full_name(table), other_column or column)
    return _check(rule, "references", (column,), severity, name)


def _columns(kind: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    if not columns:
        complain(f"{kind} needs a column: c.{kind}('order_id')")
    return columns


def _check(rule: Rule, kind: str, said: Iterable[str], severity: str, name: str | None) -> CheckDef:
    called = name_of(name, "_".join((kind, *said)))
    return CheckDef(called, rule, severity_of(severity), where=here())
