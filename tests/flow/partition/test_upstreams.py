"""What many partitions read at once is what each of them reads."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.flow.partition import (
    Daily,
    Dynamic,
    Hourly,
    Mapping,
    MappingContext,
    Partitions,
    PartitionSet,
    Static,
    all_partitions,
    custom,
    identity,
    latest,
    offset,
    window,
)
from arco.flow.partition.time_dimension import TimeDimension
from tests.flow.partition.cases import LOOKED_AT, NOW, ZONES, Watched, timed
from tests.flow.partition.test_mapping import KNOWN, Case, cases

DAYS = Partitions([Daily("ds", "2026-01-01")])
BY_REGION = Partitions([Daily("ds", "2026-01-01", "2026-01-15"), Static("region", ["eu", "us"])])


def one_by_one(
    mapping: Mapping, keys: PartitionSet, reading: MappingContext
) -> list[tuple[str, ...]]:
    return [mapping.upstream(key, reading) for key in keys]


def at_once(mapping: Mapping, keys: PartitionSet, reading: MappingContext) -> list[tuple[str, ...]]:
    upstreams = mapping.upstreams(keys, reading)
    assert len(upstreams.indexes) == len(keys)
    assert len(set(upstreams.keys)) == len(upstreams.keys)
    return [upstreams.of(number) for number in range(len(keys))]


def some_of(everything: PartitionSet, picks: list[bool]) -> PartitionSet:
    """Some partitions with gaps between them."""
    chosen = [key for number, key in enumerate(everything) if picks[number % len(picks)]]
    return PartitionSet.of_keys(everything.axes, chosen)


@settings(max_examples=120, deadline=None)
@given(cases(), st.integers(0, 40), st.lists(st.booleans(), min_size=1, max_size=9))
def test_many_at_once_read_what_each_reads_alone(case: Case, days: int, picks: list[bool]) -> None:
    now = datetime(2026, 10, 20 + days % 11, days % 24, tzinfo=UTC)
    reading = MappingContext(case.of, case.reads, now, KNOWN)
    chosen = some_of(case.of.keys(now, KNOWN), picks)
    assert at_once(case.mapping, chosen, reading) == one_by_one(case.mapping, chosen, reading)


@pytest.mark.parametrize(
    "mapping", [identity, window(3), offset(-1), offset(2), all_partitions, latest]
)
def test_products_read_along_one_dimension(mapping: Mapping) -> None:
    reading = MappingContext(BY_REGION, BY_REGION, NOW)
    text = "ds=2026-01-01..2026-01-02,ds=2026-01-09/region=us,ds=2026-01-14"
    for chosen in (BY_REGION.keys(NOW), BY_REGION.parse(text, NOW)):
        assert at_once(mapping, chosen, reading) == one_by_one(mapping, chosen, reading)


def test_a_day_reads_a_window_of_days_in_all_regions() -> None:
    reading = MappingContext(DAYS, BY_REGION, NOW)
    upstreams = window(3).upstreams(DAYS.parse("2026-01-02..2026-01-06", NOW), reading)
    assert upstreams.indexes[0] == range(4)
    assert upstreams.of(1) == tuple(
        f"ds=2026-01-0{day}/region={region}" for day in (1, 2, 3) for region in ("eu", "us")
    )


def test_values_that_need_escaping_keep_their_keys() -> None:
    odd = Partitions([Static("path", ["a/b", "50%", "plain"])])
    reading = MappingContext(odd, odd, NOW)
    keys = odd.keys(NOW)
    assert list(keys) == ["path=50%25", "path=a%2Fb", "path=plain"]
    assert at_once(identity, keys, reading) == [(key,) for key in keys]


def test_a_function_is_asked_once_for_each() -> None:
    asked: list[str] = []

    def first(key: str) -> str:
        asked.append(key)
        return "ds=2026-01-01"

    chosen = DAYS.parse("2026-01-02..2026-01-05", NOW)
    upstreams = custom(first).upstreams(chosen, MappingContext(DAYS, DAYS, NOW))
    assert upstreams.keys == ("ds=2026-01-01",)
    assert [upstreams.of(number) for number in range(4)] == [upstreams.keys] * 4
    assert asked == list(chosen)


def test_dynamic_values_that_the_input_lacks_read_nothing() -> None:
    of, reads = Partitions([Dynamic("a")]), Partitions([])
    assert at_once(identity, of.keys(NOW, {"a": ("x",)}), MappingContext(of, reads, NOW)) == [("",)]


def test_a_window_of_seven_makes_each_key_once() -> None:
    hours = Partitions([Watched("hour", "2026-01-01")])
    chosen = hours.parse("2026-01-08T00..2026-03-31T23", NOW)
    LOOKED_AT.clear()
    upstreams = window(7).upstreams(chosen, MappingContext(hours, hours, NOW))
    assert len(LOOKED_AT) == len(upstreams.keys) == len(chosen) + 6
    assert set(map(len, upstreams.indexes)) == {7}


def test_a_huge_window_makes_only_what_the_input_has() -> None:
    chosen = DAYS.parse("2026-01-30..2026-01-31", NOW)
    upstreams = window(10**9).upstreams(chosen, MappingContext(DAYS, DAYS, NOW))
    assert (len(upstreams.keys), upstreams.indexes) == (31, [range(30), range(31)])


@settings(max_examples=60, deadline=None)
@given(timed(ZONES), st.integers(0, 250_000), st.integers(0, 90))
def test_values_made_at_once_are_those_made_one_by_one(
    dimension: TimeDimension, start: int, count: int
) -> None:
    first = dimension.positions.start + start
    positions = range(first, min(first + count, dimension.highest))
    assert list(dimension.values_at(positions)) == [dimension.value(each) for each in positions]


@pytest.mark.parametrize("zone", ZONES)
def test_a_year_of_hours_is_written_alike_in_both_ways(zone: str) -> None:
    hours = Hourly("hour", "2026-01-01T00", tz=zone)
    first = hours.positions.start
    for start in (0, 5):
        year = range(first + start, first + 366 * 24)
        assert list(hours.values_at(year)) == [hours.value(each) for each in year]
