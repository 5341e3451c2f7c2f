"""Observations as events, and their bounds."""

from datetime import UTC, datetime

import msgspec
import pytest

from arco.events.lineage_payload import ColumnEdge, LineageObserved, edge_id
from arco.flow.lineage import (
    Dataset,
    LineageObservation,
    ObservedEdge,
    ReadFact,
    ResolvedTable,
    to_event,
)

ORDERS, RAW, LOST = Dataset("default.silver.orders"), Dataset(path="file:/lake/raw"), Dataset("x.y")
TABLES = {
    ORDERS: ResolvedTable("t-orders", "silver.orders", {"id": "c-id", "total": "c-total"}),
    RAW: ResolvedTable("t-raw", "raw.orders", {"id": "c-raw-id"}),
    Dataset(path="file:/lake/raw2"): ResolvedTable("t-raw", "raw.orders", {"id": "c-raw-id"}),
}


def event_of(observation: LineageObservation, *partitions: str) -> LineageObserved:
    event = to_event(
        observation,
        TABLES.get,
        ORDERS,
        partitions=partitions,
        execution_id="run-1",
        task_id="silver.orders",
        attempt_id="a-1",
        observed_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    # What is built must pass the door that every event passes.
    return msgspec.json.decode(msgspec.json.encode(event), type=LineageObserved)


def edge(
    source: Dataset, column: str, target: str = "id", transformation: str = "DIRECT"
) -> ObservedEdge:
    return ObservedEdge(source, column, target, transformation, None, "f" * 64)  # type: ignore[arg-type]


def test_tables_of_the_catalog_have_ids() -> None:
    (column_edge,) = event_of(LineageObservation(edges=(edge(RAW, "id"),))).column_edges
    assert column_edge == ColumnEdge(
        source_table_id="t-raw",
        source_column_id="c-raw-id",
        source_name="id",
        target_table_id="t-orders",
        target_column_id="c-id",
        target_name="id",
        transformation_type="DIRECT",
        transform_fingerprint="f" * 64,
    )


def test_what_it_does_not_know_stays_a_name_with_its_table_before_it() -> None:
    event = event_of(LineageObservation((ReadFact(LOST),), (edge(LOST, "z"),)))
    (column_edge,) = event.column_edges
    assert (column_edge.source_table_id, column_edge.source_column_id, column_edge.source_name) == (
        None,
        None,
        "x.y.z",
    )
    assert event.inputs[0].name == "x.y"


def test_a_column_without_an_id_keeps_its_name() -> None:
    (column_edge,) = event_of(LineageObservation(edges=(edge(RAW, "new", "fresh"),))).column_edges
    assert (column_edge.source_column_id, column_edge.source_name) == (None, "new")
    assert (column_edge.target_column_id, column_edge.target_name) == (None, "fresh")


def test_spark_names_are_case_insensitive() -> None:
    (column_edge,) = event_of(LineageObservation(edges=(edge(RAW, "ID"),))).column_edges
    assert column_edge.source_column_id == "c-raw-id"


def test_an_influence_reaches_the_whole_table_by_a_star() -> None:
    (column_edge,) = event_of(
        LineageObservation(edges=(edge(RAW, "id", "*", "FILTER"),))
    ).column_edges
    assert (column_edge.target_table_id, column_edge.target_column_id, column_edge.target_name) == (
        "t-orders",
        None,
        "*",
    )
    assert column_edge.transformation_type == "FILTER"


def test_two_paths_of_one_table_are_one_input_and_one_edge() -> None:
    other = Dataset(path="file:/lake/raw2")
    reads = (ReadFact(RAW, ("ds=1",), 2, 20, "v1"), ReadFact(other, ("ds=2",), 3, 30, "v1"))
    event = event_of(LineageObservation(reads, (edge(RAW, "id"), edge(other, "id"))))
    (source,) = event.inputs
    assert (source.partitions, source.rows, source.bytes) == (("ds=1", "ds=2"), 5, 50)
    assert source.version == "v1"
    assert len(event.column_edges) == 1


def test_the_same_observation_again_has_the_same_edges() -> None:
    one, other = (event_of(LineageObservation(edges=(edge(RAW, "id"),))) for _ in range(2))
    assert [edge_id(each) for each in one.column_edges] == [
        edge_id(each) for each in other.column_edges
    ]


def test_the_event_has_soundness_and_run() -> None:
    event = event_of(LineageObservation(soundness="opaque"), "ds=2026-01-01")
    assert event.soundness == "opaque"
    assert (event.execution_id, event.task_id, event.attempt_id) == (
        "run-1",
        "silver.orders",
        "a-1",
    )
    assert event.outputs[0].partitions == ("ds=2026-01-01",)
    assert event.outputs[0].table_id == "t-orders"


def test_too_many_edges_are_table_only() -> None:
    edges = tuple(edge(RAW, f"c{at}") for at in range(10_001))
    event = event_of(LineageObservation((ReadFact(RAW),), edges))
    assert event.column_edges == ()
    assert event.soundness == "table_only"
    assert event.inputs[0].table_id == "t-raw"


def test_edges_to_the_brim_are_kept() -> None:
    edges = tuple(edge(RAW, f"c{at}") for at in range(10_000))
    assert len(event_of(LineageObservation(edges=edges)).column_edges) == 10_000


def test_of_too_many_partitions_the_longest_list_is_left_out() -> None:
    many = tuple(f"ds={at:05}" for at in range(9_999))
    reads = (ReadFact(RAW, many), ReadFact(LOST, ("p=1", "p=2")))
    event = event_of(LineageObservation(reads), "ds=1")
    assert [len(each.partitions) for each in event.inputs] == [0, 2]


@pytest.mark.parametrize("count", [5_000, 10_001])
def test_more_written_partitions_than_pairs_allow_are_left_out(count: int) -> None:
    reads = (ReadFact(RAW), ReadFact(LOST), ReadFact(Dataset("z")))
    event = event_of(LineageObservation(reads), *(f"ds={at:05}" for at in range(count)))
    assert event.outputs[0].partitions == ()
    assert len(event.inputs) == 3


def test_more_inputs_than_an_event_holds_are_cut() -> None:
    reads = tuple(ReadFact(Dataset(f"t{at}")) for at in range(1_001))
    event = event_of(LineageObservation(reads))
    assert len(event.inputs) == 1_000
    assert event.soundness == "table_only"
