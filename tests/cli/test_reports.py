"""What a child tells: one log line and the metrics of each cycle."""

import io
import json
from datetime import UTC, datetime

from arco.api.log import make_log
from arco.api.metrics import Metrics
from arco.catalog.manifest import CommitKind, Counts
from arco.compactor.cycle import Cycle
from arco.core.runtime import Runtime
from arco.server.spark_child import CyclePublished, SparkReady, WorkFailed
from arco.server.spark_supervisor import ChildExited, ChildReporter

CYCLE = Cycle(
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
    runtime: Runtime, *said: SparkReady | CyclePublished | WorkFailed | ChildExited
) -> tuple[list[dict[str, object]], str]:
    """The log lines and the metrics that come of it."""
    lines, metrics = io.BytesIO(), Metrics()
    reports = ChildReporter(make_log(lines, runtime.clock), metrics)
    for each in said:
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


def test_what_fails_or_dies_is_told_and_counted(runtime: Runtime) -> None:
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
