"""Lineage: an edge is the same edge each time it is observed."""

from typing import Any

import pytest

from arco.core.errors import Invalid
from tests.events.stored_lines import admitted, line, read, row_of, rows_of

EDGE = {
    "source_table_id": "a",
    "source_column_id": "a1",
    "target_table_id": "b",
    "target_column_id": "b1",
    "transformation_type": "DIRECT",
}
INPUT, OUTPUT = {"table_id": "a"}, {"table_id": "b"}


def _observed(second: int = 0, *, event: int = 1, **payload: Any) -> bytes:
    fields = {"soundness": "exact", "execution_id": "e", **payload}
    return line("lineage_observed", fields, second=second, event=event)


def test_repeating_a_pipeline_run_adds_no_edges() -> None:
    lines = [
        _observed(1, column_edges=[EDGE]),
        _observed(5, event=2, column_edges=[EDGE], execution_id="f"),
    ]
    row = row_of(lines, "lineage_edges", "lineage")
    assert (row["first_observed_at"].second, row["last_observed_at"].second) == (1, 5)
    assert row["execution_id"] == "f"
    assert len(rows_of(lines, "edge_observations", "lineage")) == 2


def test_edges_differ_by_column_kind_and_fingerprint() -> None:
    others = [
        EDGE,
        {**EDGE, "source_column_id": "a2"},
        {**EDGE, "target_column_id": "b2"},
        {**EDGE, "transformation_type": "CAST"},
        {**EDGE, "transform_fingerprint": "f"},
    ]
    assert len(rows_of([_observed(column_edges=others)], "lineage_edges", "lineage")) == len(others)


def test_a_column_without_an_id_goes_by_table_and_name() -> None:
    tables = {"source_table_id": "a", "target_table_id": "b", "target_name": "y"}
    edges = [{**tables, "source_name": name} for name in ("x", "x", "z")]
    assert len(rows_of([_observed(column_edges=edges)], "lineage_edges", "lineage")) == 2


def test_an_edge_that_is_twice_in_one_event_counts_once_as_listed_first() -> None:
    twice = [{**EDGE, "transformation_sql": sql} for sql in ("first", "second")]
    reading = read([_observed(column_edges=twice)], "lineage")
    [row] = reading.rows["lineage_edges"].to_pylist()
    assert row["transformation_sql"] == "first"


def test_tables_that_no_column_joins_are_joined_themselves() -> None:
    unknown = {"name": "legacy.c"}
    observed = _observed(
        inputs=[INPUT, unknown, {"table_id": "d"}], outputs=[OUTPUT], column_edges=[EDGE]
    )
    rows = rows_of([observed], "lineage_edges", "lineage")
    ends = sorted((row["source_table_id"] or "", row["source_column_id"]) for row in rows)
    assert ends == [("", None), ("a", "a1"), ("d", None)]
    [row] = [row for row in rows if row["source_table_id"] is None]
    assert (row["source_name"], row["transformation_type"]) == ("legacy.c", "UNKNOWN")


@pytest.mark.parametrize(
    ("soundness", "edges"),
    [("exact", 1), ("opaque", 1), ("declared", 2), ("table_only", 2), ("unsupported", 2)],
)
def test_tables_of_which_not_all_edges_are_known_are_joined_beside_their_columns(
    soundness: str, edges: int
) -> None:
    observed = _observed(inputs=[INPUT], outputs=[OUTPUT], column_edges=[EDGE], soundness=soundness)
    assert len(rows_of([observed], "lineage_edges", "lineage")) == edges


def test_the_name_of_a_table_with_an_id_does_not_make_another_edge() -> None:
    lines = [
        _observed(event=event, inputs=[{**INPUT, "name": name}], outputs=[OUTPUT])
        for event, name in enumerate(("old", "new"))
    ]
    assert row_of(lines, "lineage_edges", "lineage")["source_name"] == "new"


def test_what_has_no_id_has_an_empty_one_in_keys() -> None:
    observed = _observed(inputs=[{"name": "x"}], outputs=[{"name": "y"}], execution_id=None)
    assert row_of([observed], "lineage_edges", "lineage")["target_table_id"] == ""
    row = row_of([observed], "edge_observations", "lineage")
    assert (row["target_table_id"], row["execution_id"], row["task_id"]) == ("", "", "")
    row = row_of([observed], "partition_lineage", "lineage")
    keys = ("target_table_id", "source_table_id", "source_partition_key", "execution_id")
    assert [row[key] for key in keys] == [""] * 4


def test_every_partition_read_is_joined_with_every_partition_written() -> None:
    read_from = {**INPUT, "partitions": ["d=1", "d=2"], "rows": 9, "version": "7"}
    observed = _observed(inputs=[read_from], outputs=[{**OUTPUT, "partitions": ["b=1/a=2", "d=9"]}])
    rows = rows_of([observed], "partition_lineage", "lineage")
    pairs = [(row["target_partition_key"], row["source_partition_key"]) for row in rows]
    assert sorted(pairs) == [(w, r) for w in ("a=2/b=1", "d=9") for r in ("d=1", "d=2")]
    assert {(row["rows_read"], row["source_version"]) for row in rows} == {(None, "7")}


def test_rows_read_are_reported_for_a_single_partition() -> None:
    source = {**INPUT, "partitions": ["d=1"], "rows": 9, "bytes": 90}
    row = row_of([_observed(inputs=[source], outputs=[OUTPUT])], "partition_lineage", "lineage")
    assert (row["rows_read"], row["bytes_read"], row["target_partition_key"]) == (9, 90, "")


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_declared_later_does_not_hide_what_was_observed(order: int) -> None:
    lines = [
        _observed(1, inputs=[INPUT], outputs=[OUTPUT]),
        _observed(
            5, event=2, inputs=[INPUT], outputs=[OUTPUT], soundness="declared", execution_id="f"
        ),
    ]
    row = row_of(lines[::order], "lineage_edges", "lineage")
    assert (row["soundness"], row["execution_id"]) == ("exact", "e")
    assert (row["first_observed_at"].second, row["last_observed_at"].second) == (1, 5)


@pytest.mark.parametrize("order", [1, -1])
def test_the_newest_observation_wins(order: int) -> None:
    lines = [
        _observed(1, inputs=[INPUT], outputs=[OUTPUT]),
        _observed(5, event=2, inputs=[INPUT], outputs=[OUTPUT], soundness="table_only"),
    ]
    assert row_of(lines[::order], "lineage_edges", "lineage")["soundness"] == "table_only"


def test_an_observation_of_more_pairs_than_it_may_have_is_refused_with_a_way_out() -> None:
    days = [f"ds={day}" for day in range(50)]
    inputs = [{"table_id": f"t{at}", "partitions": days} for at in range(201)]
    with pytest.raises(Invalid, match=r"at most 10000 pairs .* send one event for each output"):
        admitted("lineage_observed", {"soundness": "exact", "inputs": inputs, "outputs": [OUTPUT]})


def test_what_one_event_makes_is_bounded_whatever_it_holds() -> None:
    tables = [{"table_id": f"t{at}"} for at in range(100)]
    others = [{"table_id": f"u{at}"} for at in range(100)]
    edges = [{**EDGE, "source_column_id": f"c{at}"} for at in range(10_000)]
    reading = read([_observed(inputs=tables, outputs=others, column_edges=edges)], "lineage")
    row_counts = {name: rows.num_rows for name, rows in reading.rows.items()}
    assert row_counts == {
        "lineage_edges": 20_000,
        "edge_observations": 20_000,
        "partition_lineage": 10_000,
    }
