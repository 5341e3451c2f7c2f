import pytest

from arco.flow.lineage import Dataset, ReadFact
from arco.flow.lineage.observation import (
    LineageObservation,
    combine_reads,
    is_same_dataset,
    weakest,
)

T, U = Dataset("t"), Dataset("u")
P1, P2 = "p=1", "p=2"


@pytest.mark.parametrize(
    ("by_write", "others", "combined"),
    [
        # Scans of one write add up; a count before the write does not double its rows.
        ([ReadFact(T, (), 2, 20), ReadFact(T, (), 3, 30)], [], ReadFact(T, (), 5, 50)),
        ([ReadFact(T, (), 2, 20)], [ReadFact(T, (), 9, 90)], ReadFact(T, (), 2, 20)),
        # Of queries that write nothing the largest counts.
        ([], [ReadFact(T, (), 2), ReadFact(T, (), 3)], ReadFact(T, (), 3)),
        # Partitions are united, unless one scan may have read any; a scan without rows does not count.
        ([ReadFact(T, (P2,), 1)], [ReadFact(T, (P1, P2), 1)], ReadFact(T, (P1, P2), 1)),
        ([], [ReadFact(T, (P2,), 1), ReadFact(T, (), 4)], ReadFact(T, (), 4)),
        ([], [ReadFact(T, (P2,), 1), ReadFact(T, (), 0)], ReadFact(T, (P2,), 1)),
        ([], [ReadFact(T, version="1")], ReadFact(T, version="1")),
        ([], [ReadFact(T, version="1"), ReadFact(T, version="2")], ReadFact(T)),
    ],
)
def test_the_facts_of_one_dataset_are_combined(
    by_write: list[ReadFact], others: list[ReadFact], combined: ReadFact
) -> None:
    assert combine_reads(by_write, [*others, *by_write], [T]) == (combined,)


def test_a_dataset_that_only_a_plan_names_has_no_figures() -> None:
    assert combine_reads([], [], [U, T]) == (ReadFact(T), ReadFact(U))


@pytest.mark.parametrize(
    ("dataset", "other"),
    [
        (Dataset("silver.orders"), Dataset("default.silver.orders")),
        (Dataset("default.silver.orders"), Dataset("silver.orders")),
        (Dataset("Silver.Orders"), Dataset("silver.orders")),
        (Dataset(path="/lake/t"), Dataset(path="file:/lake/t")),
        (Dataset(path="file:///lake/t/"), Dataset(path="file:/lake/t")),
        (Dataset(path="s3://b/t"), Dataset(path="s3a://b/t/ds=1")),
    ],
)
def test_two_spellings_of_one_dataset_are_the_same(dataset: Dataset, other: Dataset) -> None:
    assert is_same_dataset(dataset, other)


@pytest.mark.parametrize(
    ("dataset", "other"),
    [
        (Dataset("silver.orders"), Dataset("silver.orders2")),
        (Dataset("silver.orders"), Dataset("gold.orders")),
        (Dataset(path="/lake/t"), Dataset(path="/lake/t2")),
        (Dataset(path="/lake/t/x"), Dataset(path="/lake/t")),
        (Dataset("orders"), Dataset(path="/orders")),
        (Dataset(), Dataset()),
    ],
)
def test_two_datasets_are_not_the_same(dataset: Dataset, other: Dataset) -> None:
    assert not is_same_dataset(dataset, other)


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
