"""Values that are listed, in the code or by facts."""

from typing import Any

import pytest

from arco.core.errors import Invalid
from arco.flow.partition import Dynamic, Partitions, Static, checked_dynamic_values
from tests.flow.partition.cases import NOW

ODD = ["a/b", "a=b", "50%", "%2F", "2026-01-01..2026-01-05", "all", "latest", "a,b", "a", " ", "é"]


def test_values_are_in_the_order_of_their_text_whoever_wrote_them() -> None:
    static = Static("region", ["us", "eu", "ap"])
    assert static == Static("region", ("ap", "us", "eu"))
    assert list(static.keys(NOW)) == ["ap", "eu", "us"]
    assert "eu" in static
    assert "uk" not in static


def test_dynamic_values_are_those_that_are_told() -> None:
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
def test_so_are_bad_values_that_are_told(values: Any) -> None:
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
