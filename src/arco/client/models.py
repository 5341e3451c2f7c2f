"""The documents that an Arco answers with, as types.

Fields have the names of the REST API. Unknown fields, which a newer server may send, are ignored, but `raw`
has the document as it came.
"""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from arco.core import json

D = TypeVar("D", bound="ApiDocument")


class ApiDocument(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A document of the API."""

    @property
    def raw(self) -> bytes:
        """The JSON document as the server sent it."""
        sent: bytes | None = self.__dict__.get("_raw")
        return json.encode(self) if sent is None else sent


def decode(raw: "bytes | msgspec.Raw", kind: type[D]) -> D:
    """The document that the server sent."""
    content = bytes(raw)
    document = json.decode(content, kind)
    document.__dict__["_raw"] = content
    return document


# Catalog


class ColumnDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column to create. `data_type` is Spark SQL's simple string, such as bigint or decimal(10,2)."""

    name: str
    data_type: str
    nullable: bool = True
    comment: str | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: str | None = None


class ColumnInfo(ApiDocument, frozen=True, kw_only=True):
    """A column of a table or view."""

    id: str = ""
    name: str
    data_type: str
    position: int = 0
    nullable: bool = True
    comment: str | None = None
    default_value: str | None = None
    pii_type: str | None = None
    sensitivity: str | None = None
    created_at: datetime | None = None
    created_by: str | None = None
    updated_at: datetime | None = None
    updated_by: str | None = None


class ObjectInfo(ApiDocument, frozen=True, kw_only=True):
    """What every object of the catalog has. `commit` is the number of the commit that changed it last."""

    id: str
    kind: str
    name: str
    full_name: str
    comment: str | None = None
    properties: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    owner: str | None = None
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    dropped_at: datetime | None = None
    commit: int


class CatalogInfo(ObjectInfo, frozen=True, kw_only=True):
    """A catalog."""


class SchemaInfo(ObjectInfo, frozen=True, kw_only=True):
    """A schema; `schema` has all its levels, its own name last."""

    catalog: str = ""
    schema: tuple[str, ...] = ()
    catalog_id: str = ""
    parent_id: str | None = None


class TableInfo(ObjectInfo, frozen=True, kw_only=True):
    """A table or a view. A list has `columns` only if it was asked for them."""

    catalog: str = ""
    schema: tuple[str, ...] = ()
    catalog_id: str = ""
    schema_id: str = ""
    format: str | None = None
    table_type: str | None = None
    location: str | None = None
    schema_version: int | None = None
    pii_columns: tuple[str, ...] = ()
    columns: tuple[ColumnInfo, ...] = ()


class ViewRepresentation(msgspec.Struct, frozen=True, kw_only=True):
    """The query of a view in one dialect of SQL."""

    sql: str
    dialect: str = "spark"


class ViewInfo(TableInfo, frozen=True, kw_only=True):
    """A view. A list does not have its queries."""

    representations: tuple[ViewRepresentation, ...] = ()
    default_catalog: str | None = None
    default_namespace: tuple[str, ...] = ()


class ObjectVersionInfo(ApiDocument, frozen=True, kw_only=True):
    """One state of an object, with the commit that made it. Without an operation the commit is deleted."""

    number: int
    commit_ulid: str | None = None
    at: datetime
    operation: str | None = None
    actor: str
    fields: dict[str, Any] = msgspec.field(name="object", default_factory=dict)
    columns: tuple[ColumnInfo, ...] = ()


class ObjectChange(ApiDocument, frozen=True, kw_only=True):
    """An object that differs between two points; `before` and `after` have the fields that differ."""

    change: str
    kind: str
    id: str
    name: str
    commit: int
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}


class SchemaVersionInfo(ApiDocument, frozen=True, kw_only=True):
    """The columns of a table from one change to the next, and what the change was."""

    version: int
    changes: Any
    columns: Any
    changed_at: datetime
    changed_by: str


class CommitInfo(ApiDocument, frozen=True, kw_only=True):
    """The audit record of one commit; `sha256` is that of its manifest, an anchor for `arco verify`."""

    number: int
    sha256: str
    published_at: datetime
    commit: dict[str, Any]


class ManifestInfo(ApiDocument, frozen=True, kw_only=True):
    """What is published in a domain; number -1 before the first."""

    domain: str = ""
    number: int
    sha256: str | None = None
    created_at: datetime | None = None
    manifest: dict[str, Any] | None = None


class QueryColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a query's result, with its Arrow type."""

    name: str
    type: str


