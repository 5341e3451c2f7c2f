"""Checks that compare rows with each other or with other tables: queries on what was staged, if declared.

Uniqueness and references of one table are one query, whatever their number.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so

from arco.core.errors import Invalid
from arco.flow.define.check_rules import (
    CheckDef,
    FunctionRule,
    QueryRule,
    References,
    RowCount,
    Unique,
)
from arco.flow.define.context import Context
from arco.flow.define.table_name import base_name
from arco.flow.spark.checks import Finding, bad_rows, columns_of_rule, is_within, wanted_rows
from arco.flow.spark.choice import quoted
from arco.flow.spark.failing_rows import (
    MASK,
    MAX_ROWS,
    FailingRows,
    masked_positions,
    masked_unless_copied,
)
from arco.flow.spark.sql_inputs import with_views
from arco.flow.spark.verdict import verdict

_STAGED = "arco_staged"
_COUNT = "arco_count"
_KNOWN = "arco_known"


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """What was staged for one table, and what is needed to judge it.

    `pii_columns` answers the columns of a table that are marked as PII, in lower case.
    """

    session: SparkSession
    table: str
    frame: DataFrame
    rows: int
    rows_before: Callable[[], int | None]
    read: Callable[[str], DataFrame]  # another table as it stands now, by its full name
    pii_columns: Callable[[str], frozenset[str]]
    context: Context

    def findings(self, checks: tuple[CheckDef, ...]) -> Iterator[tuple[CheckDef, Finding]]:
        """What each of these checks found."""
        compared = [each for each in checks if isinstance(each.rule, Unique | References)]
        yield from self._compared(compared)
        for check in checks:
            match check.rule:
                case RowCount():
                    yield check, self._changed(check.rule)
                case QueryRule(query):
                    count = self._found(query).count()
                    yield check, bad_rows(count, None, "were found by the query")
                case FunctionRule(function):
                    yield check, self._judged(check, function)

    def failing_rows(self, check: CheckDef) -> FailingRows | None:
        """The rows that fail one of these checks; None for a check that finds no rows."""
        match check.rule:
            case Unique(columns):
                frame = self._repeated_rows(columns)
            case References(column, table, other):
                frame = self._unknown_rows(column, table, other)
            case QueryRule(query):
                return self._found_rows(check, query)
            case _:
                return None
        masked = masked_positions(frame, self._masked(check))
        return FailingRows(frame, masked, columns_of_rule(check.rule))

    def _found_rows(self, check: CheckDef, query: str) -> FailingRows:
        found = self._found(query)
        if not any(map(self.pii_columns, (self.table, *check.compares_with))):
            return FailingRows(found)
        own = self.pii_columns(self.table)
        return FailingRows(found, masked_unless_copied(found, self.frame, own))

    def _masked(self, check: CheckDef) -> frozenset[str]:
        """The columns not to be shown, in lower case; a reference to a marked column holds its values."""
        own = self.pii_columns(self.table)
        match check.rule:
            case References(column, table, other) if other.lower() in self.pii_columns(table):
                return own | {column.lower()}
        return own

    def _compared(self, checks: list[CheckDef]) -> Iterator[tuple[CheckDef, Finding]]:
        """Uniqueness and references, in one query."""
        if not checks:
            return
        parts = [self._counted(at, check) for at, check in enumerate(checks)]
        for at, count, example in reduce(DataFrame.unionAll, parts).collect():
            rule = checks[at].rule
            if isinstance(rule, Unique):
                what = f"share their {', '.join(rule.columns)} with another"
            elif isinstance(rule, References):
                what = f"have a {rule.column} that {rule.table} does not know"
            else:  # there are no others in here
                raise TypeError(type(rule).__name__)
            suffix = "" if example is None else f", such as {example}"
            yield checks[at], bad_rows(int(count), self.rows, what + suffix)

    def _counted(self, at: int, check: CheckDef) -> DataFrame:
        masked = self._masked(check)
        match check.rule:
            case Unique(columns):
                example = _example(columns, masked)
                bad = self._repeated(columns).select(F.col(_COUNT).alias("bad"), example)
            case References(column, table, other):
                value = F.col(quoted(column)).cast("string")
                example = F.lit(MASK) if column.lower() in masked else value
                unknown = self._unknown_rows(column, table, other)
                bad = unknown.select(F.lit(1).alias("bad"), example.alias("example"))
            case _:
                raise TypeError(type(check.rule).__name__)
        return bad.agg(
            F.lit(at).alias("check"),
            F.coalesce(F.sum("bad"), F.lit(0)).alias("bad"),
            F.min("example").alias("example"),
        )

    def _repeated(self, columns: tuple[str, ...]) -> DataFrame:
        """The keys that several rows have, with their count. Rows with a null are like no other."""
        keys = [_column(self.frame, each, self.table) for each in columns]
        filled = self.frame.where(reduce(Column.__and__, (each.isNotNull() for each in keys)))
        grouped = filled.groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT))
        return grouped.where(F.col(_COUNT) > 1)

    def _repeated_rows(self, columns: tuple[str, ...]) -> DataFrame:
        """Rows that share their keys with others, those with the same keys side by side."""
        keys = self._repeated(columns).drop(_COUNT).limit(MAX_ROWS)
        names = keys.columns
        shared = self.frame.join(F.broadcast(keys), on=names, how="left_semi")
        ordered = shared.orderBy(*map(quoted, names))
        return ordered.select(*map(quoted, self.frame.columns))  # the join has put the keys first

    def _unknown_rows(self, column: str, table: str, other: str) -> DataFrame:
        mine = _column(self.frame, column, self.table)
        theirs = self.read(table)
        known = theirs.select(_column(theirs, other, table).alias(_KNOWN)).distinct()
        return self.frame.where(mine.isNotNull()).join(known, mine == F.col(_KNOWN), "left_anti")

    def _changed(self, rule: RowCount) -> Finding:
        before = self.rows_before()
        within, wanted = is_within(self.rows, rule), wanted_rows(rule)
        if before is None or rule.change is None:
            return Finding(within, wanted, str(self.rows), "there is nothing to compare with")
        share = abs(self.rows - before) / before if before else float(self.rows > 0)
        passed = within and share <= rule.change
        message = None if passed else f"{self.rows} rows, and {before} before"
        return Finding(passed, wanted, str(self.rows), message)

    def _found(self, query: str) -> DataFrame:
        """What a query finds, with the staged rows in the place of the table."""
        for view in (_STAGED, base_name(self.table)):  # `silver.orders` and `orders`
            self.frame.createOrReplaceTempView(view)
        text = with_views(query, {self.table: _STAGED})
        return self.session.sql(text)

    def _judged(self, check: CheckDef, function: Callable[..., object]) -> Finding:
        wanted = list(inspect.signature(function).parameters)
        given = (self.frame, self.context)[: max(1, min(len(wanted), 2))]
        return verdict(check, function(*given), self.rows)


def _column(frame: DataFrame, name: str, table: str) -> Column:
    for known in frame.columns:
        if known.lower() == name.lower():
            return F.col(quoted(known))
    raise Invalid(f"a check of {table} names the column {name!r}, which is not there")


def _example(columns: tuple[str, ...], masked: frozenset[str]) -> Column:
    values = [
        F.lit(MASK) if each.lower() in masked else F.col(quoted(each)).cast("string")
        for each in columns
    ]
    named = zip(columns, values, strict=True)
    texts = [F.concat(F.lit(f"{name}="), value) for name, value in named]
    return F.concat_ws(", ", *texts).alias("example")
