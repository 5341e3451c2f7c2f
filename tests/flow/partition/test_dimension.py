"""Values that are listed, in the code or by facts."""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

import pytest

from arco.core.errors import Invalid
from arco.flow.partition import (
    Dynamic,
    MappingContext,
    Partitions,
    Static,
    checked_dynamic_values,
    identity,
    window,
)
from arco.flow.partition.dimension import Keys
from tests.flow.partition.cases import FAR, NOW, Watched, looked_at

ODD = ["a/b", "a=b", "50%", "%2F", "2026-01-01..2026-01-05", "all", "latest", "a,b", "a", " ", "é"]


def test_values_are_in_the_order_of_their_text_an_attempt_that_wrote_them() -> None:
    static = Static("region", ["us", "eu", "ap"])
    assert static == Static("region", ("ap", "us", "eu"))
    assert list(static.keys(NOW)) == ["ap", "eu", "us"]
    assert "eu" in static
    assert "uk" not in static


def test_dynamic_values_are_those_that_are_reported() -> None:
    customers = Dynamic("customer")
    assert list(customers.keys(NOW, {"customer": ("acme", "zoo"), "other": ("x",)})) == [
        "acme",
        "zoo",
    ]
    assert list(customers.keys(NOW)) == []


def test_any_value_may_become_a_dynamic_one() -> None:
    assert "customer=new" in Partitions([Dynamic("customer")])
    assert "customer=" not in Partitions([Dynamic("customer")])


def test_values_that_are_known_are_checked_once_and_mean_the_same() -> None:
    customers = Dynamic("customer")
    checked = checked_dynamic_values({"customer": ["zoo", "acme"]})
    assert customers.axis(checked) == customers.axis({"customer": ["zoo", "acme"]})
    assert customers.axis(checked).values is checked["customer"]
    with pytest.raises(Invalid, match="is listed twice"):
        checked_dynamic_values({"customer": ["zoo", "zoo"]})


@pytest.mark.parametrize("values", [[], "eu", ["eu", "eu"], [""], ["a\0"], [1], [None]])
def test_bad_values_are_refused_with_an_example(values: Any) -> None:
    with pytest.raises(Invalid, match=r"\['eu', 'us'\]"):
        Static("region", values)


@pytest.mark.parametrize("values", ["eu", ["eu", "eu"], [""], [1]])
def test_so_are_bad_values_that_are_reported(values: Any) -> None:
    with pytest.raises(Invalid, match=r"\['eu', 'us'\]"):
        Dynamic("region").keys(NOW, {"region": values})


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a/b", "1a", None])
def test_a_name_must_be_able_to_name_a_column(name: Any) -> None:
    for make in (Dynamic, lambda given: Static(given, ["eu"])):
        with pytest.raises(Invalid, match="such as 'ds'"):
            make(name)


@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_has_a_key_that_chooses_it_alone(value: str) -> None:
    odd = Partitions([Static("v", ODD)])
    keys = list(odd.keys(NOW))
    key = next(key for key in keys if odd.values(key) == {"v": value})
    assert key in odd
    assert list(odd.parse(key, NOW)) == [key]


def test_slashes_and_percent_signs_in_values_are_escaped() -> None:
    odd = Partitions([Static("v", ["a/b", "50%", "x=y"])])
    assert list(odd.keys(NOW)) == ["v=50%25", "v=a%2Fb", "v=x=y"]
    assert "v=a/b" not in odd
    assert "v=50%" not in odd


def test_an_unknown_value_is_refused_with_the_known_ones() -> None:
    many = Partitions([Static("region", [f"r{number}" for number in range(9)])])
    with pytest.raises(Invalid, match=r"'uk' is not a value.*'r0', 'r1'.*\(of 9\)"):
        many.parse("region=uk", NOW)
    with pytest.raises(Invalid, match="it has none yet"):
        Partitions([Dynamic("customer")]).parse("customer=acme", NOW)


HOURS = Watched("hour", "1996-01-01", tz="Europe/Paris")
# In Paris the first hour of 9990 is over when the year begins in UTC.
HOURS_UNTIL_FAR = (date(9990, 1, 1) - date(1996, 1, 1)).days * 24 + 1
BY_HOUR = Partitions([HOURS])


@pytest.fixture
def looks() -> Iterator[list[int]]:
    yield from looked_at()


