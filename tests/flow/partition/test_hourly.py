"""Hours, above all those at which clocks change."""

import pytest

from arco.core.errors import Invalid
from arco.flow.partition import Daily, Hourly
from tests.flow.partition.cases import NOW

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
