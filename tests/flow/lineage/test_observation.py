import pytest

from arco.flow.lineage import Dataset, ReadFact
from arco.flow.lineage.observation import (
    LineageObservation,
    combine_reads,
    is_same_dataset,
    weakest,
)

T, U = Dataset("t"), Dataset("u")


def test_scans_of_one_write_add_up() -> None:
    facts = [ReadFact(T, (), 2, 20), ReadFact(T, (), 3, 30)]
    assert combine_reads(facts, facts, [T]) == (ReadFact(T, (), 5, 50),)


def test_a_count_before_the_write_does_not_double_its_rows() -> None:
    write = [ReadFact(T, (), 2, 20)]
    assert combine_reads(write, [ReadFact(T, (), 9, 90), *write], []) == (ReadFact(T, (), 2, 20),)


def test_of_queries_that_write_nothing_the_largest_counts() -> None:
    facts = [ReadFact(T, (), 2), ReadFact(T, (), 3)]
    assert combine_reads([], facts, []) == (ReadFact(T, (), 3),)


def test_partitions_of_all_queries_are_united() -> None:
    facts = [ReadFact(T, ("p=2",), 1), ReadFact(T, ("p=1", "p=2"), 1)]
    assert combine_reads(facts[:1], facts, [])[0].partitions == ("p=1", "p=2")


def test_if_one_scan_may_have_read_any_partition_none_is_named() -> None:
    facts = [ReadFact(T, ("p=2",), 1), ReadFact(T, (), 4)]
    assert combine_reads([], facts, [])[0].partitions == ()


def test_a_scan_that_found_nothing_hides_no_partitions() -> None:
    facts = [ReadFact(T, ("p=2",), 1), ReadFact(T, (), 0)]
    assert combine_reads([], facts, [])[0].partitions == ("p=2",)


def test_what_only_a_plan_names_is_told_without_figures() -> None:
    assert combine_reads([], [], [U, T]) == (ReadFact(T), ReadFact(U))


def test_of_two_versions_none_is_told() -> None:
    facts = [ReadFact(T, version="1"), ReadFact(T, version="2")]
    assert combine_reads([], facts, [])[0].version is None
    assert combine_reads([], facts[:1], [])[0].version == "1"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Dataset("silver.orders"), Dataset("default.silver.orders")),
        (Dataset("default.silver.orders"), Dataset("silver.orders")),
        (Dataset("Silver.Orders"), Dataset("silver.orders")),
        (Dataset(path="/lake/t"), Dataset(path="file:/lake/t")),
        (Dataset(path="file:///lake/t/"), Dataset(path="file:/lake/t")),
        (Dataset(path="s3://b/t"), Dataset(path="s3a://b/t/ds=1")),
    ],
)
def test_two_spellings_of_one_place_are_the_same(wanted: Dataset, found: Dataset) -> None:
    assert is_same_dataset(wanted, found)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Dataset("silver.orders"), Dataset("silver.orders2")),
        (Dataset("silver.orders"), Dataset("gold.orders")),
        (Dataset(path="/lake/t"), Dataset(path="/lake/t2")),
        (Dataset(path="/lake/t/x"), Dataset(path="/lake/t")),
        (Dataset("orders"), Dataset(path="/orders")),
        (Dataset(), Dataset()),
    ],
)
def test_two_places_are_not_the_same(wanted: Dataset, found: Dataset) -> None:
    assert not is_same_dataset(wanted, found)


def test_of_several_marks_the_worst_counts() -> None:
    assert weakest("exact", "opaque") == "opaque"
    assert weakest("unsupported", "exact", "declared") == "unsupported"
    assert weakest() == "exact"


def test_without_its_columns_an_observation_is_no_better_than_table_only() -> None:
    seen = LineageObservation((ReadFact(T),), soundness="opaque", note="a").without_columns("b")
    assert (seen.soundness, seen.note, seen.reads) == ("table_only", "a; b", (ReadFact(T),))
    assert (
        LineageObservation(soundness="unsupported").without_columns("b").soundness == "unsupported"
    )
