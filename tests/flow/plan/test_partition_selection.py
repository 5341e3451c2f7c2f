"""One text chooses partitions of assets that are cut in different ways."""

from datetime import UTC, datetime

import pytest

from arco.core.errors import Invalid
from arco.flow.partition import Daily, Dynamic, Hourly, Monthly, Partitions, Static, Weekly
from arco.flow.plan.partition_selection import select_partitions_of_all

NOW = datetime(2026, 2, 11, 5, tzinfo=UTC)  # a Wednesday
PARIS = "Europe/Paris"
DAYS = Partitions(Daily("ds", "2026-01-01"))
HOURS = Partitions(Hourly("hour", "2026-01-01T00", tz=PARIS))
WEEKS = Partitions(Weekly("week", "2026-W01"))
MONTHS = Partitions(Monthly("month", "2025-11"))
REGIONS = Partitions(Static("region", ["eu", "us"]))
BY_REGION = Partitions([Daily("ds", "2026-01-01"), Static("region", ["eu", "us"])])
WHOLE = Partitions()


def chosen(text: str | None, *cuts: Partitions) -> list[list[str]]:
    partition_sets = select_partitions_of_all(text, cuts, NOW, {"customer": ("acme", "zoo")})
    return [list(each) for each in partition_sets]


def test_nothing_and_all_choose_what_exists() -> None:
    for text in (None, "all"):
        days, weeks, unpartitioned = chosen(text, DAYS, WEEKS, WHOLE)
        assert (len(days), len(weeks), unpartitioned) == (41, 6, [""])


def test_a_range_of_days_chooses_what_shares_a_moment_with_it() -> None:
    days, weeks, months, hours, unpartitioned = chosen(
        "2026-01-30..2026-02-02", DAYS, WEEKS, MONTHS, HOURS, WHOLE
    )
    assert days == [f"ds=2026-{day}" for day in ("01-30", "01-31", "02-01", "02-02")]
    assert weeks == ["week=2026-W05", "week=2026-W06"]
    assert months == ["month=2026-01"]  # February is not over
    assert (hours[0], hours[-1], len(hours)) == (
        "hour=2026-01-30T00",
        "hour=2026-02-02T23",
        4 * 24,
    )
    assert unpartitioned == [""]


def test_weeks_months_and_hours_choose_days() -> None:
    assert chosen("2026-W02", DAYS)[0] == [f"ds=2026-01-{day:02}" for day in range(5, 12)]
    assert chosen("2026-01", DAYS)[0] == [f"ds=2026-01-{day:02}" for day in range(1, 32)]
    assert chosen("2026-01-05T23..2026-01-06T01", DAYS)[0] == ["ds=2026-01-05", "ds=2026-01-06"]
    assert chosen("ds=2026-01-31..", DAYS, MONTHS)[1] == ["month=2026-01"]


def test_a_name_is_translated_where_an_asset_has_another_for_time() -> None:
    days, weeks, both, regions = chosen("ds=2026-01-07/region=eu", DAYS, WEEKS, BY_REGION, REGIONS)
    assert (days, weeks) == (["ds=2026-01-07"], ["week=2026-W02"])
    assert (both, regions) == (["ds=2026-01-07/region=eu"], ["region=eu"])


def test_what_is_not_spoken_of_is_taken_whole() -> None:
    assert chosen("2026-01-07", DAYS, REGIONS, BY_REGION)[1:] == [
        ["region=eu", "region=us"],
        ["ds=2026-01-07/region=eu", "ds=2026-01-07/region=us"],
    ]
    assert len(chosen("region=eu", DAYS, REGIONS)[0]) == 41


def test_a_value_of_a_list_needs_no_name() -> None:
    assert chosen("eu", REGIONS) == [["region=eu"]]
    assert chosen("zoo", Partitions(Dynamic("customer"))) == [["customer=zoo"]]
    days, both = chosen("eu", DAYS, BY_REGION)
    assert (len(days), len(both)) == (41, 41)


