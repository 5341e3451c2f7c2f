"""The documents of this package; a field has the name of its column in `system`."""

from datetime import datetime
from typing import Literal

import msgspec

from arco.api.responses import ResponseModel

ExecutionStatus = Literal["PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED"]
PartitionStatus = Literal["PENDING", "RUNNING", "COMPLETE", "FAILED"]
Counts = dict[str, int]


class ExecutionSummary(ResponseModel, frozen=True, kw_only=True):
    """A run of a pipeline. Fields that no event has reported yet are null."""

    execution_id: str
    pipeline_id: str | None
    pipeline_name: str | None
    status: str | None
    trigger_type: str | None
    triggered_by: str | None
    run_key: str | None
    plan_id: str | None
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    error_message: str | None


class FlowRun(ExecutionSummary, frozen=True, kw_only=True):
    """A run of a pipeline, as `/runs` lists it. Fields that no event has reported yet are null."""

    execution_id: str = msgspec.field(name="run_id")


class FlowRunPage(ResponseModel, frozen=True, kw_only=True):
    """Runs, those that have not begun first, then the latest to begin."""

    items: tuple[FlowRun, ...]
    next_page_token: str | None


class RunPage(ResponseModel, frozen=True, kw_only=True):
    """Runs, those that have not begun first, then the latest to begin."""

    items: tuple[ExecutionSummary, ...]
    next_page_token: str | None


class Execution(ExecutionSummary, frozen=True, kw_only=True):
    """A run, and how many of its tasks are in which status."""

    task_counts: Counts


class TaskRun(ResponseModel, frozen=True, kw_only=True):
    """A task of a run, at its newest attempt."""

    execution_id: str
    task_id: str
    task_name: str | None
    table_id: str | None
    partition_key: str | None
    status: str | None
    attempt: int | None
    retry_count: int | None
    worker: str | None
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    error_message: str | None
    input_tables: list[str] | None
    output_tables: list[str] | None
    input_partitions: list[str] | None
    output_partitions: list[str] | None
    rows_read: int | None
    rows_written: int | None
    bytes_read: int | None
    bytes_written: int | None
    metrics: dict[str, str] | None


class FlowTask(TaskRun, frozen=True, kw_only=True):
    """A task of a run, at its newest attempt, as `/runs` lists it."""

    execution_id: str = msgspec.field(name="run_id")


class FlowTaskPage(ResponseModel, frozen=True, kw_only=True):
    """Tasks of a run by their ids."""

    items: tuple[FlowTask, ...]
    next_page_token: str | None


class TaskRunPage(ResponseModel, frozen=True, kw_only=True):
    """Tasks of a run by their ids."""

    items: tuple[TaskRun, ...]
    next_page_token: str | None


class PartitionResponse(ResponseModel, frozen=True, kw_only=True):
    """A partition of a table.

    `detailed_status` is the status, and of a failure whether older data are served or none were ever made:
    `FAILED_OLDER_DATA_SERVED`, `FAILED_NEVER_MADE`.
    """

    partition_id: str
    table_id: str
    partition_key: str | None
    partition_values: dict[str, str] | None
    status: str | None
    detailed_status: str | None
    error_message: str | None
    row_count: int | None
    size_bytes: int | None
    materialization_id: str | None
    input_fingerprint: str | None
    code_fingerprint: str | None
    created_at: datetime | None
    updated_at: datetime | None
    last_successful_run: datetime | None
    last_execution_id: str | None


class PartitionPage(ResponseModel, frozen=True, kw_only=True):
    """Partitions of a table by their keys; `status_counts` is of all of them, whatever is asked for."""

    items: tuple[PartitionResponse, ...]
    status_counts: Counts
    next_page_token: str | None


class CheckResult(ResponseModel, frozen=True, kw_only=True):
    """The result of a check."""

    result_id: str
    check_name: str
    check_type: str | None
    status: str | None
    severity: str | None
    blocking: bool | None
    expected_value: str | None
    actual_value: str | None
    message: str | None
    partition_id: str | None
    execution_id: str | None
    task_id: str | None
    checked_at: datetime | None


class TableHealth(ResponseModel, frozen=True, kw_only=True):
    """The latest result of each check of a table, and the worst of them as its status.

    `UNKNOWN`: nothing was checked, or every check was skipped.
    """

    table_id: str
    status: Literal["PASSED", "WARNING", "FAILED", "UNKNOWN"]
    status_counts: Counts
    checks: tuple[CheckResult, ...]


class ColumnStatistics(ResponseModel, frozen=True, kw_only=True):
    """The statistics of a column; values are given as text."""

    column_id: str
    column_name: str | None
    row_count: int | None
    null_count: int | None
    distinct_count: int | None
    min_value: str | None
    max_value: str | None
    size_bytes: int | None
    last_modified_at: datetime | None
    snapshot_id: str | None
    source: str | None


class TableStatistics(ResponseModel, frozen=True, kw_only=True):
    """The statistics of a table, from a profiler or from commits; null until there are any."""

    table_id: str
    row_count: int | None = None
    size_bytes: int | None = None
    file_count: int | None = None
    last_modified_at: datetime | None = None
    snapshot_id: str | None = None
    source: str | None = None
    columns: tuple[ColumnStatistics, ...] = ()


def columns_of(response: type[ResponseModel], *others: str) -> tuple[str, ...]:
    """The columns that a response is made from, without `others`, which are computed."""
    names = (field.name for field in msgspec.structs.fields(response))
    return tuple(name for name in names if name not in others)
