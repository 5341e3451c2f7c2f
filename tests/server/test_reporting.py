"""Background work in the log and the metrics: failures, findings, slow starts, cycles of Spark."""

import asyncio
import io
import json
from datetime import UTC, datetime
from typing import Any

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.catalog.manifest import CommitKind, Counts
from arco.compactor.collecting_store import ObjectCount
from arco.compactor.domain_compactor import CycleReport
from arco.compactor.inspection import Inspection, InspectionProblem, InspectionProblemKind
from arco.core.errors import Corrupt, Unavailable
from arco.core.runtime import Runtime
from arco.server.coordinator_lock import lock_taken
from arco.server.doctor import inspection_findings
from arco.server.reporting import (
    ReconcilerReport,
    failure_reporter,
    inspection_reporter,
    log_slow_startup,
    table_failure_reporter,
)
from arco.server.spark_child import CyclePublished, SparkReady, WorkFailed
from arco.server.spark_supervisor import ChildExited, ChildReporter
from tests.clocks import HandClock, hand_runtime
from tests.iceberg.iceberg_setup import with_table


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def spoil() -> None:
    raise Corrupt("a secret value")


def test_a_background_failure_is_logged_without_its_message_and_counted(
    runtime: Runtime,
) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    report = failure_reporter(Log(stream, runtime.clock), metrics)
    try:
        spoil()
    except Corrupt as problem:
        report("merge", problem)
    (line,) = lines(stream)
    assert (line["level"], line["event"], line["error"]) == ("error", "merge failed", "Corrupt")
    assert line["places"][-1].endswith(" spoil")
    assert b"secret" not in stream.getvalue()
    assert b'arco_background_failures_total{what="merge"} 1.0' in metrics.render()


def test_a_message_without_private_data_is_logged(runtime: Runtime) -> None:
    stream = io.BytesIO()
    failure_reporter(Log(stream, runtime.clock), Metrics())(
        "collection", Unavailable("no answer came")
    )
    assert lines(stream)[0]["detail"] == "no answer came"


def test_a_failed_table_is_logged_once_for_each_type_of_error(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    report = table_failure_reporter(Log(stream, runtime.clock), metrics)
    for table in ("t", "t", "u", "t"):
        report(table, Unavailable("no answer came"))
    report("t", Corrupt("a secret value"))
    logged = [(line["table"], line["error"]) for line in lines(stream)]
    assert logged == [("t", "Unavailable"), ("u", "Unavailable"), ("t", "Corrupt")]
    assert b"secret" not in stream.getvalue()
    assert b'{what="collection of a table"} 5.0' in metrics.render()


async def test_a_slow_start_is_logged_after_some_seconds_with_its_problem() -> None:
    clock, stream = HandClock(), io.BytesIO()
    async with log_slow_startup(hand_runtime(clock), Log(stream, clock)) as wait:
        wait.retrying(Unavailable("the bucket of a secret"))
        for _ in range(10):
            await asyncio.sleep(0)
    logged = lines(stream)
    assert len(logged) > 1  # said again while it lasts
    assert {(line["level"], line["error"]) for line in logged} == {("warning", "Unavailable")}
    assert all(line["event"].startswith("waiting for the store") for line in logged)
    assert clock.slept_ms[0] == 5_000


async def test_a_quick_start_logs_nothing(runtime: Runtime) -> None:
    stream = io.BytesIO()
    async with log_slow_startup(runtime, Log(stream, runtime.clock)):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.01)
    assert stream.getvalue() == b""


