"""Days, weeks and months where calendars are odd."""

from datetime import UTC, datetime, timedelta

import pytest

from arco.core.errors import Invalid
from arco.flow.partition import Daily, Hourly, Monthly, Weekly
from arco.flow.partition.time_dimension import TimeDimension
from tests.flow.partition.cases import NOW

DAYS = Daily("ds", "2020-01-01", tz="Europe/Paris")


def hours(dimension: TimeDimension, key: str) -> float:
    start, end = dimension.span(key)
    return (end - start) / timedelta(hours=1)


def test_days_have_23_to_25_hours_where_clocks_change() -> None:
    assert [hours(DAYS, f"2026-{day}") for day in ("03-29", "03-30", "10-25")] == [23, 24, 25]


def test_a_day_begins_at_midnight_there() -> None:
    assert DAYS.span("2026-01-15")[0] == datetime(2026, 1, 14, 23, tzinfo=UTC)
    assert DAYS.at(datetime(2026, 1, 14, 23, tzinfo=UTC)) == "2026-01-15"
    assert DAYS.at(datetime(2026, 1, 14, 22, 59, tzinfo=UTC)) == "2026-01-14"


def test_weeks_and_months_lose_and_gain_an_hour_with_the_clocks() -> None:
    assert hours(Weekly("w", "2020-W02", tz="Europe/Paris"), "2026-W13") == 7 * 24 - 1
    assert hours(Monthly("m", "2020-01", tz="Europe/Paris"), "2026-10") == 31 * 24 + 1


@pytest.mark.parametrize(
    ("day", "week"),
    [
        ("2025-12-28", "2025-W52"),
        ("2025-12-29", "2026-W01"),
        ("2026-01-04", "2026-W01"),
        ("2026-01-05", "2026-W02"),
        ("2026-12-31", "2026-W53"),
        ("2027-01-03", "2026-W53"),
        ("2027-01-04", "2027-W01"),
    ],
)
def test_a_week_belongs_to_the_year_of_its_thursday(day: str, week: str) -> None:
    assert Weekly("w", "2020-W02").at(datetime.fromisoformat(f"{day}T12:00+00:00")) == week


def test_months_are_as_long_as_they_are() -> None:
    months = Monthly("m", "2020-01")
    lengths = [hours(months, key) / 24 for key in ("2023-02", "2024-02", "2026-12")]
    assert lengths == [28, 29, 31]


def test_a_day_without_a_midnight_begins_when_the_clocks_resume() -> None:
    cairo = Daily("ds", "2020-01-01", tz="Africa/Cairo")
    assert hours(cairo, "2026-04-24") == 23
    assert cairo.at(cairo.span("2026-04-24")[0]) == "2026-04-24"


def test_a_day_that_a_zone_has_skipped_is_empty() -> None:
    apia = Daily("ds", "2011-01-01", tz="Pacific/Apia")
    start, end = apia.span("2011-12-30")
    assert start == end
    assert apia.at(start) == "2011-12-31"


def test_clocks_that_go_back_over_midnight_do_not_reopen_the_day_before() -> None:
    """St John's went back from 00:01 to 23:01."""
    days = Daily("ds", "2000-01-01", tz="America/St_Johns")
    shown_as_28th_again = datetime(2006, 10, 29, 2, 45, tzinfo=UTC)
    assert shown_as_28th_again.astimezone(days.zone).day == 28
    assert days.at(shown_as_28th_again) == "2006-10-29"


def test_clocks_that_go_forward_over_midnight_leave_each_moment_in_one_day() -> None:
    """Toronto went forward from 23:30 to 00:30."""
    days = Daily("ds", "1919-01-01", tz="America/Toronto")
    soon_after = datetime(1919, 3, 31, 4, 45, tzinfo=UTC)
    assert soon_after.astimezone(days.zone).day == 31
    start, end = days.span(days.at(soon_after))
    assert start <= soon_after < end


