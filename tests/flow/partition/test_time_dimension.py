"""What holds for hours, days, weeks and months alike."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.flow.partition import Daily, Dimension, Hourly, Monthly, Weekly
from arco.flow.partition.time_dimension import TimeDimension
from tests.flow.partition.cases import NOW, moments, timed

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what a clock shows, no moment

KINDS: list[tuple[type[TimeDimension], str, str, str]] = [
    (Hourly, "2026-01-15T06", "2026-01-15T08", "2026-01-15T07"),
    (Daily, "2026-01-15", "2026-01-17", "2026-01-16"),
    (Weekly, "2026-W03", "2026-W05", "2026-W04"),
    (Monthly, "2026-01", "2026-03", "2026-02"),
]


@given(timed(), moments())
def test_a_moment_lies_within_the_span_of_its_key(
    dimension: TimeDimension, moment: datetime
) -> None:
    start, end = dimension.span(dimension.at(moment))
    assert start <= moment < end


@given(timed(), moments())
def test_both_ends_of_a_span_lead_back_to_its_key(
    dimension: TimeDimension, moment: datetime
) -> None:
    key = dimension.at(moment)
    start, end = dimension.span(key)
    assert dimension.at(start) == key
    assert dimension.at(end - timedelta(microseconds=1)) == key
    assert dimension.at(end) != key


@given(timed(), moments())
def test_a_partition_begins_where_the_one_before_has_ended(
    dimension: TimeDimension, moment: datetime
) -> None:
    position = dimension.position_at(moment)
    before, after = dimension.value(position), dimension.value(position + 1)
    assert dimension.span(before)[1] == dimension.span(after)[0]


@given(timed(), moments(), st.integers(1, 60))
def test_keys_sort_as_text_in_the_order_of_time(
    dimension: TimeDimension, moment: datetime, steps: int
) -> None:
    position = dimension.position_at(moment)
    keys = [dimension.value(position + step) for step in range(steps + 1)]
    assert all(one < other for one, other in pairwise(keys))


@given(timed(), moments())
def test_a_key_has_one_position_and_a_position_one_key(
    dimension: TimeDimension, moment: datetime
) -> None:
    position = dimension.position_at(moment)
    assert dimension.position(dimension.value(position)) == position


@given(timed(), moments())
def test_what_exists_is_over_and_what_follows_is_not(
    dimension: TimeDimension, moment: datetime
) -> None:
    keys = dimension.keys(moment)
    assert dimension.span(keys[-1])[1] <= moment
    assert dimension.span(dimension.value(dimension.position(keys[-1]) + 1))[1] > moment


@pytest.mark.parametrize(("kind", "start", "end", "between"), KINDS)
def test_the_end_is_not_in_it(
    kind: type[TimeDimension], start: str, end: str, between: str
) -> None:
    dimension = kind("t", start, end)
    assert list(dimension.keys(NOW)) == [start, between]
    assert start in dimension
    assert end not in dimension


@pytest.mark.parametrize(("kind", "start", "end", "between"), KINDS)
def test_a_partition_exists_when_it_is_over(
    kind: type[TimeDimension], start: str, end: str, between: str
) -> None:
    dimension = kind("t", start)
    over = dimension.span(start)[1]
    assert list(dimension.keys(over - timedelta(microseconds=1))) == []
    assert list(dimension.keys(over)) == [start]


@pytest.mark.parametrize(("kind", "start", "end", "between"), KINDS)
def test_a_lag_keeps_a_partition_back_for_as_long(
    kind: type[TimeDimension], start: str, end: str, between: str
) -> None:
    dimension = kind("t", start, lag="3h")
    shown = dimension.span(start)[1] + timedelta(hours=3)
    assert list(dimension.keys(shown - timedelta(microseconds=1))) == []
    assert list(dimension.keys(shown)) == [start]


@pytest.mark.parametrize(("kind", "start", "end", "between"), KINDS)
def test_before_the_start_nothing_exists(
    kind: type[TimeDimension], start: str, end: str, between: str
) -> None:
    assert list(kind("t", start).keys(datetime(2020, 1, 1, tzinfo=UTC))) == []


@pytest.mark.parametrize(("kind", "start", "end", "between"), KINDS)
def test_an_end_that_is_not_after_the_start_is_refused(
    kind: type[TimeDimension], start: str, end: str, between: str
) -> None:
    for too_early in (start, between):
        with pytest.raises(Invalid, match="the end is exclusive, write end='20"):
            kind("t", between, too_early)


@pytest.mark.parametrize("kind", [Hourly, Daily, Weekly, Monthly])
def test_bad_settings_are_refused_with_an_example(kind: type[TimeDimension]) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"name": "d s"}, "such as 'ds'"),
        ({"name": ""}, "such as 'ds'"),
        ({"name": 5}, "such as 'ds'"),
        ({"tz": "Europe/Pariss"}, "'Europe/Paris'"),
        ({"tz": "../etc/passwd"}, "'Europe/Paris'"),
        ({"tz": "Europe"}, "'Europe/Paris'"),
        ({"tz": None}, "'Europe/Paris'"),
        ({"tz": []}, "'Europe/Paris'"),
        ({"lag": "3 hours"}, "'3h'"),
        ({"lag": 3}, "'3h'"),
        ({"start": "yesterday"}, f"write it as '{kind.example}'"),
        ({"start": ""}, f"write it as '{kind.example}'"),
        ({"start": 2026}, f"write it as '{kind.example}'"),
        ({"start": None}, f"write it as '{kind.example}'"),
        ({"start": date(1, 1, 1)}, "of the years 1000 to 9998"),
        ({"end": "2026-13-01"}, f"write it as '{kind.example}'"),
    ]
    for settings, message in bad:
        with pytest.raises(Invalid, match=message):
            kind(**{"name": "t", "start": date(2024, 1, 1), **settings})


@pytest.mark.parametrize("kind", [Hourly, Daily, Weekly, Monthly])
def test_a_moment_needs_a_zone(kind: type[TimeDimension]) -> None:
    dimension = kind("t", date(2024, 1, 1))
    for naive in (NAIVE, datetime.max.replace(tzinfo=UTC), "2026-01-01"):
        with pytest.raises(Invalid, match="tzinfo=UTC"):
            dimension.at(naive)  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="tzinfo=UTC"):
            dimension.keys(naive)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "start",
    [
        "2026-01-01",
        "2026-01-01T00:00",
        date(2026, 1, 1),
        NAIVE,
        datetime(2025, 12, 31, 23, tzinfo=UTC),
        datetime(2025, 12, 31, 18, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_a_start_means_the_same_however_it_is_given(start: str | date) -> None:
    assert Daily("t", start, tz="Europe/Paris") == Daily("t", "2026-01-01", tz="Europe/Paris")
    assert Hourly("t", start, tz="Europe/Paris") == Hourly("t", "2026-01-01T00", tz="Europe/Paris")
    assert Monthly("t", start, tz="Europe/Paris") == Monthly("t", "2026-01", tz="Europe/Paris")


@pytest.mark.parametrize(
    ("kind", "start", "message"),
    [
        (Weekly, "2026-01-15", "write start='2026-W03' or start='2026-W04'"),
        (Monthly, "2026-01-15", "write start='2026-01' or start='2026-02'"),
        (Daily, "2026-01-15T06", "write start='2026-01-15' or start='2026-01-16'"),
        (Hourly, "2026-01-15T06:30", "write start='2026-01-15T06' or start='2026-01-15T07'"),
    ],
)
def test_a_start_within_a_partition_is_refused(
    kind: type[TimeDimension], start: str, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        kind("t", start)


def test_each_is_a_dimension() -> None:
    dimensions: list[Dimension] = [
        Hourly("t", "2026-01-01"),
        Daily("t", "2026-01-01"),
        Weekly("t", "2026-W01"),
        Monthly("t", "2026-01"),
    ]
    assert [len(dimension.keys(NOW)) for dimension in dimensions] == [7668, 319, 46, 10]
