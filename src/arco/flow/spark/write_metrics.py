"""Metrics of the rows that are written, observed on the write itself: checks, statistics, partition."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from arco.core.errors import Invalid
from arco.events.payload import ColumnProfile
from arco.flow.spark.failing_rows import MASK
from arco.flow.spark.jvm import java_message, quote_name
from arco.flow.spark.row_checks import ROWS, Metrics, RowChecks, count_of, optional_text
from arco.flow.spark.table_format import WriteTarget

_NAME = "arco"
_FOREIGN = "foreign"
_EXAMPLE = "foreign_value"
_DRAIN_MS = 10_000
_MAX_COLUMNS = 50
_MAX_VALUE_CHARS = 256


@dataclass(frozen=True)
class WriteStatistics:
    """Nulls, least and largest values of the first columns whose values have an order."""

    names: tuple[str, ...]

    def aggregates(self) -> Iterator[Column]:
        """What Spark counts."""
        for at, name in enumerate(self.names):
            column = quote_name(name)
            # As SQL text: parsing it in the JVM is cheaper than several calls.
            yield F.expr(f"count({column}) AS filled_{at}")
            yield F.expr(f"{_limited_text('min', column)} AS least_{at}")
            yield F.expr(f"{_limited_text('max', column)} AS most_{at}")

    def profiles(self, metrics: Metrics, ids: Mapping[str, str]) -> tuple[ColumnProfile, ...]:
        """The statistics of columns whose ids are given, by name."""
        rows = count_of(metrics, ROWS)
        return tuple(
            ColumnProfile(
                column_id=ids[name],
                column_name=name,
                row_count=rows,
                null_count=rows - count_of(metrics, f"filled_{at}"),
                min_value=optional_text(metrics.get(f"least_{at}")),
                max_value=optional_text(metrics.get(f"most_{at}")),
            )
            for at, name in enumerate(self.names)
            if name in ids
        )


def statistics_of(schema: StructType) -> WriteStatistics:
    """The statistics for a table with these columns."""
    ordered = [field.name for field in schema.fields if _has_order(field.dataType)]
    return WriteStatistics(tuple(ordered[:_MAX_COLUMNS]))


@dataclass(frozen=True)
class WriteMetrics:
    """All that is counted of the rows of one target; messages do not show values of `masked` columns."""

    target: WriteTarget
    checks: RowChecks
    statistics: WriteStatistics
    masked: frozenset[str] = frozenset()  # in lower case

    def aggregates(self) -> list[Column]:
        """What Spark counts."""
        rows = F.count(F.lit(1)).alias(ROWS)
        aggregates = [rows, *self.checks.aggregates(), *self.statistics.aggregates()]
        if self.target.values:
            aggregates += self._foreign_rows()
        return aggregates

    def check_partition(self, metrics: Metrics) -> None:
        """`Invalid` if rows of another partition were written."""
        if not count_of(metrics, _FOREIGN):
            return
        raise Invalid(
            f"{self.target.table}: {count_of(metrics, _FOREIGN)} of {count_of(metrics, ROWS)} rows do not "
            f"belong to {self.target.partition}, such as one with {metrics.get(_EXAMPLE)}: filter them, "
            "or leave the column out and it is filled in"
        )

    def _foreign_rows(self) -> list[Column]:
        is_foreign, values = F.lit(False), []
        for name, value in self.target.values.items():
            text = F.col(quote_name(name)).cast("string")
            is_foreign = is_foreign | ~text.eqNullSafe(F.lit(value))
            is_masked = name.lower() in self.masked
            shown = F.lit(MASK) if is_masked else F.coalesce(text, F.lit("null"))
            values.append(F.concat(F.lit(f"{name}="), shown))
        example = F.max(F.when(is_foreign, F.concat_ws("/", *values)))
        return [F.count_if(is_foreign).alias(_FOREIGN), example.alias(_EXAMPLE)]


def observe_write(
    frame: DataFrame, write_metrics: WriteMetrics
) -> tuple[DataFrame, Callable[[], Metrics | None]]:
    """The frame to write, and a function for its metrics afterwards; None if Spark reported none."""
    observation = Observation(_NAME)
    try:
        watched_frame = frame.observe(observation, *write_metrics.aggregates())
    except AnalysisException as problem:
        raise _check_error(frame, write_metrics, problem) from problem

    def get_metrics() -> Metrics | None:
        # They come by Spark's listener bus; for a write without any row there may be none.
        frame.sparkSession.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_DRAIN_MS)  # noqa: SLF001
        java = observation._jo  # noqa: SLF001 - `get` would wait for ever for metrics that never come
        if java is None or java.getOrEmpty().isEmpty():
            return None
        return observation.get

    return watched_frame, get_metrics


def query_metrics(frame: DataFrame, write_metrics: WriteMetrics) -> Metrics:
    """The same metrics by a query over the rows."""
    try:
        aggregated = frame.agg(*write_metrics.aggregates())
    except AnalysisException as problem:
        raise _check_error(frame, write_metrics, problem) from problem
    return aggregated.collect()[0].asDict()


def _check_error(
    frame: DataFrame, write_metrics: WriteMetrics, problem: AnalysisException
) -> Exception:
    """Which check cannot be computed; the error itself if it is none of them."""
    for at, check in enumerate(write_metrics.checks.checks):
        aggregate = write_metrics.checks.aggregate(at)
        try:
            if aggregate is not None:
                frame.agg(aggregate)
        except AnalysisException as check_problem:
            return Invalid(
                f"{check.where}: the check {check.name!r} of {check.table} cannot be computed: "
                f"{java_message(check_problem)}"
            )
    return problem


def _has_order(data_type: DataType) -> bool:
    kinds = NumericType | StringType | BooleanType | DateType | TimestampType | TimestampNTZType
    return isinstance(data_type, kinds)


def _limited_text(function: str, column: str) -> str:
    return f"substring(CAST({function}({column}) AS STRING), 1, {_MAX_VALUE_CHARS})"