def test_the_result_of_an_inspection_is_logged_and_measured(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    lost = InspectionProblem(
        kind=InspectionProblemKind.SEGMENT,
        path="ledger/lineage/x/000000000001.jsonl",
        explanation="is missing",
        next_step="Restore it.",
    )
    inspection = Inspection(
        domain="lineage",
        head=3,
        segments=9,
        waiting=2,
        lag_ms=90_000,
        orphans=ObjectCount(objects=4, bytes=400),
        sealed=("x",),
        hints=("manifests/lineage/head.json",),
        troubles=(lost,),
    )
    inspection_reporter(Log(stream, runtime.clock), metrics)(inspection)
    sealed, hint, wrong = lines(stream)
    assert (sealed["level"], sealed["stream"], hint["object"]) == ("info", "x", inspection.hints[0])
    assert (wrong["level"], wrong["event"]) == ("error", "something is wrong in the store")
    assert (wrong["kind"], wrong["object"]) == ("segment", lost.path)
    rendered = metrics.render()
    for figure in (b"troubles", b"waiting_segments", b"lag_seconds", b"orphan_files"):
        assert b'arco_inspection_%s{domain="lineage"}' % figure in rendered
    assert b'arco_inspection_lag_seconds{domain="lineage"} 90.0' in rendered
    statuses = [each.status.value for each in inspection_findings(inspection)]
    assert statuses == ["ok", "note", "note", "note", "failed"]


def test_an_inspection_that_finds_nothing_logs_nothing(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    inspection_reporter(Log(stream, runtime.clock), metrics)(Inspection(domain="search", head=-1))
    assert lines(stream) == []
    assert b'arco_inspection_troubles{domain="search"} 0.0' in metrics.render()


async def test_rounds_of_the_reconciler_are_counted_and_a_failed_one_is_logged() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.settle()
    api, stream, metrics = setup.api(), io.BytesIO(), Metrics()
    clock, reconciler = setup.inner.runtime.clock, api.iceberg.reconciler
    reconciler.observe(ReconcilerReport(Log(stream, clock), metrics, clock))
    trouble = Unavailable("no answer came")

    api.connection.fail("get", "iceberg_doubts/", trouble)
    await reconciler.try_round()
    api.connection.mend()
    api.connection.fail("get", f"iceberg_pointers/{table_id}", trouble)
    await reconciler.try_round()
    api.connection.mend()
    await reconciler.try_round()

    logged = [(line["event"], line.get("table")) for line in lines(stream)]
    assert logged == [
        ("reconciliation failed", None),
        ("reconciliation of a table failed", table_id),
    ]
    rendered = metrics.render().decode().splitlines()
    for figure in (
        'rounds_total{kind="full",outcome="failed"} 1.0',
        'rounds_total{kind="full",outcome="ok"} 1.0',
        'rounds_total{kind="short",outcome="ok"} 1.0',
        "tables_total 2.0",
        "table_failures_total 1.0",
    ):
        assert f"arco_reconciler_{figure}" in rendered
    assert 'arco_background_failures_total{what="reconciliation"} 1.0' in rendered


def test_that_another_process_coordinates_runs_is_no_failure(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    report = failure_reporter(Log(stream, runtime.clock), metrics)
    report("coordinating runs", lock_taken("/data/arco", "process 7"))
    (line,) = lines(stream)
    assert (line["level"], line["error"]) == ("info", "CoordinatorLockTaken")
    assert b"arco_background_failures_total{" not in metrics.render()


CYCLE = CycleReport(
    domain="executions",
    kind=CommitKind.FOLD,
    manifest=7,
    counts=Counts(
        segments=2,
        events=100,
        late=3,
        quarantined=1,
        bytes=54_000,
        oldest_received=datetime(2026, 5, 1, tzinfo=UTC),
    ),
    files=4,
    size_bytes=20_000,
    phases_ms={"find": 5, "fold": 900, "publish": 40},
    lag_ms=1_500,
)


def reported(
    runtime: Runtime, *messages: SparkReady | CyclePublished | WorkFailed | ChildExited
) -> tuple[list[dict[str, object]], str]:
    """The log lines and the metrics of messages."""
    lines, metrics = io.BytesIO(), Metrics()
    reports = ChildReporter(Log(lines, runtime.clock), metrics)
    for each in messages:
        reports.report(each)
    return [json.loads(line) for line in lines.getvalue().splitlines()], metrics.render().decode()


def test_a_cycle_is_one_line_with_all_that_it_did(runtime: Runtime) -> None:
    (line,), _ = reported(runtime, CyclePublished(CYCLE))
    assert {name: value for name, value in line.items() if name not in {"at", "level"}} == {
        "event": "cycle",
        "domain": "executions",
        "kind": "fold",
        "manifest": 7,
        "events": 100,
        "late": 3,
        "quarantined": 1,
        "files": 4,
        "bytes": 20_000,
        "find_ms": 5,
        "fold_ms": 900,
        "publish_ms": 40,
        "lag_ms": 1_500,
    }


def test_cycles_add_up_in_the_metrics(runtime: Runtime) -> None:
    _, metrics = reported(runtime, CyclePublished(CYCLE), CyclePublished(CYCLE))
    for expected in (
        'arco_compaction_cycles_total{domain="executions",kind="fold"} 2.0',
        'arco_compaction_events_total{domain="executions"} 200.0',
        'arco_compaction_late_events_total{domain="executions"} 6.0',
        'arco_compaction_quarantined_total{domain="executions"} 2.0',
        'arco_compaction_files_total{domain="executions"} 8.0',
        'arco_compaction_bytes_total{domain="executions"} 40000.0',
        'arco_compaction_seconds_total{domain="executions",phase="fold"} 1.8',
        'arco_compaction_lag_seconds_sum{domain="executions"} 3.0',
    ):
        assert expected in metrics


def test_failures_and_exits_of_a_child_are_logged_and_counted(runtime: Runtime) -> None:
    failed = WorkFailed(
        "compaction of executions", "Unavailable", "Spark could not carry out a job"
    )
    lines, metrics = reported(
        runtime, SparkReady(9_000), failed, WorkFailed("Spark", "OSError"), ChildExited(2_000)
    )
    assert [line["event"] for line in lines] == [
        "Spark is up",
        "compaction of executions failed",
        "Spark failed",
        "Spark has ended, and is started again",
    ]
    assert [line["level"] for line in lines] == ["info", "error", "error", "warning"]
    assert lines[1]["detail"] == "Spark could not carry out a job"
    assert "detail" not in lines[2]
    assert 'arco_background_failures_total{what="compaction of executions"} 1.0' in metrics
    assert "arco_compaction_restarts_total 1.0" in metrics