@pytest.mark.parametrize(
    ("dimension", "keys"),
    [
        (DAYS, ["2026-02-30", "2026-1-5", "20260105", "2026-01", "2026-W03", "0999-01-01"]),
        (Weekly("w", "2020-W02"), ["2025-W53", "2026-W00", "2026-W3", "2026W03", "2026-01-05"]),
        (Monthly("m", "2020-01"), ["2026-13", "2026-00", "2026-1", "2026-01-01", "9999-01"]),
    ],
)
def test_what_is_no_key_is_refused_with_an_example(
    dimension: TimeDimension, keys: list[str]
) -> None:
    for key in ["", "2026-01-15T06", *keys]:
        with pytest.raises(Invalid, match=f"write it as '{dimension.example}'"):
            dimension.span(key)
        assert key not in dimension
        assert key not in dimension.keys(NOW)


PARIS = Hourly("hour", "2026-01-01", tz="Europe/Paris")


def hours_of(day: str, tz: str = "Europe/Paris") -> list[str]:
    start, end = Daily("ds", "2020-01-01", tz=tz).span(day)
    hours = Hourly("hour", "2020-01-01", tz=tz)
    keys = [hours.at(start)]
    while hours.span(keys[-1])[1] < end:
        keys.append(hours.at(hours.span(keys[-1])[1]))
    return keys


def test_the_day_on_which_clocks_go_forward_has_23_hours_and_no_skipped_one() -> None:
    hours = hours_of("2026-03-29")
    assert len(hours) == 23
    assert hours[1:4] == ["2026-03-29T01", "2026-03-29T03", "2026-03-29T04"]


def test_the_day_on_which_clocks_go_back_has_25_hours_with_names_of_their_own() -> None:
    hours = hours_of("2026-10-25")
    assert len(set(hours)) == 25
    assert hours[1:5] == ["2026-10-25T01", "2026-10-25T02", "2026-10-25T02+0100", "2026-10-25T03"]
    assert hours == sorted(hours)


def test_west_of_greenwich_the_repeated_hour_sorts_after_the_first_as_well() -> None:
    hours = hours_of("2026-11-01", "America/New_York")
    assert hours[1:4] == ["2026-11-01T01", "2026-11-01T01-0500", "2026-11-01T02"]
    assert hours == sorted(hours)


def test_the_two_hours_that_look_alike_follow_each_other() -> None:
    first, second = PARIS.span("2026-10-25T02"), PARIS.span("2026-10-25T02+0100")
    assert [moment.hour for moment in (*first, *second)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("2026-03-29T02", "the clocks of Europe/Paris skip it"),
        ("2026-10-25T02+0200", "only the second of two hours"),
        ("2026-10-25T03+0100", "only the second of two hours"),
        ("2026-01-15T24", "the calendar has no such"),
        ("2026-02-30T01", "the calendar has no such"),
        ("2026-01-15", "is not an hour"),
        ("2026-01-15T6", "is not an hour"),
        ("2026-01-15T06:00", "is not an hour"),
        ("2026-01-15T06\n", "is not an hour"),
        ("٢٠٢٦-01-15T06", "is not an hour"),
        ("0999-01-15T06", "is not an hour"),
        ("9999-01-15T06", "is not an hour"),
    ],
)
def test_what_is_no_hour_is_refused_with_an_example(key: str, why: str) -> None:
    with pytest.raises(Invalid, match=f"{why}.*write it as '2026-01-15T06'"):
        PARIS.span(key)
    assert key not in PARIS
    assert key not in PARIS.keys(NOW)


def test_hours_of_india_begin_at_half_past_in_utc() -> None:
    start, end = Hourly("hour", "2026-01-01", tz="Asia/Kolkata").span("2026-01-15T06")
    assert (start.hour, start.minute, end.hour, end.minute) == (0, 30, 1, 30)


def test_a_zone_that_moves_by_half_an_hour_has_no_hours() -> None:
    with pytest.raises(Invalid, match="by a part of an hour after 2026; use tz='UTC'"):
        Hourly("hour", "2026-01-01", tz="Australia/Lord_Howe")


def test_such_a_move_before_the_start_does_not_matter() -> None:
    assert Hourly("hour", "2017-01-01", tz="America/Caracas").keys(NOW)[0] == "2017-01-01T00"
    with pytest.raises(Invalid, match="by a part of an hour"):
        Hourly("hour", "2015-01-01", tz="America/Caracas")