def test_length_place_and_membership_look_at_a_few_keys(looks: list[int]) -> None:
    keys = HOURS.keys(FAR)
    assert len(keys) == HOURS_UNTIL_FAR
    assert keys.index("2026-01-15T06") == 263_334
    assert "2026-01-15T06" in keys
    assert "1995-12-31T23" not in keys
    assert keys[263_334] == "2026-01-15T06"
    assert keys[-1] == "9990-01-01T00"
    assert len(looks) < 12


def test_a_slice_is_as_lazy_as_the_whole(looks: list[int]) -> None:
    half = HOURS.keys(FAR)[::2]
    assert (len(half), half[131_667]) == (HOURS_UNTIL_FAR // 2 + 1, "2026-01-15T06")
    assert "2026-01-15T06" in half
    assert "2026-01-15T07" not in half
    assert len(looks) < 8


def test_a_range_of_all_of_it_is_parsed_without_a_walk(looks: list[int]) -> None:
    chosen = BY_HOUR.parse("1996-01-01T00..9989-12-31T23", FAR)
    assert len(chosen) == len(BY_HOUR.keys(FAR)) - 1
    assert "hour=2026-01-15T06" in chosen
    assert len(looks) < 12


def test_a_window_of_a_few_hours_looks_at_these_alone(looks: list[int]) -> None:
    read = window(3).upstream("hour=2026-01-15T06", MappingContext(BY_HOUR, BY_HOUR, FAR))
    assert read == ("hour=2026-01-15T04", "hour=2026-01-15T05", "hour=2026-01-15T06")
    affected = window(3).downstream("hour=2026-01-15T06", MappingContext(BY_HOUR, BY_HOUR, FAR))
    assert affected == ("hour=2026-01-15T06", "hour=2026-01-15T07", "hour=2026-01-15T08")
    assert len(looks) < 20


def test_a_window_of_a_million_hours_is_a_range(looks: list[int]) -> None:
    read = window(1_000_000).upstream_set(
        "hour=9000-01-15T06", MappingContext(BY_HOUR, BY_HOUR, FAR)
    )
    assert len(read) == 1_000_000
    assert "hour=9000-01-15T06" in read
    assert "hour=2026-01-15T06" not in read
    assert len(looks) < 12


def test_the_first_keys_of_a_product_need_no_others(looks: list[int]) -> None:
    both = Partitions([HOURS, Static("region", ["eu", "us"])])
    keys = both.keys(FAR)
    walk = iter(keys)
    assert [next(walk) for _ in range(3)] == [
        "hour=1996-01-01T00/region=eu",
        "hour=1996-01-01T00/region=us",
        "hour=1996-01-01T01/region=eu",
    ]
    assert next(reversed(keys)) == "hour=9990-01-01T00/region=us"
    assert len(keys) == 2 * len(HOURS.keys(FAR))
    assert identity.upstream("hour=2026-01-15T06/region=eu", MappingContext(both, both, FAR)) == (
        "hour=2026-01-15T06/region=eu",
    )
    assert len(looks) < 16


class Numbers:
    """An axis of more values than can be walked over."""

    def value(self, position: int) -> str:
        return str(position)

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        return map(self.value, positions)

    def position(self, value: str) -> int:
        if not value.isdecimal():
            raise Invalid(f"{value!r} is not a number")
        return int(value)


def test_what_is_no_key_is_reported_apart_without_a_walk() -> None:
    keys = Keys(Numbers(), range(10**15))
    assert "x" not in keys
    assert str(10**15) not in keys
    assert str(10**15 - 1) in keys
    with pytest.raises(ValueError, match="not among"):
        keys.index("x")


def test_the_watch_sees_a_walk(looks: list[int]) -> None:
    keys = HOURS.keys(NOW)[:100]  # looks where they begin and end, unless that is known by now
    looks.clear()
    assert len(list(keys)) == len(looks) == 100


def test_keys_are_a_sequence_like_a_list_of_them() -> None:
    keys = HOURS.keys(NOW)[:50]
    listed = list(keys)
    assert [keys[at] for at in range(50)] == listed
    assert list(keys[10:40:7]) == listed[10:40:7]
    assert list(keys[::-1]) == list(reversed(keys)) == listed[::-1]
    assert [keys.index(key) for key in listed] == list(range(50))
    assert (keys.count(listed[3]), keys.count("x")) == (1, 0)
    assert keys.index(listed[3], 2, 5) == 3
    with pytest.raises(ValueError, match="not among"):
        keys.index(listed[3], 4)
    for other in ("x", "1999-01-01T00"):
        with pytest.raises(ValueError, match="not among"):
            keys.index(other)
    with pytest.raises(IndexError):
        keys[50]
    number: object = 5
    assert number not in keys
