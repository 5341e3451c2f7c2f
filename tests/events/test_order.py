"""What decides between two events about one thing: first what is causal, clocks last (P19)."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.events.stored_lines import line, read, row_of, rows_of

TASK: dict[str, Any] = {"execution_id": "e", "task_id": "t"}
PARTITION: dict[str, Any] = {"table_id": "x", "partition_key": "d=1"}


def settled(table: str, lines: Sequence[bytes]) -> dict[str, Any]:
    """The one row of the table, the same in whichever order the lines are read, and twice over."""
    rows = [row_of(order, table) for order in itertools.permutations(lines)]
    rows.append(row_of([*lines, *lines], table))
    assert all(row == rows[0] for row in rows)
    return rows[0]


def _status(*lines: bytes, table: str = "tasks") -> str:
    return str(settled(table, lines)["status"])


def _started(second: int = 0, attempt: int = 1, event: int = 1) -> bytes:
    return line("task_started", {**TASK, "attempt": attempt}, second=second, event=event)


def _done(status: str, second: int, *, attempt: int = 1, event: int = 2, **more: Any) -> bytes:
    payload = {**TASK, "status": status, "attempt": attempt, **more}
    return line("task_completed", payload, second=second, event=event)


def test_a_completion_before_its_start_is_completed_by_it() -> None:
    row = settled("tasks", [_done("SUCCESS", 9), _started(1)])
    assert row["status"] == "SUCCESS"
    assert row["started_at"] < row["completed_at"]


def test_a_second_attempt_whose_clock_is_behind_outranks_the_first() -> None:
    first = [_started(0), _done("FAILED", 5, error_message="no")]
    second = [_started(-100, 2, event=3), _done("SUCCESS", -90, attempt=2, event=4)]
    row = settled("tasks", [*first, *second])
    assert (row["status"], row["attempt"], row["retry_count"]) == ("SUCCESS", 2, 1)
    assert row["error_message"] is None, "what belongs to the first attempt went with it"
    running = settled("tasks", [*first, second[0]])
    assert (running["status"], running["completed_at"]) == ("RUNNING", None)


def test_a_clock_ahead_of_ours_counts_as_ours() -> None:
    ahead = line("task_started", {**TASK, "worker": "a"}, second=9_999, received=1, event=1)
    later = line("task_started", {**TASK, "worker": "b"}, second=2, received=2, event=2)
    assert settled("tasks", [ahead, later])["worker"] == "b"


def test_a_cancel_outranks_every_attempt() -> None:
    cancel = line("task_cancelled", {**TASK, "reason": "enough"}, second=1, event=7)
    later = [_started(50, 5, event=3), _done("FAILED", 60, attempt=5, event=4)]
    row = settled("tasks", [cancel, *later])
    assert (row["status"], row["error_message"]) == ("CANCELLED", "enough")
    assert _status(cancel, _done("SUCCESS", 70, attempt=6)) == "CANCELLED"
    assert _status(_done("CANCELLED", 1), _started(9, 3)) == "CANCELLED"


def test_a_published_success_outranks_a_cancel_and_a_loss() -> None:
    published = _done("SUCCESS", 3, published_version=4)
    cancel = line("task_cancelled", {**TASK, "attempt": 3}, second=50, event=7)
    lost = line("task_lost", {**TASK, "attempt": 2}, second=60, event=8)
    assert _status(published, cancel, lost) == "SUCCESS"


def test_what_a_worker_says_outranks_that_it_was_thought_lost() -> None:
    lost = line("task_lost", {**TASK, "reason": "lease_expired"}, second=60, event=8)
    assert settled("tasks", [_started(), lost])["error_message"] == "lease_expired"
    assert _status(_started(), lost) == "FAILED"
    assert _status(lost, _done("SUCCESS", 3)) == "SUCCESS"
    assert settled("tasks", [lost, _done("FAILED", 3, error_message="x")])["error_message"] == "x"


def test_a_task_waits_for_its_next_attempt_until_that_is_dispatched() -> None:
    failed = _done("FAILED", 5)
    retry = line("task_retry_scheduled", {**TASK, "attempt": 2}, second=6, event=3)
    dispatched = line("task_dispatched", {**TASK, "attempt": 2}, second=6, event=4)
    assert _status(failed, retry) == "RETRY_WAIT"
    assert _status(failed, retry, dispatched) == "DISPATCHED"
    assert _status(failed, retry, dispatched, _started(1, 2, event=5)) == "RUNNING"


def test_a_planned_task_gives_way_to_all_that_becomes_of_it() -> None:
    plan = {"execution_id": "e", "plan_id": "p", "tasks": [{"task_id": "t", **PARTITION}]}
    planned = line("execution_planned", plan, second=500, event=9)
    row = row_of([planned], "tasks")
    assert (row["status"], row["attempt"], row["partition_key"]) == ("PENDING", 0, "d=1")
    assert _status(planned, line("task_dispatched", TASK)) == "DISPATCHED"
    complete = line("partition_completed", PARTITION, second=1)
    assert row_of([planned], "partitions")["status"] == "PENDING"
    assert _status(planned, complete, table="partitions") == "COMPLETE"


def test_an_execution_goes_by_generation_and_rank() -> None:
    begun = line("execution_started", {"execution_id": "e", "pipeline_id": "p"}, second=9)
    cancel = line("cancel_requested", {"execution_id": "e", "reason": "stop"}, second=1, event=2)
    failed, done = (
        line("execution_completed", {"execution_id": "e", "status": status}, event=event)
        for event, status in ((3, "FAILED"), (4, "SUCCESS"))
    )
    second_generation = {"execution_id": "e", "pipeline_id": "p", "generation": 1}
    assert _status(begun, failed, table="executions") == "FAILED"
    assert _status(begun, failed, cancel, table="executions") == "CANCELLED"
    assert _status(begun, done, cancel, table="executions") == "SUCCESS"
    restarted = line("execution_started", second_generation, second=-50, event=5)
    assert _status(done, restarted, table="executions") == "RUNNING"


def test_an_execution_is_put_together_from_all_its_events() -> None:
    requested = {
        "execution_id": "e",
        "run_key": "k",
        "trigger_type": "MANUAL",
        "triggered_by": "ann",
    }
    row = settled(
        "executions",
        [
            line("execution_requested", requested, second=-9),
            line("execution_started", {"execution_id": "e", "pipeline_id": "p"}, event=2),
            line("execution_planned", {"execution_id": "e", "plan_id": "x"}, event=3),
        ],
    )
    columns = ("run_key", "trigger_type", "triggered_by", "pipeline_id", "plan_id", "status")
    assert [row[name] for name in columns] == ["k", "MANUAL", "ann", "p", "x", "RUNNING"]


def test_a_partition_goes_by_time_and_its_data_by_version() -> None:
    newer = {**PARTITION, "version": 8, "row_count": 80, "execution_id": "new"}
    older = {**PARTITION, "version": 7, "row_count": 70, "execution_id": "old"}
    lines = [
        line("partition_completed", newer, second=1),
        line("partition_completed", older, second=5, event=2),
        line("partition_failed", {**PARTITION, "error": "no"}, second=9, event=3),
    ]
    row = settled("partitions", lines)
    assert (row["status"], row["error_message"], row["row_count"]) == ("FAILED", "no", 80)


@pytest.mark.parametrize("status", ["FAILED", "SKIPPED", "BLOCKED"])
def test_a_task_that_does_not_succeed_fails_the_partition_that_it_names(status: str) -> None:
    running = line("task_started", {**TASK, **PARTITION})
    assert _status(running, table="partitions") == "RUNNING"
    ended = _done(status, 5, error_message="why", **PARTITION)
    row = settled("partitions", [running, ended])
    assert (row["status"], row["error_message"]) == ("FAILED", "why")
    assert row["last_execution_id"] == "e"


@pytest.mark.parametrize("end", ["task_completed", "task_cancelled"])
def test_a_cancelled_task_leaves_its_partition_to_another_task(end: str) -> None:
    before = line("partition_completed", {**PARTITION, "row_count": 80}, event=1)
    running = line("task_started", {**TASK, **PARTITION}, second=2, event=2)
    payload = {**TASK, **PARTITION, **({"status": "CANCELLED"} if end == "task_completed" else {})}
    row = settled("partitions", [before, running, line(end, payload, second=5, event=3)])
    assert (row["status"], row["row_count"]) == ("PENDING", 80)


def test_a_success_is_shown_by_the_partition_itself() -> None:
    running = line("task_started", {**TASK, **PARTITION})
    assert _status(running, _done("SUCCESS", 5, **PARTITION), table="partitions") == "RUNNING"
    complete = line("partition_completed", PARTITION, second=5, event=3)
    assert _status(running, complete, table="partitions") == "COMPLETE"


def test_statistics_of_a_known_version_outrank_those_of_an_unknown_one() -> None:
    commit = {
        "table_id": "x",
        "operation": "commit",
        "actor": "a",
        "update_source": "native",
        "metadata_location": "m",
        "committed_at": "2026-05-01T12:00:00Z",
    }
    lines = [
        line("iceberg_committed", {**commit, "pointer_number": 0}),
        line(
            "iceberg_committed",
            {**commit, "pointer_number": 1, "snapshot_id": "s", "row_count": 5},
            event=2,
        ),
        line("table_profiled", {"table_id": "x", "row_count": 99}, second=50, event=3),
        line("table_profiled", {"table_id": "x", "columns": []}, second=60, event=4),
    ]
    row = settled("table_stats", lines)
    assert (row["row_count"], row["source"], row["snapshot_id"]) == (5, "iceberg", "s")
    profiled = {"table_id": "x", "row_count": 6, "version": 1}
    row = row_of([*lines, line("table_profiled", profiled, second=70, event=5)], "table_stats")
    assert (row["row_count"], row["source"]) == (6, "profiler")
    assert len(rows_of(lines, "table_commits")) == 2


def test_the_same_result_sent_twice_is_one_result() -> None:
    check = {"table_id": "x", "check_name": "c", "check_type": "ROW_COUNT"}
    lines = [
        line("quality_check_passed", check, event=event, idempotency_key="qc:a-1:c")
        for event in (1, 2)
    ]
    assert settled("quality_results", lines)["result_id"] == "qc:a-1:c"
    assert len(rows_of([*lines, line("quality_check_failed", check)], "quality_results")) == 2


def test_schedules_sensors_and_backfills_go_by_their_own_numbers() -> None:
    earlier_tick, later_tick = "2026-05-01T10:00:00Z", "2026-05-02T10:00:00Z"
    ticks = [
        line("schedule_ticked", {"schedule_id": "s", "tick_at": later_tick}, second=1),
        line("schedule_ticked", {"schedule_id": "s", "tick_at": earlier_tick}, second=9, event=2),
    ]
    assert settled("schedules", ticks)["last_tick_at"].day == 2
    looks = [
        line("sensor_evaluated", {"sensor_id": "s", "cursor": "b", "cursor_number": 2}, second=1),
        line("sensor_evaluated", {"sensor_id": "s", "cursor": "a", "cursor_number": 1}, event=2),
    ]
    assert settled("sensors", looks)["cursor"] == "b"
    steps = [
        line("backfill_created", {"backfill_id": "b", "partitions_total": 9}),
        line("backfill_chunk_planned", {"backfill_id": "b", "chunk": 2}, event=2),
        line("backfill_chunk_planned", {"backfill_id": "b", "chunk": 1}, second=9, event=3),
        line("backfill_state_changed", {"backfill_id": "b", "status": "FAILED", "change": 1}),
        line("backfill_state_changed", {"backfill_id": "b", "status": "RUNNING", "change": 2}),
    ]
    row = settled("backfills", steps)
    assert (row["status"], row["chunks_planned"], row["partitions_total"]) == ("RUNNING", 2, 9)


def test_an_event_that_counted_nothing_leaves_what_others_counted() -> None:
    lines = [
        line("table_profiled", {"table_id": "x", "row_count": 9, "snapshot_id": "s"}, second=1),
        line("table_profiled", {"table_id": "x", "snapshot_id": "t"}, second=5, event=2),
    ]
    row = settled("table_stats", lines)
    assert (row["row_count"], row["snapshot_id"]) == (9, "s")


def test_the_first_version_of_a_table_outranks_an_unknown_one() -> None:
    lines = [
        line("table_profiled", {"table_id": "x", "row_count": 1, "version": 0}, second=1),
        line("table_profiled", {"table_id": "x", "row_count": 2}, second=5, event=2),
    ]
    assert settled("table_stats", lines)["row_count"] == 1


def test_one_event_names_a_partition_once() -> None:
    tasks = [
        {"task_id": key, "table_id": "x", "partition_id": "own", "partition_key": key}
        for key in ("first", "second")
    ]
    plan = {"execution_id": "e", "plan_id": "p", "tasks": tasks}
    [row] = read([line("execution_planned", plan)]).rows["partitions"].to_pylist()
    assert row["partition_key"] == "first"


def test_events_that_share_an_id_but_not_their_clock_still_have_an_order() -> None:
    lines = [line("task_started", TASK, second=second, received=0) for second in (1, 2)]
    settled("tasks", lines)


def test_events_that_share_an_id_but_not_their_execution_still_have_an_order() -> None:
    lines = [
        line("partition_completed", PARTITION, source={"type": "t", "execution_id": execution})
        for execution in ("e", "f")
    ]
    settled("partitions", lines)


def test_two_types_of_event_that_say_the_same_under_one_id_are_not_alike() -> None:
    """A sender's mistake must not make a row depend on which of them was read first."""
    completed, failed = line("partition_completed", PARTITION), line("partition_failed", PARTITION)
    assert settled("partitions", [completed, failed])["status"] in ("COMPLETE", "FAILED")
    check = {"table_id": "x", "check_name": "c", "check_type": "ROW_COUNT"}
    passed = line("quality_check_passed", check, idempotency_key="k")
    refuted = line("quality_check_failed", check, idempotency_key="k")
    assert settled("quality_results", [passed, refuted])["status"] in ("PASSED", "FAILED")


def test_a_value_of_a_dimension_exists_if_the_newest_event_added_it() -> None:
    acme = {"dimension": "customer", "value": "acme"}
    lines = [
        line("partition_value_added", acme, second=1),
        line("partition_value_removed", acme, second=5, event=2),
    ]
    row = settled("partition_values", lines)
    assert (row["status"], row["added_at"].second, row["removed_at"].second) == ("REMOVED", 1, 5)
    readded = settled("partition_values", [*lines, line("partition_value_added", acme, second=9)])
    assert (readded["status"], readded["added_at"].second) == ("PRESENT", 1)
