"""Names of partitions: one spelling for each, however it was sent."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.events.partition_key import (
    canonical_partition_key,
    format_partition_key,
    parse_partition_key,
)
from tests.events.stored_lines import line, row_of, rows_of

TEXTS = st.text(st.sampled_from("ab/=%250F å\x00"), max_size=6)
VALUES = st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=3)


@given(VALUES)
def test_a_key_says_the_values_that_it_was_made_of(values: dict[str, str]) -> None:
    assert parse_partition_key(format_partition_key(values)) == values


@given(VALUES, VALUES)
def test_partitions_with_other_values_have_other_keys(
    one: dict[str, str], other: dict[str, str]
) -> None:
    assert (format_partition_key(one) == format_partition_key(other)) == (one == other)


@given(st.text(st.sampled_from("ab/=%250Fé"), max_size=12))
def test_the_one_spelling_of_a_key_is_its_own(key: str) -> None:
    assert canonical_partition_key(canonical_partition_key(key)) == canonical_partition_key(key)


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("date=2026-05-01", "date=2026-05-01"),
        ("region=eu/date=2026-05-01", "date=2026-05-01/region=eu"),
        ("at=10%3A00", "at=10:00"),
        ("share=50%25", "share=50%25"),
        ("%00=a%00b", "%2500=a%2500b"),
        ("share=50%", "share=50%25"),
        ("path=a%2Fb", "path=a%2Fb"),
        ("odd=%FF", "odd=%25FF"),
        ("", ""),
        ("2026/05/01", "2026/05/01"),
        ("a=1/a=2", "a=1/a=2"),
        ("=1", "=1"),
    ],
)
def test_a_key_is_spelled_in_one_way(sent: str, key: str) -> None:
    assert canonical_partition_key(sent) == key


def test_a_partition_is_one_row_however_it_is_named() -> None:
    names: list[dict[str, Any]] = [
        {"partition_values": {"date": "1", "region": "e/u"}},
        {"partition_key": "date=1/region=e%2Fu"},
        {"partition_key": "region=e%2fu/date=1"},
        {
            "partition_values": {"region": "e/u", "date": "1"},
            "partition_key": "region=e%2Fu/date=1",
        },
    ]
    lines = [
        line("partition_completed", {"table_id": "x", **name}, event=event)
        for event, name in enumerate(names)
    ]
    row = row_of(lines, "partitions")
    assert row["partition_key"] == "date=1/region=e%2Fu"
    assert row["partition_values"] == [("date", "1"), ("region", "e/u")]
    hashed = b'["x","date=1/region=e%2Fu"]'
    assert row["partition_id"] == hashlib.sha256(hashed).hexdigest()


def test_a_table_without_partitions_has_one() -> None:
    row = row_of(
        [line("partition_completed", {"table_id": "x", "partition_key": ""})], "partitions"
    )
    assert (row["partition_key"], row["partition_values"]) == ("", [])


def test_the_sender_may_use_its_own_ids() -> None:
    own = {"table_id": "x", "partition_id": "p-1"}
    lines = [
        line("partition_created", {**own, "partition_values": {"d": "1"}}),
        line("partition_completed", own, second=5, event=2),
    ]
    row = row_of(lines, "partitions")
    assert (row["partition_id"], row["partition_key"], row["status"]) == ("p-1", "d=1", "COMPLETE")


def test_partitions_of_two_tables_are_two() -> None:
    lines = [
        line("partition_created", {"table_id": table, "partition_key": "d=1"}, event=event)
        for event, table in enumerate("xy")
    ]
    assert len({row["partition_id"] for row in rows_of(lines, "partitions")}) == 2
