"""Checks: what must hold for the data of a table before anybody reads them.

A check of severity `error` keeps a partition from being published; one of severity `warn` only tells.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex
from arco.flow.define.collect import complain, current, here
from arco.flow.define.decorated import check_plain, without_call
from arco.flow.define.name import full_name, three_levels
from arco.flow.define.sql_text import tables_read
from arco.flow.define.where import NOWHERE, SourceLine

Severity = Literal["error", "warn"]
F = TypeVar("F", bound=Callable[..., object])

_LONGEST_NAME = 255  # as events have it
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
    """The number of rows is within bounds, or near that of the materialization before."""

    least: int | None = None
    most: int | None = None
    change: float | None = None  # the largest share by which it may differ


@dataclass(frozen=True)
class AcceptedValues:
    """A column has no values but these; null is left to `NotNull`."""

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
    """The newest moment in a column, or the last update of the table, is at most this old."""

    within_ms: int
    column: str | None = None


@dataclass(frozen=True)
class Query:
    """A SQL query finds no rows: those it finds are the bad ones."""

    query: str


@dataclass(frozen=True)
class References:
    """Each value of a column is in a column of another table."""

    column: str
    table: str
    other_column: str


@dataclass(frozen=True)
class Judged:
    """A function of the project looks at the data and judges."""

    function: Callable[..., object]


Rule = (
    NotNull
    | Unique
    | Expression
    | RowCount
    | AcceptedValues
    | Range
    | Freshness
    | Query
    | References
    | Judged
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
        """The other tables that it looks into, by their full names, as far as it names them."""
        match self.rule:
            case References(_, table, _):
                named = [table]
            case Query(query):
                named = list(_tables_of(query))
            case _:
                named = []
        return tuple(each for each in named if each != self.table)

    def of(self, table: str, where: SourceLine) -> "CheckDef":
        """The same check, of a table."""
        return replace(self, table=table, where=where)


@dataclass(frozen=True)
class Result:
    """What a check function may return when true, false or a number of bad rows say too little."""

    passed: bool
    bad_rows: int | None = None
    expected: str | None = None
    actual: str | None = None
    message: str = ""


def check(table: str, *, severity: str = "error", name: str | None = None) -> Callable[[F], F]:
    """Declare a function that judges the data of a table: true, the number of bad rows, or a `Result`."""
    if callable(table):
        return without_call("check", "'silver.orders'", table)
    of = full_name(table)
    rank = severity_of(severity)

    def declare(function: F) -> F:
        check_plain(function)
        called = name_of(name, function.__name__)
        described = (function.__doc__ or "").strip()
        made = CheckDef(called, Judged(function), rank, of, described, here())
        if (collection := current()) is not None:
            collection.checks.append(made)
        return function

    return declare


def name_of(asked: str | None, usual: str) -> str:
    """The name of a check that was asked for, or its usual one, which a hash makes short if it is long."""
    if asked:
        if len(asked) > _LONGEST_NAME:
            complain(f"the name of a check has at most {_LONGEST_NAME} characters: {asked!r}")
        return asked
    if len(usual) <= _LONGEST_NAME:
        return usual
    return f"{usual[: _LONGEST_NAME - _HASH_CHARS - 1]}_{sha256_hex(usual.encode())[:_HASH_CHARS]}"


def checks_of(table: str, said: Iterable[object]) -> tuple[CheckDef, ...]:
    """The checks that an option lists, each of this table; what is none is complained of."""
    if isinstance(said, CheckDef | str) or not isinstance(said, Iterable):
        complain("checks is a list: write checks=[c.not_null('order_id')]")
        return ()
    found = list(said)
    for each in found:
        if not isinstance(each, CheckDef):
            complain(
                "a check is a call such as c.not_null('order_id'), or a function below "
                f"@check('silver.orders'), not {_called(each)}"
            )
    return tuple(each.of(table, each.where) for each in found if isinstance(each, CheckDef))


def _tables_of(query: str) -> Iterator[str]:
    """What may be tables of the project: names of other places have other numbers of levels."""
    for named in tables_read(query):
        with suppress(Invalid):
            yield three_levels(named.name)


def _called(said: object) -> str:
    return f"the function {said.__name__!r}" if inspect.isroutine(said) else repr(said)


def severity_of(asked: str) -> Severity:
    """The severity that was asked for."""
    match asked:
        case "error" | "warn":
            return asked
    complain(f"severity {asked!r} is neither 'error', which blocks, nor 'warn'")
    return "error"
