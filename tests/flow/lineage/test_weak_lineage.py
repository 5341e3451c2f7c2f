"""Lineage that is not exact: rows read without a query, and rows that the program brought."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arco.flow.lineage import Dataset, LineageObservation
from tests.flow.lineage.expected_lineage import short
from tests.flow.lineage.sample_tables import root_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from arco.flow.spark.lineage import Capture


def by_rdd(session: "SparkSession") -> object:
    return session.table("orders").rdd.count()


def by_foreach(session: "SparkSession") -> object:
    session.table("orders").foreach(lambda _row: None)
    return None


def by_grouped_rdd(session: "SparkSession") -> object:
    return session.table("orders").groupBy("status").count().rdd.collect()


def by_a_session_of_its_own(session: "SparkSession") -> object:
    return session.newSession().read.parquet(str(root_of(session) / "events")).count()


def by_local_iterator(session: "SparkSession") -> object:
    return list(session.table("orders").toLocalIterator())


def seen_after(
    session: "SparkSession", capture: "Capture", work: Callable[["SparkSession"], object], to: Path
) -> LineageObservation:
    work(session)
    session.sql("select id from customers").write.parquet(str(to))
    return capture.finish(Dataset(path=str(to)))


@pytest.mark.parametrize(
    "work", [by_rdd, by_foreach, by_grouped_rdd, by_local_iterator, by_a_session_of_its_own]
)
def test_rows_that_were_read_without_a_query_of_the_session_make_it_declared(
    session: "SparkSession",
    capture: "Capture",
    tmp_path: Path,
    work: Callable[["SparkSession"], object],
) -> None:
    seen = seen_after(session, capture, work, tmp_path / "out")
    assert seen.soundness == "declared"
    assert "without a query" in seen.note
    assert [(short(edge.source), edge.target_column) for edge in seen.edges] == [
        ("customers", "id")
    ]


def test_jobs_that_look_for_a_schema_or_read_nothing_change_nothing(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    lines = tmp_path / "lines.json"
    lines.write_text(json.dumps({"a": 1}))

    def work(session: "SparkSession") -> object:
        numbers = session.sparkContext.parallelize([1, 2]).count()
        return numbers, session.read.json(str(lines)), session.read.parquet(str(events)).count()

    events = root_of(session) / "events"
    seen = seen_after(session, capture, work, tmp_path / "out")
    assert (seen.soundness, seen.note) == ("exact", "")


def test_jobs_after_the_end_of_job_tracking_do_not_count(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    def work(session: "SparkSession") -> object:
        capture.stop_job_tracking()
        return by_rdd(session)

    assert seen_after(session, capture, work, tmp_path / "out").soundness == "exact"


def _brought(
    session: "SparkSession", rows: "Callable[[DataFrame], DataFrame]", to: Path
) -> Dataset:
    rows(session.table("customers").select("id", "name")).write.parquet(str(to))
    return Dataset(path=str(to))


def test_rows_that_were_collected_and_brought_back_have_lost_their_columns(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    target = _brought(
        session,
        lambda frame: session.createDataFrame(frame.toArrow().combine_chunks()),
        tmp_path / "out",
    )
    seen = capture.finish(target)
    assert seen.soundness == "declared"
    assert "brought by the program" in seen.note
    assert [short(read.dataset) for read in seen.reads] == ["customers"]


def test_rows_that_stand_in_a_query_are_no_reason_for_doubt(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    rates = session.sql("select * from values (1L, 0.5D), (2L, 0.7D) as t(id, rate)")
    target = _brought(session, lambda frame: frame.join(rates, "id"), tmp_path / "out")
    seen = capture.finish(target)
    assert (seen.soundness, seen.note) == ("exact", "")


def highest(session: "SparkSession") -> object:
    row = session.sql("select max(amount) from orders").first()
    assert row is not None
    return row[0]


def in_arrow(session: "SparkSession") -> object:
    return session.table("orders").select("id").toArrow()


@pytest.mark.parametrize("work", [highest, in_arrow])
def test_values_that_the_program_has_collected_may_be_in_any_plan_of_it(
    session: "SparkSession",
    capture: "Capture",
    tmp_path: Path,
    work: Callable[["SparkSession"], object],
) -> None:
    seen = seen_after(session, capture, work, tmp_path / "out")
    assert seen.soundness == "declared"
    assert "collected rows" in seen.note
    assert {short(read.dataset) for read in seen.reads} == {"customers", "orders"}


def spent(patched: pytest.MonkeyPatch) -> None:
    from arco.flow.spark.jvm import CallBudget

    patched.setattr(CallBudget, "is_spent", lambda _self: True)


def broken(patched: pytest.MonkeyPatch) -> None:
    from arco.flow.spark.lineage import capture

    patched.delattr(capture, "fetch_query")


@pytest.mark.parametrize("hinder", [spent, broken])
def test_a_query_that_could_not_be_watched_may_have_given_the_program_anything(
    session: "SparkSession",
    capture: "Capture",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hinder: Callable[[pytest.MonkeyPatch], None],
) -> None:
    def work(session: "SparkSession") -> None:
        with monkeypatch.context() as patched:
            hinder(patched)
            highest(session)
            capture.reads()  # waits until Spark has reported it

    seen = seen_after(session, capture, work, tmp_path / "out")
    assert seen.soundness == "declared"
    assert "a query beside the write" in seen.note
    assert [short(read.dataset) for read in seen.reads] == ["customers"]


def test_queries_that_spark_does_not_report_in_time_weaken_lineage(
    session: "SparkSession", capture: "Capture", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arco.flow.spark.lineage import capture as capture_module

    to = tmp_path / "out"
    assert seen_after(session, capture, lambda _session: None, to).soundness == "exact"
    monkeypatch.setattr(capture_module, "DRAIN_MS", None)  # no time that Spark could wait for
    seen = capture.finish(Dataset(path=str(to)))
    assert (seen.soundness, seen.note) == ("declared", "Spark did not report all queries in time")


@pytest.mark.parametrize("limit", ["_MAX_JOBS", "_MAX_NAMES"])
def test_rows_are_missed_among_no_number_of_jobs(
    session: "SparkSession",
    capture: "Capture",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    from arco.flow.spark.lineage import capture as capture_module

    def work(session: "SparkSession") -> object:
        return session.table("orders").count(), by_local_iterator(session)

    monkeypatch.setattr(capture_module, limit, 1)
    seen = seen_after(session, capture, work, tmp_path / "out")
    assert seen.soundness == "declared"
    assert "without a query" in seen.note


def test_to_count_to_show_and_what_a_pivot_looks_up_give_the_program_no_rows(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    def work(session: "SparkSession") -> object:
        orders = session.table("orders")
        orders.show()
        pivoted = orders.groupBy("id").pivot("status").count()
        return orders.count(), orders.isEmpty(), pivoted

    seen = seen_after(session, capture, work, tmp_path / "out")
    assert (seen.soundness, seen.note) == ("exact", "")


def test_what_is_collected_once_the_code_has_ended_is_no_part_of_it(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    def work(session: "SparkSession") -> object:
        capture.mark_end_of_code()
        return highest(session)

    seen = seen_after(session, capture, work, tmp_path / "out")
    assert seen.soundness == "exact"
    assert [short(read.dataset) for read in seen.reads] == ["customers"]


def test_what_the_program_writes_aside_and_reads_again_hides_where_its_columns_come_from(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    aside, to = str(tmp_path / "aside"), str(tmp_path / "out")
    session.sql("select id from orders").write.parquet(aside)
    session.read.parquet(aside).write.parquet(to)
    seen = capture.finish(Dataset(path=to))
    assert seen.soundness == "declared"
    assert "aside" in seen.note
    assert {short(read.dataset) for read in seen.reads} == {"aside", "orders"}


def test_another_output_of_the_same_code_is_not_what_an_input_was_made_of(
    session: "SparkSession", capture: "Capture", tmp_path: Path
) -> None:
    """Its rows are written once the code has ended; what was read before are older ones of that table."""
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    session.sql("select id from customers").write.parquet(one)
    older = session.read.parquet(one)
    capture.mark_end_of_code()
    session.sql("select id from orders").write.mode("append").parquet(one)
    older.write.parquet(other)
    seen = capture.finish(Dataset(path=other))
    assert "orders" not in {short(read.dataset) for read in seen.reads}
