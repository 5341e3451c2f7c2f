"""The product of dimensions."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.events.partition_key import canonical_partition_key
from arco.flow.partition import Daily, Dynamic, Hourly, Monthly, Partitions, Static, Weekly
from tests.flow.partition.cases import NOW

DS = Daily("ds", "2026-01-01", "2026-01-04")
REGION = Static("region", ["us", "eu"])
BOTH = Partitions([REGION, DS])


def test_the_order_of_the_dimensions_means_nothing() -> None:
    assert Partitions([DS, REGION]) == BOTH
    assert BOTH.names == ("ds", "region")
    assert Partitions(DS) == Partitions([DS])


def test_keys_come_by_the_first_dimension_then_by_the_next() -> None:
    days, regions = ["2026-01-01", "2026-01-02", "2026-01-03"], ["eu", "us"]
    expected = [f"ds={day}/region={region}" for day, region in product(days, regions)]
    keys = BOTH.keys(NOW)
    assert list(keys) == expected
    assert list(reversed(keys)) == expected[::-1]
    assert len(keys) == 6


def test_dimensions_stand_as_in_a_key_of_the_events() -> None:
    names = Partitions([Static("a", ["x"]), Static("a1", ["x"]), Static("a_b", ["x"])])
    (key,) = names.keys(NOW)
    assert key == canonical_partition_key(key) == "a1=x/a=x/a_b=x"
    assert names.names == ("a1", "a", "a_b")


def test_an_asset_of_one_piece_has_the_empty_key() -> None:
    unpartitioned = Partitions()
    assert not unpartitioned
    assert list(unpartitioned.keys(NOW)) == [""]
    assert "" in unpartitioned
    assert "ds=2026-01-01" not in unpartitioned
    for text in ("", "all", "latest"):
        assert list(unpartitioned.parse(text, NOW)) == [""]
    with pytest.raises(Invalid, match="not partitioned, write 'all'"):
        unpartitioned.parse("2026-01-01", NOW)


def test_a_key_belongs_if_each_value_does_and_it_is_spelled_so() -> None:
    assert "ds=2026-01-01/region=eu" in BOTH
    for other in (
        "region=eu/ds=2026-01-01",
        "ds=2026-01-04/region=eu",
        "ds=2025-12-31/region=eu",
        "ds=2026-01-01/region=uk",
        "ds=2026-01-01",
        "ds=2026-01-01/region=eu/x=1",
        "",
        5,
    ):
        assert other not in BOTH
        assert other not in BOTH.keys(NOW)


def test_a_key_belongs_before_it_exists() -> None:
    early = datetime(2026, 1, 2, tzinfo=UTC)
    assert "ds=2026-01-03/region=eu" in BOTH
    assert "ds=2026-01-03/region=eu" not in BOTH.keys(early)


def test_the_values_of_a_key_are_reported() -> None:
    assert BOTH.values("ds=2026-01-01/region=eu") == {"ds": "2026-01-01", "region": "eu"}
    with pytest.raises(Invalid, match=r"'ds=\.\.\./region=\.\.\.'"):
        BOTH.values("ds=2026-01-01")


def test_a_dynamic_dimension_takes_part() -> None:
    by_customer = Partitions([DS, Dynamic("customer")])
    keys = by_customer.keys(NOW, {"customer": ("a/b",)})
    assert next(iter(keys)) == "customer=a%2Fb/ds=2026-01-01"
    assert len(by_customer.keys(NOW)) == 0


@pytest.mark.parametrize("given", ["ds", [DS, DS], [DS, "region"], 5, None, [None]])
def test_what_are_no_dimensions_is_refused_with_an_example(given: Any) -> None:
    with pytest.raises(Invalid, match=r"write Partitions\(\[Daily\('ds'"):
        Partitions(given)


DAYS = Partitions([Daily("ds", "2026-01-01")])
DAYS_AND_REGIONS = Partitions([Daily("ds", "2026-01-01"), Static("region", ["eu", "us"])])
JANUARY_3 = datetime(2026, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("2026-01-02", ["ds=2026-01-02"]),
        ("ds=2026-01-02", ["ds=2026-01-02"]),
        ("2026-01-01..2026-01-02", ["ds=2026-01-01", "ds=2026-01-02"]),
        ("2026-01-02..", ["ds=2026-01-02", "ds=2026-01-03"]),
        ("..2026-01-02", ["ds=2026-01-01", "ds=2026-01-02"]),
        ("ds=2026-01-03,ds=2026-01-01", ["ds=2026-01-01", "ds=2026-01-03"]),
        ("2026-01-03, 2026-01-01", ["ds=2026-01-01", "ds=2026-01-03"]),
        ("2026-01-01,2026-01-01..2026-01-02", ["ds=2026-01-01", "ds=2026-01-02"]),
        ("latest", ["ds=2026-01-03"]),
        ("ds=latest", ["ds=2026-01-03"]),
        ("all", ["ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-03"]),
        ("ds=all", ["ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-03"]),
    ],
)
def test_days_are_chosen(text: str, keys: list[str]) -> None:
    assert list(DAYS.parse(text, JANUARY_3)) == keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("ds=2026-01-02..2026-01-03/region=eu", ["02/region=eu", "03/region=eu"]),
        ("region=eu/ds=2026-01-02", ["02/region=eu"]),
        ("ds=2026-01-02", ["02/region=eu", "02/region=us"]),
        ("region=us", ["01/region=us", "02/region=us", "03/region=us"]),
        ("latest", ["03/region=eu", "03/region=us"]),
        ("ds=latest/region=us,ds=2026-01-01/region=eu", ["01/region=eu", "03/region=us"]),
        ("region=eu/ds=2026-01-02,ds=2026-01-02", ["02/region=eu", "02/region=us"]),
    ],
)
def test_a_product_is_chosen_by_name(text: str, keys: list[str]) -> None:
    assert list(DAYS_AND_REGIONS.parse(text, JANUARY_3)) == [f"ds=2026-01-{key}" for key in keys]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty term, or no text at all: write 'ds=2026-01-15'"),
        ("2026-01-01,,2026-01-02", "empty term"),
        ("2026-01-02..2026-01-01", r"runs backwards: write '2026-01-01\.\.2026-01-02'"),
        ("2025-12-31", "before the first one: write '2026-01-01' or later"),
        ("2025-12-31..2026-01-02", "before the first one"),
        ("2026-01-04", "not complete at 2026-01-04T00:00:00.*: write '2026-01-03' or earlier"),
        ("2026-01-01..2026-01-31", "not complete"),
        ("2026-1-1", "is not a day of dimension 'ds': write it as '2026-01-15'"),
        ("2026-02-30", "the calendar has no such: write it as '2026-01-15'"),
        ("2026-01-01..x", "'x' is not a day"),
        ("2026-01-01...2026-01-02", "'.2026-01-02' is not a day"),
        ("day=2026-01-01", "names 'day', and the dimensions are 'ds': write 'ds=2026-01-15'"),
        ("ds=2026-01-01/ds=2026-01-02", "each name once"),
        ("ds=2026-01-01/2026-01-02", "each name once: write 'ds=2026-01-15'"),
        ("=2026-01-01", "each name once"),
        ("newest", "'newest' is not a day"),
    ],
)
def test_what_chooses_nothing_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        DAYS.parse(text, JANUARY_3)


def test_a_bare_value_must_not_leave_open_which_dimension_is_meant() -> None:
    with pytest.raises(Invalid, match=r"does not name one.*'ds=2026-01-15/region=eu'"):
        DAYS_AND_REGIONS.parse("2026-01-01", JANUARY_3)


@pytest.mark.parametrize("text", [None, 5, ["2026-01-01"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(Invalid, match="write 'all'"):
        DAYS.parse(text, JANUARY_3)


def test_after_the_end_there_is_nothing_to_choose() -> None:
    ended = Partitions([Daily("ds", "2026-01-01", "2026-01-03")])
    with pytest.raises(Invalid, match="after the last one: write '2026-01-02' or earlier"):
        ended.parse("2026-01-03", NOW)


def test_before_anything_exists_all_is_nothing_and_latest_is_refused() -> None:
    early = datetime(2026, 1, 1, tzinfo=UTC)
    assert list(DAYS.parse("all", early)) == []
    assert not DAYS.parse("..", early)
    for text in ("latest", "ds=latest"):
        with pytest.raises(Invalid, match="no partition of dimension 'ds' exists yet"):
            DAYS.parse(text, early)
    with pytest.raises(Invalid, match="none is: write 'all'"):
        DAYS.parse("2026-01-01", early)


def test_latest_needs_time() -> None:
    with pytest.raises(Invalid, match=r"needs a dimension of time.*'region': write 'all'"):
        Partitions([Static("region", ["eu"])]).parse("latest", NOW)


def test_only_time_has_ranges() -> None:
    odd = Partitions([Static("v", ["a", "b", "c", "a..c"])])
    assert list(odd.parse("v=a..c", NOW)) == list(odd.parse("a..c", NOW)) == ["v=a..c"]
    with pytest.raises(Invalid, match=r"'a\.\.b' is not a value"):
        odd.parse("a..b", NOW)


def test_a_value_that_is_also_a_word_is_chosen_by_name() -> None:
    odd = Partitions([Static("v", ["all", "latest", "x"])])
    assert list(odd.parse("v=all", NOW)) == ["v=all"]
    assert list(odd.parse("v=latest", NOW)) == ["v=latest"]
    assert len(odd.parse("all", NOW)) == 3


def test_commas_and_slashes_in_a_value_are_written_as_in_a_url() -> None:
    odd = Partitions([Static("v", ["a", "b", "a,b", "a/b", "a=b"])])
    assert list(odd.parse("v=a,v=b", NOW)) == ["v=a", "v=b"]
    assert list(odd.parse("a,b", NOW)) == ["v=a", "v=b"]
    assert list(odd.parse("v=a%2Cb,v=a", NOW)) == ["v=a", "v=a,b"]
    assert list(odd.parse("a/b,v=a%2Fb", NOW)) == ["v=a%2Fb"]
    assert list(odd.parse("v=a=b", NOW)) == ["v=a=b"]


@pytest.mark.parametrize(
    ("partitions", "text", "count"),
    [
        (
            Partitions([Hourly("h", "2026-01-01", tz="Europe/Paris")]),
            "2026-10-25T02..2026-10-25T03",
            3,
        ),
        (Partitions([Weekly("w", "2025-W50")]), "2025-W52..2026-W02", 3),
        (Partitions([Monthly("m", "2025-01")]), "2025-11..2026-02", 4),
    ],
)
def test_ranges_include_both_ends_in_every_grain(
    partitions: Partitions, text: str, count: int
) -> None:
    assert len(partitions.parse(text, NOW)) == count


@given(st.text(st.sampled_from("ab/=%,.2 é"), min_size=1, max_size=6).filter(str.strip))
def test_every_key_chooses_itself(value: str) -> None:
    odd = Partitions([Static("v", {value, "a", "b", "a,b"}), Daily("ds", "2026-01-01")])
    for key in odd.parse("ds=2026-01-05", NOW):
        assert list(odd.parse(key, NOW)) == [key]
