"""Sets of partitions behave as sets of keys do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.flow.partition import Daily, Partitions, PartitionSet, Static
from tests.flow.partition.cases import NOW

BOTH = Partitions([Daily("ds", "2026-01-01", "2026-01-09"), Static("region", ["a", "b", "c"])])
EVERY = list(BOTH.keys(NOW))


@st.composite
def boxes(draw: st.DrawFn) -> tuple[range, range]:
    start = BOTH.keys(NOW).boxes[0][0].start
    days = sorted((draw(st.integers(0, 8)), draw(st.integers(0, 8))))
    regions = sorted((draw(st.integers(0, 3)), draw(st.integers(0, 3))))
    return range(start + days[0], start + days[1]), range(*regions)


def sets() -> st.SearchStrategy[PartitionSet]:
    return st.lists(boxes(), max_size=5).map(lambda some: PartitionSet.of(BOTH.axes(), some))


@given(sets())
def test_a_set_has_each_key_once_in_canonical_order(some: PartitionSet) -> None:
    keys = list(some)
    assert keys == [key for key in EVERY if key in some]
    assert list(reversed(some)) == keys[::-1]
    assert len(some) == len(keys)
    assert bool(some) == bool(keys)


@given(sets(), sets())
def test_sets_are_joined_cut_and_compared(one: PartitionSet, other: PartitionSet) -> None:
    keys, others = set(one), set(other)
    assert set(one | other) == keys | others
    assert set(one & other) == keys & others
    assert set(one - other) == keys - others
    assert len(one | other) == len(keys | others)
    assert (one == other) == (keys == others)
    assert one | other == other | one
    assert hash(one | other) == hash(other | one)


@given(st.lists(st.sampled_from(EVERY)))
def test_a_set_of_keys_has_these_keys(keys: list[str]) -> None:
    assert set(PartitionSet.of_keys(BOTH.axes(), keys)) == set(keys)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5))))
def test_ranges_that_touch_become_one(spans: list[tuple[int, int]]) -> None:
    days = Partitions([Daily("ds", "2026-01-01")])
    start = days.keys(NOW).boxes[0][0].start
    some = [(range(start + at, start + at + length),) for at, length in spans]
    merged = PartitionSet.of(days.axes(), some)
    assert len(merged) == len({position for (side,) in some for position in side})
    edges = [edge for (side,) in merged.boxes for edge in (side.start, side.stop)]
    assert edges == sorted(set(edges))


def test_sets_of_other_dimensions_are_not_mixed() -> None:
    other = Partitions([Daily("ds", "2026-01-02")]).keys(NOW)
    assert BOTH.keys(NOW) != other
    assert BOTH.keys(NOW) != EVERY
    for mix in (PartitionSet.__or__, PartitionSet.__and__, PartitionSet.__sub__):
        with pytest.raises(Invalid, match="cannot be combined"):
            mix(BOTH.keys(NOW), other)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("region=a/ds=2026-01-01", "write 'ds=2026-01-01/region=a'"),
        ("ds=2026-01-01", r"write it as 'ds=\.\.\./region=\.\.\.'"),
        ("2026-01-01", r"write it as 'ds=\.\.\./region=\.\.\.'"),
        ("ds=2026-01-01/region=z", "write one of 'a', 'b', 'c'"),
        ("ds=2026-1-1/region=a", "write it as '2026-01-15'"),
    ],
)
def test_what_is_no_key_is_refused_with_an_example(key: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        PartitionSet.of_keys(BOTH.axes(), [key])


def test_a_set_prints_how_many_it_holds_and_between_which() -> None:
    assert repr(BOTH.parse("ds=2026-01-02", NOW)) == (
        "<PartitionSet: 3, 'ds=2026-01-02/region=a' to 'ds=2026-01-02/region=c'>"
    )
    assert repr(BOTH.keys(NOW) - BOTH.keys(NOW)) == "<PartitionSet: none>"
