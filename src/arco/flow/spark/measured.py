"""Measuring what is written: one observation on the write itself, for checks, statistics and partition."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so

from arco.core.errors import Invalid
from arco.flow.spark.checks import ROWS, Metrics, RowChecks, count_of
from arco.flow.spark.choice import quoted
from arco.flow.spark.failing_rows import MASK
from arco.flow.spark.jvm import java_message
from arco.flow.spark.statistics import Profile
from arco.flow.spark.target import Target

_NAME = "arco"
_FOREIGN = "foreign"
_EXAMPLE = "foreign_value"
_DRAIN_MS = 10_000


@dataclass(frozen=True)
class Measures:
    """All that is counted of the rows of one target."""

    target: Target
    checks: RowChecks
    profile: Profile
    masked: frozenset[str] = frozenset()  # columns whose values no message names, in lower case

    def columns(self) -> list[Column]:
        """As aggregates."""
        found = [F.count(F.lit(1)).alias(ROWS), *self.checks.measures(), *self.profile.measures()]
        if self.target.values:
            found += self._foreign()
        return found

    def check_partition(self, metrics: Metrics) -> None:
        """`Invalid` if rows of another partition were among those that were written."""
        if not count_of(metrics, _FOREIGN):
            return
        raise Invalid(
            f"{self.target.table}: {count_of(metrics, _FOREIGN)} of {count_of(metrics, ROWS)} rows do not "
            f"belong to {self.target.partition}, such as one with {metrics.get(_EXAMPLE)}: filter them, "
            "or leave the column out and it is filled in"
        )

    def _foreign(self) -> list[Column]:
        bad, told = F.lit(False), []
        for name, value in self.target.values.items():
            text = F.col(quoted(name)).cast("string")
            bad = bad | ~text.eqNullSafe(F.lit(value))
            shown = F.lit(MASK) if name.lower() in self.masked else F.coalesce(text, F.lit("null"))
            told.append(F.concat(F.lit(f"{name}="), shown))
        example = F.max(F.when(bad, F.concat_ws("/", *told)))
        return [F.count_if(bad).alias(_FOREIGN), example.alias(_EXAMPLE)]


def observed(
    frame: DataFrame, measures: Measures
) -> tuple[DataFrame, Callable[[], Metrics | None]]:
    """The frame, and what will have been counted once it is written; None if Spark did not count."""
    observation = Observation(_NAME)
    try:
        watched = frame.observe(observation, *measures.columns())
    except AnalysisException as problem:
        raise _wrong_check(frame, measures, problem) from problem

    def counted() -> Metrics | None:
        # Spark tells on its bus of events; a write without any row may have told nothing.
        frame.sparkSession.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_DRAIN_MS)  # noqa: SLF001
        told = observation._jo  # noqa: SLF001 - `get` would wait for ever for what never comes
        if told is None or told.getOrEmpty().isEmpty():
            return None
        return observation.get

    return watched, counted


def measured(frame: DataFrame, measures: Measures) -> Metrics:
    """The same by a query of its own."""
    try:
        aggregated = frame.agg(*measures.columns())
    except AnalysisException as problem:
        raise _wrong_check(frame, measures, problem) from problem
    return aggregated.collect()[0].asDict()


def _wrong_check(frame: DataFrame, measures: Measures, problem: AnalysisException) -> Exception:
    """Which check it is that cannot be computed; the error itself if it is none of them."""
    for at, check in enumerate(measures.checks.checks):
        measure = measures.checks.measure(at)
        try:
            if measure is not None:
                frame.agg(measure)
        except AnalysisException as wrong:
            return Invalid(
                f"{check.where}: the check {check.name!r} of {check.table} cannot be computed: "
                f"{java_message(wrong)}"
            )
    return problem
