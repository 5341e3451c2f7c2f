"""Checks: rules for the data of a table, evaluated before a partition is published.

A failed check of severity `error` blocks the publication, one of severity `warn` is only reported.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex
from arco.flow.define.declarations import (
    NOWHERE,
    SourceLine,
    current_declarations,
    declared_at,
    declared_name,
    reject_missing_call,
    report_problem,
    require_plain_function,
)
from arco.flow.define.sql_query import find_tables
from arco.flow.table_name import qualified_name

Severity = Literal["error", "warn"]
F = TypeVar("F", bound=Callable[..., object])

_MAX_NAME = 255  # the limit of the event field
_HASH_CHARS = 16


@dataclass(frozen=True)
class NotNull:
    """No row has a null in any of these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Unique:
    """No two rows have the same values in these columns together."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Expression:
    """A SQL expression is true for each row."""

    expression: str


@dataclass(frozen=True)
class RowCount:
    """The number of rows is within bounds, or near that of the previous materialization."""

    least: int | None = None
    most: int | None = None
    change: float | None = None  # the largest allowed difference, as a share


@dataclass(frozen=True)
class AcceptedValues:
    """A column has only these values; nulls are allowed, see `NotNull`."""

    column: str
    values: tuple[str | int | float | bool, ...]


@dataclass(frozen=True)
class Range:
    """The values of a column are within bounds, both included."""

    column: str
    least: float | int | str | None = None
    most: float | int | str | None = None


@dataclass(frozen=True)
class Freshness:
    """The newest time in a column, or the last update of the table, is at most this old."""

    within_ms: int
    column: str | None = None


@dataclass(frozen=True)
class QueryRule:
    """A SQL query returns no rows; rows that it returns are the bad ones."""

    query: str


@dataclass(frozen=True)
class References:
    """Each value of a column exists in a column of another table."""

    column: str
    table: str
    other_column: str


@dataclass(frozen=True)
class FunctionRule:
    """A function of the project checks the data."""

    function: Callable[..., object]


Rule = (
    NotNull
    | Unique
    | Expression
    | RowCount
    | AcceptedValues
    | Range
    | Freshness
    | QueryRule
    | References
    | FunctionRule
)


@dataclass(frozen=True)
class CheckDef:
    """A rule for one table."""

    name: str
    rule: Rule
    severity: Severity = "error"
    table: str = ""
    description: str = ""
    where: SourceLine = NOWHERE

    @cached_property
    def compares_with(self) -> tuple[str, ...]:
        """The full names of the other tables that the rule names."""
        match self.rule:
            case References(_, table, _):
                named = [table]
            case QueryRule(query):
                named = list(_tables_of(query))
            case _:
                named = []
        return tuple(each for each in named if each != self.table)

    def of(self, table: str, where: SourceLine) -> "CheckDef":
        """The same check for a table."""
        return replace(self, table=table, where=where)


@dataclass(frozen=True)
class Result:
    """What a check function may return if true, false or a number of bad rows is not enough."""

    passed: bool
    bad_rows: int | None = None
    expected: str | None = None
    actual: str | None = None
    message: str = ""


def check(table: str, *, severity: str = "error", name: str | None = None) -> Callable[[F], F]:
    """Declare a function that checks a table: it returns true, the number of bad rows, or a `Result`."""
    if callable(table):
        return reject_missing_call("check", "'silver.orders'", table)
    of = declared_name(table)
    rank = parse_severity(severity)

    def declare(function: F) -> F:
        require_plain_function(function)
        check_name = name_check(name, function.__name__)
        doc = (function.__doc__ or "").strip()
        made = CheckDef(check_name, FunctionRule(function), rank, of, doc, declared_at())
        if (declarations := current_declarations()) is not None:
            declarations.checks.append(made)
        return function

    return declare


def name_check(name: str | None, default: str) -> str:
    """The given name of a check, or the default one; a long default name ends in a hash."""
    if name:
        if len(name) > _MAX_NAME:
            report_problem(f"the name of a check has at most {_MAX_NAME} characters: {name!r}")
        return name
    if len(default) <= _MAX_NAME:
        return default
    digest = sha256_hex(default.encode())[:_HASH_CHARS]
    return f"{default[: _MAX_NAME - _HASH_CHARS - 1]}_{digest}"


def parse_checks(table: str, checks: Iterable[object]) -> tuple[CheckDef, ...]:
    """The checks of an option, each for this table; anything else is reported."""
    if isinstance(checks, CheckDef | str) or not isinstance(checks, Iterable):
        report_problem("checks is a list: write checks=[c.not_null('order_id')]")
        return ()
    listed = list(checks)
    for check in listed:
        if not isinstance(check, CheckDef):
            report_problem(
                "a check is a call such as c.not_null('order_id'), or a function below "
                f"@check('silver.orders'), not {_describe(check)}"
            )
    return tuple(each.of(table, each.where) for each in listed if isinstance(each, CheckDef))


def _tables_of(query: str) -> Iterator[str]:
    """The tables in a query that may be of the project; other names have other numbers of levels."""
    for reference in find_tables(query):
        with suppress(Invalid):
            yield qualified_name(reference.name)


def _describe(value: object) -> str:
    return f"the function {value.__name__!r}" if inspect.isroutine(value) else repr(value)


def parse_severity(value: str) -> Severity:
    """The given severity; another text is reported."""
    match value:
        case "error" | "warn":
            return value
    report_problem(f"severity {value!r} is neither 'error', which blocks, nor 'warn'")
    return "error"
