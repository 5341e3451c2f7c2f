"""Staging one output: its table made or widened, its rows written and counted on the way."""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so

from arco.core.errors import Invalid
from arco.flow.define import CheckDef
from arco.flow.spark.checks import Metrics, row_checks
from arco.flow.spark.choice import quoted
from arco.flow.spark.failing_rows import MASK, pii_columns
from arco.flow.spark.formats import Formats
from arco.flow.spark.measured import Measures, measured, observed
from arco.flow.spark.shape import arranged, check_columns, with_partition
from arco.flow.spark.statistics import profile_of
from arco.flow.spark.target import Published, Room, Staged, TableFormat, Target

_SAME = "arco_count"


@dataclass
class Written:
    """An output on its way: staged and counted, and then perhaps published."""

    target: Target
    tables: TableFormat
    frame: DataFrame
    staged: Staged
    checks: tuple[CheckDef, ...]
    measures: Measures
    metrics: Metrics
    published: Published | None = None
    kept_as: str | None = None  # the name of what is left for people to look at


def stage_output(
    target: Target, frame: DataFrame, checks: tuple[CheckDef, ...], room: Room, formats: Formats
) -> Written:
    """Write the rows of a frame where nobody sees them; `Invalid` if its table cannot hold them."""
    frame = with_partition(frame, target.values)
    check_columns(frame.schema, target.table)
    _check_format(target, room)
    tables = formats.of(target.format, target.table)
    known = tables.open(target, tables.storable(frame.schema))
    frame = arranged(frame, known)
    marked = pii_columns(room.found.get(target.table))  # a table that is new has no marks
    measures = Measures(target, row_checks(checks), profile_of(known), marked)
    if target.mode.kind == "merge":
        _check_key_columns(target, frame)
    staged, metrics = _write(target, tables, frame, measures)
    if target.mode.kind == "merge":
        measures.check_partition(metrics)
        _check_keys(target, staged.rows(frame.sparkSession), marked)
    return Written(target, tables, frame, staged, checks, measures, metrics)


def _write(
    target: Target, tables: TableFormat, frame: DataFrame, measures: Measures
) -> tuple[Staged, Metrics]:
    watched, counted = observed(frame, measures)
    staged = tables.stage(target, watched)
    metrics = counted()
    if metrics is None:
        metrics = measured(staged.rows(frame.sparkSession), measures)
    return staged, metrics


def _check_key_columns(target: Target, frame: DataFrame) -> None:
    known = {name.lower() for name in frame.columns}
    for name in target.mode.on:
        if name.lower() not in known:
            raise Invalid(
                f"{target.table}: rows are merged on {name!r}, and there is no such column"
            )


def _check_keys(target: Target, frame: DataFrame, marked: frozenset[str]) -> None:
    keys = [F.col(quoted(each)) for each in target.mode.on]
    is_bad = reduce(or_, (each.isNull() for each in keys), F.col(_SAME) > 1)
    bad = frame.groupBy(*keys).agg(F.count(F.lit(1)).alias(_SAME)).where(is_bad).limit(1).collect()
    if not bad:
        return
    *values, count = bad[0]
    on = ", ".join(target.mode.on)
    named = zip(target.mode.on, values, strict=True)
    told = ", ".join(f"{name}={_shown(name, value, marked)}" for name, value in named)
    if None in values:
        raise Invalid(
            f"{target.table}: rows are merged on {on}, and one of the result has null there ({told}), so "
            "it would be added once more by each run: fill it in, or leave the row out"
        )
    raise Invalid(
        f"{target.table}: {count} rows of the result have the same {on} ({told}), so which of them would "
        "stay is not clear: keep one of each"
    )


def _shown(name: str, value: object, marked: frozenset[str]) -> object:
    if value is None:
        return "null"
    return MASK if name.lower() in marked else value


def _check_format(target: Target, room: Room) -> None:
    there = room.find(target.table)
    if there is not None and there.format.lower() != target.format:
        raise Invalid(
            f"{target.table} is a table of the format {there.format.lower()}, and the asset writes "
            f"{target.format}: say format={there.format.lower()!r}, or drop the table"
        )
