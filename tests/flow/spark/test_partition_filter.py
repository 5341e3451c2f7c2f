"""Partition filters: the right rows, by a short condition."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from arco.core.errors import Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.lineage.plan_tree import PARTITION_FILTER_MARKER
from arco.flow.partition import Daily, Hourly, Partitions, PartitionSet, Static
from arco.flow.spark.partition_filter import filter_partitions
from tests.flow.spark.harness import Harness

NOW = datetime(2027, 1, 1, tzinfo=UTC)
DAYS = Partitions(Daily("ds", start="2020-01-01"))
HOURS = Partitions(Hourly("h", start="2026-10-24", end="2026-10-27", tz="Europe/Paris"))
BOTH = Partitions([Daily("ds", start="2026-01-01"), Static("r", ["eu", "us", "asia"])])


def frame(harness: Harness, keys: Iterable[str], **casts: str) -> DataFrame:
    values = [parse_partition_key(key) or {} for key in keys]
    names = list(values[0])
    rows = harness.spark.createDataFrame(
        [tuple(each[name] for name in names) for each in values], names
    )
    return rows.select([F.col(name).cast(casts.get(name, "string")) for name in names])


def chosen(rows: DataFrame, wanted: PartitionSet) -> tuple[list[tuple[str, ...]], int]:
    """The chosen rows, as text, and the length of the condition."""
    filtered = filter_partitions(rows, wanted, "t")
    plan: str = filtered._jdf.queryExecution().analyzed().toString()
    texts = filtered.select([F.col(name).cast("string") for name in rows.columns])
    return sorted(tuple(row) for row in texts.collect()), len(plan)


def expected(wanted: PartitionSet) -> list[tuple[str, ...]]:
    return sorted(tuple((parse_partition_key(key) or {}).values()) for key in wanted)


@pytest.mark.parametrize("kind", ["string", pytest.param("date", marks=pytest.mark.interop)])
def test_years_of_days_are_one_range(harness: Harness, kind: str) -> None:
    wanted = DAYS.parse("2021-01-01..2025-12-31,2020-03-01,2020-03-03", NOW)
    rows = frame(harness, DAYS.keys(NOW), ds=kind)
    chosen_rows, size = chosen(rows, wanted)
    assert chosen_rows == expected(wanted)
    assert len(chosen_rows) > 1_800
    assert size < 1_000


def test_the_hour_that_comes_twice_is_within_its_day(harness: Harness) -> None:
    wanted = HOURS.parse("2026-10-24T20..2026-10-26T03", NOW)
    chosen_rows, _ = chosen(frame(harness, HOURS.keys(NOW)), wanted)
    assert chosen_rows == expected(wanted)
    assert ("2026-10-25T02+0100",) in chosen_rows


def test_a_box_of_two_dimensions_is_one_condition_for_each(harness: Harness) -> None:
    wanted = BOTH.parse("ds=2026-02-01..2026-11-30/r=eu", NOW)
    chosen_rows, size = chosen(frame(harness, BOTH.keys(NOW)), wanted)
    assert chosen_rows == expected(wanted)
    assert size < 1_000


@pytest.mark.interop
def test_many_scattered_partitions_are_found_all_the_same(harness: Harness) -> None:
    axes = BOTH.axes()
    every = list(BOTH.keys(NOW))
    wanted = PartitionSet.of_keys(axes, every[::4])
    assert len(wanted.boxes) > 200
    assert chosen(frame(harness, every), wanted)[0] == expected(wanted)


def test_nothing_chosen_is_nothing_read(harness: Harness) -> None:
    rows = frame(harness, list(DAYS.keys(NOW))[:3])
    assert chosen(rows, PartitionSet.of(DAYS.axes(), []))[0] == []


@pytest.mark.parametrize("wanted", ["2026-12-30", "2020-01-01..2026-12-31"])
def test_the_marker_of_the_filter_is_removed_before_the_scan(harness: Harness, wanted: str) -> None:
    rows = frame(harness, list(DAYS.keys(NOW))[-3:])
    plan = filter_partitions(rows, DAYS.parse(wanted, NOW), "t")._jdf.queryExecution()
    assert PARTITION_FILTER_MARKER in plan.analyzed().toString()
    assert PARTITION_FILTER_MARKER not in plan.optimizedPlan().toString()


def test_a_table_without_the_column_is_an_error(harness: Harness) -> None:
    rows = harness.spark.range(1)
    with pytest.raises(
        Invalid, match=r"t is partitioned by 'ds', and has no such column; its columns are id"
    ):
        filter_partitions(rows, DAYS.parse("latest", NOW), "t")
