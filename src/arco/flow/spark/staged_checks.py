"""Runs the checks of staged outputs: those counted during the write, and queries on the staged rows.

Queries are for checks that compare rows with each other or with other tables, and for functions. Uniqueness
and references of one table are one query, whatever their number.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from numbers import Integral

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from arco.core.clock import Clock
from arco.core.errors import Invalid
from arco.flow.coordinator.messages import CheckOutcome
from arco.flow.define import CheckDef, Context, Project
from arco.flow.define.check_rules import (
    Freshness,
    FunctionRule,
    QueryRule,
    References,
    Result,
    RowCount,
    Unique,
)
from arco.flow.spark.failing_rows import (
    MASK,
    MAX_ROWS,
    FailingRows,
    masked_positions,
    masked_unless_copied,
    pii_columns,
)
from arco.flow.spark.format_registry import TableFormats
from arco.flow.spark.inputs import TaskInputs
from arco.flow.spark.jvm import quote_name
from arco.flow.spark.row_checks import (
    ROWS,
    CheckFinding,
    bad_rows,
    columns_of_rule,
    count_of,
    expected_rows,
    failing_condition,
    is_within,
    optional_text,
    other_checks,
    outcome_of,
)
from arco.flow.spark.running_attempt import RunningAttempt
from arco.flow.spark.staging import StagedOutput
from arco.flow.spark.table_format import TableContext
from arco.flow.spark.user_code import replace_tables
from arco.flow.table_name import base_name
from arco.flow.worker.ports import CatalogTable, TaskCatalog

_MAX_LOGGED_BYTES = 65_536  # of failing rows, in all checks of an attempt
_STAGED = "arco_staged"
_COUNT = "arco_count"
_REFERENCED = "arco_known"


@dataclass
class CheckRunner:
    """Runs the checks of all outputs of one attempt.

    What checks read is no part of the asset's lineage, so they have another session, opened when needed.
    """

    project: Project
    attempt: RunningAttempt
    catalog: TaskCatalog
    clock: Clock
    new_session: Callable[[], SparkSession]
    _session: SparkSession | None = field(default=None, init=False)
    _logged_bytes: int = field(default=0, init=False)

    def run(self, output: StagedOutput, table: CatalogTable | None) -> list[CheckOutcome]:
        """The outcome of each check of an output; failing rows go to the log of the attempt."""
        staged_checks = cache(lambda: self._staged_checks(output, table))
        outcomes: list[CheckOutcome] = []
        for check, finding in self._findings(output, staged_checks):
            outcomes.append(outcome_of(check, finding, None if table is None else table.table_id))
            if not finding.passed and not isinstance(check.rule, RowCount | Freshness):
                failing_rows = partial(self._failing_rows, check, output, table, staged_checks)
                self._log_failing_rows(check, finding, failing_rows)
        return outcomes

    def _findings(
        self, output: StagedOutput, staged_checks: Callable[[], "StagedChecks"]
    ) -> Iterator[tuple[CheckDef, CheckFinding]]:
        yield from output.write_metrics.checks.findings(output.metrics, self.clock.now_ms())
        if others := other_checks(output.checks):
            yield from staged_checks().findings(others)

    def _log_failing_rows(
        self,
        check: CheckDef,
        finding: CheckFinding,
        failing_rows: Callable[[], FailingRows | None],
    ) -> None:
        """Log rows that fail a check; an error in reading them does not change the outcome."""
        title = f"check {check.name} of {check.table}"
        if self._logged_bytes > _MAX_LOGGED_BYTES:
            self.attempt.log(
                f"{title}: failing rows are left out, as other checks have logged many"
            )
            return
        try:
            rows = failing_rows()
            lines = [] if rows is None else rows.lines()
        except Exception as problem:  # its message may hold values of any column
            self.attempt.raise_if_stopped()  # then reading rows fails, and that is no error
            name = type(problem).__name__
            self.attempt.log(f"{title}: its failing rows could not be read ({name})")
            return
        if lines:
            head = f"{title}: {finding.message}. Failing rows, {MAX_ROWS} at most:"
            text = "\n".join([head, *lines])
            self._logged_bytes += len(text.encode(errors="backslashreplace"))
            self.attempt.log(text)

    def _failing_rows(
        self,
        check: CheckDef,
        output: StagedOutput,
        table: CatalogTable | None,
        staged_checks: Callable[[], "StagedChecks"],
    ) -> FailingRows | None:
        condition = failing_condition(check.rule)
        if condition is None:
            return staged_checks().failing_rows(check)
        frame = output.staged.rows(self._check_session()).where(condition)
        masked = masked_positions(frame, pii_columns(table))
        return FailingRows(frame, masked, columns_of_rule(check.rule))

    def _check_session(self) -> SparkSession:
        if self._session is None:
            self._session = self.attempt.add_session(self.new_session())
        return self._session

    def _staged_checks(self, output: StagedOutput, table: CatalogTable | None) -> "StagedChecks":
        session, target = self._check_session(), output.target
        table_context = TableContext(session, self.catalog, tables={target.table: table})
        formats = TableFormats(table_context)
        inputs = TaskInputs(self.project, self.attempt.task, table_context, formats)
        return StagedChecks(
            session=session,
            table=target.table,
            frame=output.staged.frame(session),
            rows=count_of(output.metrics, ROWS),
            rows_before=lambda: output.format.rows_before(target),
            read=inputs.read_all,
            pii_columns=lambda name: pii_columns(table_context.find(name)),
            context=self.attempt.context(target.values),
        )


@dataclass(frozen=True, kw_only=True)
class StagedChecks:
    """Checks by queries on the staged rows of one table.

    `pii_columns` returns the columns of a table that are marked as PII, in lower case.
    """

    session: SparkSession
    table: str
    frame: DataFrame
    rows: int
    rows_before: Callable[[], int | None]
    read: Callable[[str], DataFrame]  # the current version of another table, by its full name
    pii_columns: Callable[[str], frozenset[str]]
    context: Context

    def findings(self, checks: tuple[CheckDef, ...]) -> Iterator[tuple[CheckDef, CheckFinding]]:
        """The finding of each of these checks."""
        yield from self._key_findings(
            [each for each in checks if isinstance(each.rule, Unique | References)]
        )
        for check in checks:
            match check.rule:
                case RowCount():
                    yield check, self._row_count_finding(check.rule)
                case QueryRule(query):
                    count = self._query_rows(query).count()
                    yield check, bad_rows(count, None, "were found by the query")
                case FunctionRule(function):
                    yield check, self._call_check(check, function)

    def failing_rows(self, check: CheckDef) -> FailingRows | None:
        """The rows that fail one of these checks; None for a check that finds no rows."""
        match check.rule:
            case Unique(columns):
                frame = self._repeated_rows(columns)
            case References(column, table, other):
                frame = self._unmatched_rows(column, table, other)
            case QueryRule(query):
                return self._failing_query_rows(check, query)
            case _:
                return None
        masked = masked_positions(frame, self._masked(check))
        return FailingRows(frame, masked, columns_of_rule(check.rule))

    def _failing_query_rows(self, check: CheckDef, query: str) -> FailingRows:
        rows = self._query_rows(query)
        if not any(map(self.pii_columns, (self.table, *check.compares_with))):
            return FailingRows(rows)
        pii = self.pii_columns(self.table)
        return FailingRows(rows, masked_unless_copied(rows, self.frame, pii))

    def _masked(self, check: CheckDef) -> frozenset[str]:
        """The columns not to be shown, in lower case; a reference to a PII column holds its values."""
        pii = self.pii_columns(self.table)
        match check.rule:
            case References(column, table, other) if other.lower() in self.pii_columns(table):
                return pii | {column.lower()}
        return pii

    def _key_findings(self, checks: list[CheckDef]) -> Iterator[tuple[CheckDef, CheckFinding]]:
        """Uniqueness and references, in one query."""
        if not checks:
            return
        parts = [self._count_bad_rows(at, check) for at, check in enumerate(checks)]
        for at, count, example in reduce(DataFrame.unionAll, parts).collect():
            rule = checks[at].rule
            if isinstance(rule, Unique):
                defect = f"share their {', '.join(rule.columns)} with another"
            elif isinstance(rule, References):
                defect = f"have a {rule.column} that {rule.table} does not have"
            else:  # the caller passes no others
                raise TypeError(type(rule).__name__)
            suffix = "" if example is None else f", such as {example}"
            yield checks[at], bad_rows(int(count), self.rows, defect + suffix)

    def _count_bad_rows(self, at: int, check: CheckDef) -> DataFrame:
        masked = self._masked(check)
        match check.rule:
            case Unique(columns):
                example = _example(columns, masked)
                bad = self._repeated_keys(columns).select(F.col(_COUNT).alias("bad"), example)
            case References(column, table, other):
                value = F.col(quote_name(column)).cast("string")
                example = F.lit(MASK) if column.lower() in masked else value
                unmatched = self._unmatched_rows(column, table, other)
                bad = unmatched.select(F.lit(1).alias("bad"), example.alias("example"))
            case _:
                raise TypeError(type(check.rule).__name__)
        return bad.agg(
            F.lit(at).alias("check"),
            F.coalesce(F.sum("bad"), F.lit(0)).alias("bad"),
            F.min("example").alias("example"),
        )

    def _repeated_keys(self, columns: tuple[str, ...]) -> DataFrame:
        """The keys that several rows have, with their count. A key with a null equals no other."""
        keys = [_column(self.frame, each, self.table) for each in columns]
        filled = self.frame.where(reduce(Column.__and__, (each.isNotNull() for each in keys)))
        grouped = filled.groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT))
        return grouped.where(F.col(_COUNT) > 1)

    def _repeated_rows(self, columns: tuple[str, ...]) -> DataFrame:
        """Rows that share their keys with others, those with the same keys side by side."""
        keys = self._repeated_keys(columns).drop(_COUNT).limit(MAX_ROWS)
        names = keys.columns
        shared = self.frame.join(F.broadcast(keys), on=names, how="left_semi")
        ordered = shared.orderBy(*map(quote_name, names))
        return ordered.select(*map(quote_name, self.frame.columns))  # the join puts the keys first

    def _unmatched_rows(self, column: str, table: str, other: str) -> DataFrame:
        """Rows whose reference is not in the other table."""
        reference = _column(self.frame, column, self.table)
        referenced = self.read(table)
        values = referenced.select(_column(referenced, other, table).alias(_REFERENCED)).distinct()
        rows = self.frame.where(reference.isNotNull())
        return rows.join(values, reference == F.col(_REFERENCED), "left_anti")

    def _row_count_finding(self, rule: RowCount) -> CheckFinding:
        before = self.rows_before()
        within, expected = is_within(self.rows, rule), expected_rows(rule)
        if before is None or rule.change is None:
            return CheckFinding(within, expected, str(self.rows), "there are no earlier rows")
        change = abs(self.rows - before) / before if before else float(self.rows > 0)
        passed = within and change <= rule.change
        message = None if passed else f"{self.rows} rows, and {before} before"
        return CheckFinding(passed, expected, str(self.rows), message)

    def _query_rows(self, query: str) -> DataFrame:
        """The rows that a query finds, with the staged rows in place of the table."""
        for view in (_STAGED, base_name(self.table)):  # `silver.orders` and `orders`
            self.frame.createOrReplaceTempView(view)
        return self.session.sql(replace_tables(query, {self.table: _STAGED}))

    def _call_check(self, check: CheckDef, function: Callable[..., object]) -> CheckFinding:
        parameters = inspect.signature(function).parameters
        arguments = (self.frame, self.context)[: max(1, min(len(parameters), 2))]
        return finding_of(check, function(*arguments), self.rows)


def finding_of(check: CheckDef, result: object, rows: int) -> CheckFinding:
    """The finding of a check whose function has returned `result` for so many rows."""
    match _to_python(result):
        case Result() as reported:
            actual = reported.bad_rows if reported.actual is None else reported.actual
            return CheckFinding(
                bool(reported.passed),
                optional_text(reported.expected),
                optional_text(actual),
                optional_text(reported.message or None),
            )
        case bool(passed):
            message = None if passed else "it does not hold"
            return CheckFinding(passed, "true", str(passed).lower(), message)
        case int(count):
            return bad_rows(count, rows, "are bad")
    raise Invalid(
        f"{check.where}: the check {check.name!r} returned {type(result).__name__}: return true or "
        "false, the number of bad rows, or arco.Result(...)"
    )


def _to_python(value: object) -> object:
    """A number or truth value of numpy or pandas as Python's, recognized without importing them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    shape = getattr(value, "shape", None)
    # A Spark column has any attribute, which is another column.
    is_scalar = isinstance(kind, str) and isinstance(shape, tuple) and not shape
    return bool(value) if is_scalar and kind == "b" else value


def _column(frame: DataFrame, name: str, table: str) -> Column:
    for each in frame.columns:
        if each.lower() == name.lower():
            return F.col(quote_name(each))
    raise Invalid(f"a check of {table} names the column {name!r}, which the table does not have")


def _example(columns: tuple[str, ...], masked: frozenset[str]) -> Column:
    values = [
        F.lit(MASK) if each.lower() in masked else F.col(quote_name(each)).cast("string")
        for each in columns
    ]
    named = zip(columns, values, strict=True)
    texts = [F.concat(F.lit(f"{name}="), value) for name, value in named]
    return F.concat_ws(", ", *texts).alias("example")
