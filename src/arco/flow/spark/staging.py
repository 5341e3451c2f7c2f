"""Stages one output: creates or widens its table, and writes and measures its rows."""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from arco.core.errors import Invalid
from arco.flow.define import CheckDef
from arco.flow.spark.failing_rows import MASK, pii_columns
from arco.flow.spark.format_registry import TableFormats
from arco.flow.spark.jvm import quote_name
from arco.flow.spark.row_checks import Metrics, row_checks
from arco.flow.spark.schema_evolution import add_partition_columns, check_columns, select_columns
from arco.flow.spark.table_format import (
    PublishedVersion,
    SparkTableFormat,
    StagedData,
    TableContext,
    WriteTarget,
)
from arco.flow.spark.write_metrics import WriteMetrics, observe_write, query_metrics, statistics_of

_COUNT = "arco_count"


@dataclass
class StagedOutput:
    """An output that is staged and measured, and later published or kept for inspection."""

    target: WriteTarget
    format: SparkTableFormat
    frame: DataFrame
    staged: StagedData
    checks: tuple[CheckDef, ...]
    write_metrics: WriteMetrics
    metrics: Metrics
    published: PublishedVersion | None = None
    kept_as: str | None = None  # the name of what was kept


def stage_output(
    target: WriteTarget,
    frame: DataFrame,
    checks: tuple[CheckDef, ...],
    table_context: TableContext,
    formats: TableFormats,
) -> StagedOutput:
    """Write the rows of a frame without publishing them; `Invalid` if its table cannot hold them."""
    frame = add_partition_columns(frame, target.values)
    check_columns(frame.schema, target.table)
    _check_format(target, table_context)
    table_format = formats.get(target.format, target.table)
    columns = table_format.open(target, table_format.storable(frame.schema))
    frame = select_columns(frame, columns)
    pii = pii_columns(table_context.tables.get(target.table))  # a new table has no marks
    write_metrics = WriteMetrics(target, row_checks(checks), statistics_of(columns), pii)
    if target.mode.kind == "merge":
        _check_key_columns(target, frame)
    staged, metrics = _write(target, table_format, frame, write_metrics)
    if target.mode.kind == "merge":
        write_metrics.check_partition(metrics)
        _check_keys(target, staged.rows(frame.sparkSession), pii)
    return StagedOutput(target, table_format, frame, staged, checks, write_metrics, metrics)


def _write(
    target: WriteTarget,
    table_format: SparkTableFormat,
    frame: DataFrame,
    write_metrics: WriteMetrics,
) -> tuple[StagedData, Metrics]:
    watched_frame, get_metrics = observe_write(frame, write_metrics)
    staged = table_format.stage(target, watched_frame)
    metrics = get_metrics()
    if metrics is None:
        metrics = query_metrics(staged.rows(frame.sparkSession), write_metrics)
    return staged, metrics


def _check_key_columns(target: WriteTarget, frame: DataFrame) -> None:
    columns = {name.lower() for name in frame.columns}
    for name in target.mode.on:
        if name.lower() not in columns:
            raise Invalid(
                f"{target.table}: rows are merged on {name!r}, and there is no such column"
            )


def _check_keys(target: WriteTarget, frame: DataFrame, pii: frozenset[str]) -> None:
    keys = [F.col(quote_name(each)) for each in target.mode.on]
    is_bad = reduce(or_, (each.isNull() for each in keys), F.col(_COUNT) > 1)
    bad = frame.groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT)).where(is_bad).limit(1).collect()
    if not bad:
        return
    *values, count = bad[0]
    on = ", ".join(target.mode.on)
    named = zip(target.mode.on, values, strict=True)
    example = ", ".join(f"{name}={_format_value(name, value, pii)}" for name, value in named)
    if None in values:
        raise Invalid(
            f"{target.table}: rows are merged on {on}, and one of the result has null there ({example}), "
            "so each run would add it once more: fill it in, or leave the row out"
        )
    raise Invalid(
        f"{target.table}: {count} rows of the result have the same {on} ({example}), so it is not clear "
        "which of them would stay: keep one of each"
    )


def _format_value(name: str, value: object, pii: frozenset[str]) -> object:
    if value is None:
        return "null"
    return MASK if name.lower() in pii else value


def _check_format(target: WriteTarget, table_context: TableContext) -> None:
    table = table_context.find(target.table)
    if table is not None and table.format.lower() != target.format:
        raise Invalid(
            f"{target.table} is a table of the format {table.format.lower()}, and the asset writes "
            f"{target.format}: declare format={table.format.lower()!r}, or drop the table"
        )
