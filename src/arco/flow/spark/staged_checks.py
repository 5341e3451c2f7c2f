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
from arco.flow.define.check import (
    CheckDef,
    Judged,
    Query,
    References,
    RowCount,
    Unique,
)
from arco.flow.define.context import Context
from arco.flow.define.name import last_part
from arco.flow.spark.checks import Finding, bad_rows, is_within, wanted_rows
from arco.flow.spark.choice import quoted
from arco.flow.spark.sql_inputs import with_views
from arco.flow.spark.verdict import verdict

_STAGED = "arco_staged"


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """What was staged for one table, and what is needed to judge it."""

    session: SparkSession
    table: str
    frame: DataFrame
    rows: int
    rows_before: Callable[[], int | None]
    read: Callable[[str], DataFrame]  # another table as it stands now, by its full name
    context: Context

    def findings(self, checks: tuple[CheckDef, ...]) -> Iterator[tuple[CheckDef, Finding]]:
        """What each of these checks found."""
        compared = [each for each in checks if isinstance(each.rule, Unique | References)]
        yield from self._compared(compared)
        for check in checks:
            match check.rule:
                case RowCount():
                    yield check, self._changed(check.rule)
                case Query(query):
                    yield check, self._query(query)
                case Judged(function):
                    yield check, self._judged(check, function)

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
        match check.rule:
            case Unique(columns):
                bad = self._repeated(columns)
            case References(column, table, other):
                bad = self._unknown(column, table, other)
            case _:
                raise TypeError(type(check.rule).__name__)
        return bad.agg(
            F.lit(at).alias("check"),
            F.coalesce(F.sum("bad"), F.lit(0)).alias("bad"),
            F.min("example").alias("example"),
        )

    def _repeated(self, columns: tuple[str, ...]) -> DataFrame:
        """Rows with a null are like no other."""
        keys = [_column(self.frame, each, self.table) for each in columns]
        filled = self.frame.where(reduce(Column.__and__, (each.isNotNull() for each in keys)))
        grouped = filled.groupBy(*keys).agg(F.count(F.lit(1)).alias("arco_count"))
        return grouped.where("arco_count > 1").select(
            F.col("arco_count").alias("bad"), _told(columns).alias("example")
        )

    def _unknown(self, column: str, table: str, other: str) -> DataFrame:
        mine = _column(self.frame, column, self.table).alias("arco_value")
        values = self.frame.select(mine).where("arco_value is not null")
        theirs = self.read(table)
        known = theirs.select(_column(theirs, other, table).alias("arco_known")).distinct()
        alone = values.join(known, F.col("arco_value") == F.col("arco_known"), "left_anti")
        return alone.select(
            F.lit(1).alias("bad"), F.col("arco_value").cast("string").alias("example")
        )

    def _changed(self, rule: RowCount) -> Finding:
        before = self.rows_before()
        within, wanted = is_within(self.rows, rule), wanted_rows(rule)
        if before is None or rule.change is None:
            return Finding(within, wanted, str(self.rows), "there is nothing to compare with")
        share = abs(self.rows - before) / before if before else float(self.rows > 0)
        passed = within and share <= rule.change
        message = None if passed else f"{self.rows} rows, and {before} before"
        return Finding(passed, wanted, str(self.rows), message)

    def _query(self, query: str) -> Finding:
        for view in (_STAGED, last_part(self.table)):  # `silver.orders` and `orders`
            self.frame.createOrReplaceTempView(view)
        text = with_views(query, {self.table: _STAGED})
        return bad_rows(self.session.sql(text).count(), None, "were found by the query")

    def _judged(self, check: CheckDef, function: Callable[..., object]) -> Finding:
        wanted = list(inspect.signature(function).parameters)
        given = (self.frame, self.context)[: max(1, min(len(wanted), 2))]
        return verdict(check, function(*given), self.rows)


def _column(frame: DataFrame, name: str, table: str) -> Column:
    for known in frame.columns:
        if known.lower() == name.lower():
            return F.col(quoted(known))
    raise Invalid(f"a check of {table} names the column {name!r}, which is not there")


def _told(columns: tuple[str, ...]) -> Column:
    texts = [F.concat(F.lit(f"{each}="), F.col(quoted(each)).cast("string")) for each in columns]
    return F.concat_ws(", ", *texts)
