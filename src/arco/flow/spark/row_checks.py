"""Checks that are counted while the rows are written: no second pass, no extra job.

Each becomes an aggregate: a number of bad rows, or a bound. Checks that compare rows with each other or
with other tables are in `staged_checks`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from arco.core.duration import rough_duration
from arco.events.payload import CheckType
from arco.flow.coordinator.messages import CheckOutcome
from arco.flow.define.check_rules import (
    AcceptedValues,
    CheckDef,
    Expression,
    Freshness,
    FunctionRule,
    NotNull,
    QueryRule,
    Range,
    References,
    RowCount,
    Rule,
    Unique,
)
from arco.flow.define.sql_query import tokenize
from arco.flow.spark.jvm import quote_name

ROWS = "rows"

Metrics = Mapping[str, object]

_TYPES: dict[type[Rule], CheckType] = {
    NotNull: "NULL_CHECK",
    Unique: "UNIQUE_CHECK",
    Expression: "CUSTOM_SQL",
    RowCount: "ROW_COUNT",
    AcceptedValues: "RANGE_CHECK",
    Range: "RANGE_CHECK",
    Freshness: "FRESHNESS",
    QueryRule: "CUSTOM_SQL",
    References: "CUSTOM_SQL",
    FunctionRule: "CUSTOM_SQL",
}


@dataclass(frozen=True)
class CheckFinding:
    """The result of a check: what was expected, what was found, and a message."""

    passed: bool
    expected: str | None = None
    actual: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class RowChecks:
    """The checks of one table that can be counted row by row."""

    checks: tuple[CheckDef, ...]

    def aggregates(self) -> Iterator[Column]:
        """What Spark counts, besides the number of rows."""
        for at in range(len(self.checks)):
            if (aggregate := self.aggregate(at)) is not None:
                yield aggregate

    def aggregate(self, at: int) -> Column | None:
        """What Spark counts for one check, if it needs more than the number of rows."""
        aggregate = _aggregate(self.checks[at].rule)
        return None if aggregate is None else aggregate.alias(_name(at))

    def findings(self, metrics: Metrics, now_ms: int) -> Iterator[tuple[CheckDef, CheckFinding]]:
        """The finding of each check."""
        rows = count_of(metrics, ROWS)
        for at, check in enumerate(self.checks):
            yield check, _finding(check.rule, metrics.get(_name(at)), rows, now_ms)


def row_checks(checks: tuple[CheckDef, ...]) -> RowChecks:
    """The checks that can be counted while rows are written."""
    return RowChecks(tuple(each for each in checks if _is_by_row(each.rule)))


def other_checks(checks: tuple[CheckDef, ...]) -> tuple[CheckDef, ...]:
    """The checks that have to read the staged rows."""
    return tuple(each for each in checks if not _is_by_row(each.rule))


def failing_condition(rule: Rule) -> Column | None:
    """A condition for the rows that fail a check of single rows; null counts as false."""
    match rule:
        case NotNull(columns):
            return reduce(or_, (_column(each).isNull() for each in columns))
        case Expression(expression):
            return ~F.coalesce(F.expr(expression), F.lit(False))
        case AcceptedValues(column, values):
            return ~_column(column).isin(list(values))
        case Range(column, least, most):
            return _outside(_column(column), least, most)
    return None


def columns_of_rule(rule: Rule) -> tuple[str, ...]:
    """The columns that a check is about, as far as it names them."""
    match rule:
        case NotNull(columns) | Unique(columns):
            return columns
        case AcceptedValues(column) | Range(column) | References(column):
            return (column,)
        case Expression(expression):
            return tuple(each.text.strip("`") for each in tokenize(expression))
    return ()


def outcome_of(check: CheckDef, finding: CheckFinding, table_id: str | None) -> CheckOutcome:
    """A finding as it is reported to the coordinator."""
    return CheckOutcome(
        table=check.table,
        table_id=table_id,
        name=check.name,
        type=_TYPES[type(check.rule)],
        severity=check.severity,
        passed=finding.passed,
        expected=finding.expected,
        actual=finding.actual,
        message=finding.message,
    )


def bad_rows(count: int, rows: int | None, defect: str) -> CheckFinding:
    """The finding of a check that counts bad rows."""
    of_rows = "" if rows is None else f" of {rows}"
    message = None if not count else f"{count}{of_rows} rows {defect}"
    return CheckFinding(not count, "0", str(count), message)


def count_of(metrics: Metrics, name: str) -> int:
    """A number among the metrics; 0 if there were no rows to count."""
    count = metrics.get(name)
    return count if isinstance(count, int) else 0


def optional_text(value: object) -> str | None:
    """A value as text; None stays None."""
    return None if value is None else str(value)


def is_within(rows: int, rule: RowCount) -> bool:
    """Whether a number of rows is within the bounds of a rule, apart from the allowed change."""
    return (rule.least is None or rows >= rule.least) and (rule.most is None or rows <= rule.most)


def expected_rows(rule: RowCount) -> str:
    """How many rows a rule expects, as text."""
    parts = [] if rule.least is None and rule.most is None else [_bounds(rule.least, rule.most)]
    parts += [] if rule.change is None else [f"change <= {rule.change:g}"]
    return ", ".join(parts)


def _is_by_row(rule: Rule) -> bool:
    if isinstance(rule, RowCount):
        return rule.change is None
    return isinstance(rule, NotNull | Expression | AcceptedValues | Range | Freshness)


def _name(at: int) -> str:
    return f"check_{at}"


def _aggregate(rule: Rule) -> Column | None:
    if isinstance(rule, Freshness) and rule.column is not None:
        return F.unix_millis(F.max(_column(rule.column).cast("timestamp")))
    condition = failing_condition(rule)
    return None if condition is None else F.count_if(condition)


def _column(name: str) -> Column:
    return F.col(quote_name(name) if "." not in name else name)


def _outside(column: Column, least: object, most: object) -> Column:
    sides = [column < F.lit(least)] if least is not None else []
    sides += [column > F.lit(most)] if most is not None else []
    return reduce(or_, sides)


def _finding(rule: Rule, metric: object, rows: int, now_ms: int) -> CheckFinding:
    count = metric if isinstance(metric, int) else 0
    match rule:
        case NotNull(columns):
            return bad_rows(count, rows, f"have null in {' or '.join(columns)}")
        case Expression(expression):
            return bad_rows(count, rows, f"do not hold {expression}")
        case AcceptedValues(column, values):
            listed = ", ".join(map(str, values[:10])) + (", ..." if len(values) > 10 else "")
            return bad_rows(count, rows, f"have a value in {column} that is none of {listed}")
        case Range(column, least, most):
            return bad_rows(count, rows, f"have {column} outside {_bounds(least, most)}")
        case RowCount():
            return _row_count_finding(rows, rule)
        case Freshness(within_ms, column):
            return _freshness_finding(metric, now_ms, within_ms, column)
    raise TypeError(f"{type(rule).__name__} is not counted by row")


def _row_count_finding(rows: int, rule: RowCount) -> CheckFinding:
    passed, expected = is_within(rows, rule), expected_rows(rule)
    message = None if passed else f"{rows} rows are not {expected}"
    return CheckFinding(passed, expected, str(rows), message)


def _bounds(least: object, most: object) -> str:
    if most is None:
        return f">= {least}"
    return f"<= {most}" if least is None else f"{least} to {most}"


def _freshness_finding(
    newest_ms: object, now_ms: int, within_ms: int, column: str | None
) -> CheckFinding:
    if column is None:  # the rows are being written now
        return CheckFinding(passed=True, expected=f"<= {within_ms} ms", actual="0 ms")
    if not isinstance(newest_ms, int):
        return CheckFinding(False, f"<= {within_ms} ms", None, f"{column} has no value at all")
    age_ms = max(now_ms - newest_ms, 0)
    passed = age_ms <= within_ms
    message = None if passed else f"the newest {column} is {rough_duration(age_ms)} old"
    return CheckFinding(passed, f"<= {within_ms} ms", f"{age_ms} ms", message)
