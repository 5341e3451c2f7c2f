"""What a capture sees, and that it is never in the way."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arco.flow.lineage import Dataset, LineageObservation
from tests.flow.lineage.expected_lineage import lineage_of, short
from tests.flow.lineage.sample_tables import new_session, root_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arco.flow.spark.lineage import Capture


def partitions(observation: LineageObservation) -> dict[str, tuple[str, ...]]:
    return {short(read.dataset): read.partitions for read in observation.reads}


def write(session: "SparkSession", query: str, place: Path) -> Dataset:
    session.sql(query).write.mode("overwrite").parquet(str(place))
    return Dataset(path=str(place))


def test_the_partitions_rows_and_bytes_are_those_that_were_really_read(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    target = write(session, "select id from orders where ds > date'2026-01-01'", tmp_path / "out")
    (read,) = capture.finish(target).reads
    assert read.dataset == Dataset("spark_catalog.shop.orders")
    assert read.partitions == ("ds=2026-01-02", "ds=2026-01-03")
    assert read.rows == 2
    assert read.bytes is not None
    assert read.bytes > 0


def test_partitions_that_a_join_prunes_while_it_runs_were_not_read(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    events = str(root_of(session) / "events")
    query = f"""select e.id from parquet.`{events}` e
                join (select id as p from customers where name = 'Ann') c on e.p = c.p"""
    target = write(session, query, tmp_path / "out")
    assert partitions(capture.finish(target))["events"] == ("p=1",)


def test_what_a_query_beside_the_write_has_read_is_noticed(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    session.sql("select max(id) from customers").collect()
    target = write(session, "select id from orders", tmp_path / "out")
    seen = capture.finish(target)
    assert {short(read.dataset) for read in seen.reads} == {"customers", "orders"}
    assert {short(edge.source) for edge in seen.edges} == {"orders"}


def test_sources_of_another_output_do_not_count(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    one = write(session, "select id from orders", tmp_path / "one")
    other = write(session, "select id from customers", tmp_path / "other")
    assert {short(read.dataset) for read in capture.finish(one).reads} == {"orders"}
    assert {short(read.dataset) for read in capture.finish(other).reads} == {"customers"}
    assert {short(read.dataset) for read in capture.reads()} == {"customers", "orders"}


def test_sources_of_files_that_were_read_again_count(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    write(session, "select id from orders", tmp_path / "between")
    target = write(session, f"select id from parquet.`{tmp_path / 'between'}`", tmp_path / "out")
    read_names = {short(read.dataset) for read in capture.finish(target).reads}
    assert read_names == {"between", "orders"}


def test_another_session_is_not_observed(
    spark: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    write(new_session(spark), "select id from orders", tmp_path / "out")
    assert capture.reads() == ()


def test_a_closed_capture_observes_nothing_more(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    capture.close()
    write(session, "select id from orders", tmp_path / "out")
    assert capture.reads() == ()


def test_the_fingerprint_is_the_same_for_another_day_and_another_for_other_code(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    def fingerprint(query: str, name: str) -> str | None:
        return capture.finish(write(session, query, tmp_path / name)).fingerprint

    code = "select id, amount * {rate} as twice from orders where ds = date'{day}'"
    first = fingerprint(code.format(rate=2, day="2026-01-01"), "first")
    other_day = fingerprint(code.format(rate=2, day="2026-01-02"), "other_day")
    several = fingerprint(
        "select id, amount * 2 as twice from orders where ds in (date'2026-01-01', date'2026-01-02')",
        "several",
    )
    changed = fingerprint(code.format(rate=3, day="2026-01-01"), "changed")
    assert first == other_day == several
    assert first is not None
    assert first != changed


def test_a_constant_partition_column_is_no_part_of_the_fingerprint(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    fingerprints = set()
    for day in ("2026-01-01", "2026-01-02"):
        frame = session.sql(f"select id, '{day}' as made_on from orders")
        place = tmp_path / day
        frame.write.partitionBy("made_on").parquet(str(place))
        fingerprints.add(capture.finish(Dataset(path=str(place))).fingerprint)
    assert len(fingerprints) == 1


def test_values_that_the_caller_names_are_no_part_of_the_fingerprint(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    fingerprints = set()
    for label in ("paid", "open"):
        place = tmp_path / label
        target = write(session, f"select id from orders where status = '{label}'", place)
        fingerprints.add(capture.finish(target, ignored_literals=(label,)).fingerprint)
        fingerprints.add(capture.finish(target).fingerprint)
    assert len(fingerprints) == 3


def test_without_an_observed_write_the_plan_of_the_frame_is_read(
    session: "SparkSession", capture: "Capture"
) -> None:
    frame = session.sql("select id, upper(name) as loud from customers where region = 'eu'")
    seen = capture.finish(Dataset("nowhere"), frame=frame)
    assert lineage_of(seen) == (
        {"id": {"customers.id": "DIRECT"}, "loud": {"customers.name": "EXPRESSION"}},
        {("customers.region", "FILTER")},
        "exact",
    )
    assert [short(read.dataset) for read in seen.reads] == ["customers"]
    assert "no write of nowhere was seen" in seen.note


def test_without_a_write_and_a_frame_there_are_no_columns(capture: "Capture") -> None:
    seen = capture.finish(Dataset("nowhere"))
    assert (seen.edges, seen.soundness) == ((), "table_only")


def test_a_plan_that_is_too_large_gives_its_tables_alone(
    session: "SparkSession", capture: "Capture", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arco.flow.spark.lineage import query

    monkeypatch.setattr(query, "MAX_CELLS", 1)
    target = write(session, "select id from orders", tmp_path / "out")
    seen = capture.finish(target)
    assert (seen.edges, seen.soundness) == ((), "table_only")
    assert "too large" in seen.note
    assert [short(read.dataset) for read in seen.reads] == ["orders"]


def test_a_query_that_exceeds_its_time_is_table_only(
    session: "SparkSession", capture: "Capture", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arco.flow.spark.jvm import CallBudget

    monkeypatch.setattr(CallBudget, "is_spent", lambda _self: True)
    target = write(session, "select id from orders", tmp_path / "out")
    seen = capture.finish(target)
    assert (seen.edges, seen.soundness) == ((), "table_only")
    assert "in time" in seen.note


def test_trouble_in_the_listener_fails_no_query_and_is_noted(
    session: "SparkSession", capture: "Capture", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arco.flow.spark.lineage import query

    def broken(*_args: Any) -> Any:
        raise AttributeError("no such method in this release")

    monkeypatch.setattr(query, "scans_of", broken)
    monkeypatch.setattr(query, "leaves_of", broken)
    target = write(session, "select id from orders", tmp_path / "out")
    assert session.read.parquet(str(tmp_path / "out")).count() == 3
    seen = capture.finish(target, frame=session.sql("select id from orders"))
    assert seen.soundness in ("table_only", "unsupported")
    assert seen.edges == ()


def test_a_failed_query_leaves_nothing_and_the_next_is_observed(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        write(session, "select id / 0 as x from customers", tmp_path / "bad")
    target = write(session, "select id from orders", tmp_path / "out")
    seen = capture.finish(target)
    assert {short(read.dataset) for read in seen.reads} == {"orders"}
    assert seen.note == ""


def test_files_that_are_named_one_by_one_become_their_folder(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    folder = root_of(session) / "events" / "p=0"
    files = sorted(str(each) for each in folder.glob("*.parquet"))
    assert len(files) > 1
    session.read.parquet(*files).write.parquet(str(tmp_path / "out"))
    (read,) = capture.finish(Dataset(path=str(tmp_path / "out"))).reads
    assert short(read.dataset) == "events"
    assert read.partitions == ("p=0",)
    assert read.rows == 3


def test_of_very_many_queries_the_last_are_kept(
    session: "SparkSession", capture: "Capture", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arco.flow.spark.lineage import capture as capture_module

    monkeypatch.setattr(capture_module, "_MAX_QUERIES", 2)
    monkeypatch.setattr(capture_module, "_MAX_TEXT", 1)
    session.sql("select max(id) from customers").collect()
    first = write(session, "select id from orders", tmp_path / "first")
    last = write(session, "select id from orders", tmp_path / "last")
    assert "dropped to save memory" in capture.finish(first).note
    seen = capture.finish(last)
    assert seen.soundness == "declared"  # rows were collected by one that is not kept
    assert "more queries than are kept" in seen.note