class QueryResult(ApiDocument, frozen=True, kw_only=True):
    """The rows of a query."""

    columns: tuple[QueryColumn, ...]
    rows: list[list[Any]]

    def dicts(self) -> list[dict[str, Any]]:
        """Each row as a dictionary by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


# Events and quarantine


class RejectedLine(msgspec.Struct, frozen=True):
    """A line of a batch that was not stored, counted from 1, and why."""

    line: int
    reason: str


class AppendedEvents(ApiDocument, frozen=True, kw_only=True):
    """What became of a batch. `event_ids` are those of the accepted lines, in their order."""

    accepted: int
    event_ids: tuple[str, ...] = ()
    duplicates: list[dict[str, Any]] = []
    refused: tuple[RejectedLine, ...] = ()


class QuarantineLine(msgspec.Struct, frozen=True, order=True):
    """The position of an event in quarantine."""

    domain: str
    stream: str
    segment: int
    line: int

    def __str__(self) -> str:
        return f"{self.domain}/{self.stream}/{self.segment}/{self.line}"


class ReplayedEvent(ApiDocument, frozen=True, kw_only=True):
    """An event of the quarantine that was sent again."""

    event_id: str = ""
    event_type: str


# Runs, executions and tables


class RunInfo(ApiDocument, frozen=True, kw_only=True):
    """A run of a pipeline. Fields that no event has set are null."""

    run_id: str
    pipeline_id: str | None = None
    pipeline_name: str | None = None
    status: str | None = None
    trigger_type: str | None = None
    triggered_by: str | None = None
    run_key: str | None = None
    plan_id: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None
    error_message: str | None = None


class ExecutionInfo(RunInfo, frozen=True, kw_only=True):
    """A run of any pipeline that sends events; one by id also has its tasks counted by status."""

    run_id: str = msgspec.field(name="execution_id")
    task_counts: dict[str, int] = {}


class TaskInfo(ApiDocument, frozen=True, kw_only=True):
    """A task of a run, at its newest attempt."""

    run_id: str
    task_id: str
    task_name: str | None = None
    table_id: str | None = None
    partition_key: str | None = None
    status: str | None = None
    attempt: int | None = None
    retry_count: int | None = None
    worker: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None
    error_message: str | None = None
    input_tables: list[str] | None = None
    output_tables: list[str] | None = None
    input_partitions: list[str] | None = None
    output_partitions: list[str] | None = None
    rows_read: int | None = None
    rows_written: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    metrics: dict[str, str] | None = None


class ExecutionTaskInfo(TaskInfo, frozen=True, kw_only=True):
    """A task of an execution, at its newest attempt."""

    run_id: str = msgspec.field(name="execution_id")


class TaskLogChunk(ApiDocument, frozen=True, kw_only=True):
    """A part of the log of an attempt; `next` is where to go on, `is_over` that no more will come."""

    run_id: str = ""
    task: str = ""
    attempt: int
    attempt_id: str = ""
    text: str
    next: int
    is_over: bool


class PartitionInfo(ApiDocument, frozen=True, kw_only=True):
    """A partition of a table."""

    partition_id: str
    table_id: str
    partition_key: str | None = None
    partition_values: dict[str, str] | None = None
    status: str | None = None
    detailed_status: str | None = None
    error_message: str | None = None
    row_count: int | None = None
    size_bytes: int | None = None
    materialization_id: str | None = None
    input_fingerprint: str | None = None
    code_fingerprint: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_successful_run: datetime | None = None
    last_execution_id: str | None = None


class CheckInfo(ApiDocument, frozen=True, kw_only=True):
    """The latest result of a data quality check."""

    result_id: str
    check_name: str
    check_type: str | None = None
    status: str | None = None
    severity: str | None = None
    blocking: bool | None = None
    expected_value: str | None = None
    actual_value: str | None = None
    message: str | None = None
    partition_id: str | None = None
    execution_id: str | None = None
    task_id: str | None = None
    checked_at: datetime | None = None


class TableHealthInfo(ApiDocument, frozen=True, kw_only=True):
    """The checks of a table, and the worst status of them: PASSED, WARNING, FAILED or UNKNOWN."""

    table_id: str
    status: str
    status_counts: dict[str, int] = {}
    checks: tuple[CheckInfo, ...] = ()


class ColumnStatisticsInfo(ApiDocument, frozen=True, kw_only=True):
    """Statistics of a column; values are text."""

    column_id: str
    column_name: str | None = None
    row_count: int | None = None
    null_count: int | None = None
    distinct_count: int | None = None
    min_value: str | None = None
    max_value: str | None = None
    size_bytes: int | None = None
    last_modified_at: datetime | None = None
    snapshot_id: str | None = None
    source: str | None = None


class TableStatisticsInfo(ApiDocument, frozen=True, kw_only=True):
    """Statistics of a table, by a profiler or by its writers; null before the first."""

    table_id: str
    row_count: int | None = None
    size_bytes: int | None = None
    file_count: int | None = None
    last_modified_at: datetime | None = None
    snapshot_id: str | None = None
    source: str | None = None
    columns: tuple[ColumnStatisticsInfo, ...] = ()


# The server itself


class DomainLagInfo(ApiDocument, frozen=True, kw_only=True):
    """How far compaction of a domain is behind; `lag_ms` is the age of its oldest event that waits."""

    domain: str
    manifest: int
    lag_ms: int
    waiting_segments: int
    waiting_events: int = 0
    oldest_received_at: datetime | None = None
    published_at: datetime | None = None


class HealthReasonInfo(ApiDocument, frozen=True, kw_only=True):
    """Why a server is degraded, and what to do."""

    code: str
    message: str
    domain: str | None = None


class HealthInfo(ApiDocument, frozen=True, kw_only=True):
    """The health of a server: `ok`, or `degraded` with the reasons."""

    status: str
    reasons: tuple[HealthReasonInfo, ...] = ()
    compaction: dict[str, Any] = {}
    domains: tuple[DomainLagInfo, ...] | None = None