def test_several_are_joined_and_latest_is_each_ones_own() -> None:
    assert chosen("ds=2026-01-01,2026-01-03, 2026-01-02", DAYS) == [
        ["ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-03"]
    ]
    assert chosen("latest", DAYS, WEEKS, MONTHS, REGIONS, WHOLE) == [
        ["ds=2026-02-10"],
        ["week=2026-W06"],
        ["month=2026-01"],
        ["region=eu", "region=us"],
        [""],
    ]
    assert chosen("ds=latest/region=us", BY_REGION) == [["ds=2026-02-10/region=us"]]


def test_a_key_chooses_itself_though_it_has_a_comma() -> None:
    lists = Partitions(Static("region", ["a", "b", "a,b", " c, all"]))
    for key in lists.keys(NOW):
        assert chosen(key, lists) == [[key]]
    assert chosen("region=a,b", lists, DAYS)[0] == ["region=a,b"]
    assert chosen("region=b,a", lists) == [["region=a", "region=b"]]
    assert chosen("region=a,b", Partitions(Static("region", ["a", "b"]))) == [
        ["region=a", "region=b"]
    ]


def test_an_asset_that_begins_later_takes_its_part() -> None:
    later = Partitions(Daily("ds", "2026-01-31"))
    days, fewer, none = chosen(
        "2026-01-30..2026-02-01", DAYS, later, Partitions(Daily("ds", "2026-02-05"))
    )
    assert len(days) == 3
    assert fewer == ["ds=2026-01-31", "ds=2026-02-01"]
    assert none == []


@pytest.mark.parametrize(
    ("text", "cuts", "why"),
    [
        ("2025-12-31", [DAYS], "before the first one: write '2026-01-01' or later"),
        ("2026-01-30..2026-02-11", [DAYS], "'2026-02-11'.* not complete.*write '2026-02-10'"),
        ("2026-02-11", [DAYS, WHOLE], "not complete"),
        ("2026-02-12", [WEEKS], "'2026-02-12' of dimension 'week' is not complete"),
        ("2020-01-01..2020-02-01", [WEEKS, MONTHS], "before the first one"),
        ("2026-01-05..2026-01-02", [DAYS], "backwards: write '2026-01-02..2026-01-05'"),
        ("2026-01-05..2026-01-02", [WEEKS], "backwards"),
        ("2026-13-01", [DAYS], "is not a day of dimension 'ds', the calendar has no such"),
        ("2026-03-29T02", [HOURS], "the clocks of Europe/Paris skip it"),
        ("yesterday", [DAYS], "is not a day of dimension 'ds'"),
        ("de", [REGIONS], "not a value of dimension 'region': write one of 'eu', 'us'"),
        ("region=de", [REGIONS, BY_REGION], "not a value"),
        ("foo=1", [DAYS, REGIONS], "names 'foo', and the dimensions are 'ds', 'region'"),
        ("ds=2026-01-01,", [DAYS], "empty term"),
        ("ds=1/ds=2", [DAYS], "each name once"),
        ("nonsense", [WHOLE], "nothing is partitioned, write 'all'"),
        (
            "2026-01-02",
            [Partitions([Daily("a", "2026-01-01"), Daily("b", "2026-01-01")])],
            "does not name one of",
        ),
    ],
)
def test_what_chooses_nothing_says_what_would(text: str, cuts: list[Partitions], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        chosen(text, *cuts)


@pytest.mark.parametrize("text", ["2026-02-30", "2026-13-01", "2026-01-01..2026-02-30"])
def test_a_day_that_is_none_is_reported_of_the_dimension_of_time(text: str) -> None:
    for cuts in ([BY_REGION], [DAYS, REGIONS]):
        with pytest.raises(Invalid, match="ds"):
            chosen(text, *cuts)
    with pytest.raises(Invalid, match="region"):
        chosen(text, REGIONS)


def test_a_value_of_a_list_may_look_like_a_day() -> None:
    odd = Partitions([Daily("ds", "2026-02-09"), Static("batch", ["2026-02-30"])])
    assert chosen("2026-02-30", odd) == [
        ["batch=2026-02-30/ds=2026-02-09", "batch=2026-02-30/ds=2026-02-10"]
    ]
