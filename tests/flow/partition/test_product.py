"""The product of dimensions."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from arco.core.errors import Invalid
from arco.events.partition_key import canonical_partition_key
from arco.flow.partition import Daily, Dynamic, Partitions, Static
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
    whole = Partitions()
    assert not whole
    assert list(whole.keys(NOW)) == [""]
    assert "" in whole
    assert "ds=2026-01-01" not in whole
    for text in ("", "all", "latest"):
        assert list(whole.parse(text, NOW)) == [""]
    with pytest.raises(Invalid, match="not partitioned, write 'all'"):
        whole.parse("2026-01-01", NOW)


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


def test_the_values_of_a_key_are_told() -> None:
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
