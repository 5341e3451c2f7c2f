"""The state tables of Tier 2, made of events, by domain.

A row is assembled from many events in any order. Facts that never change once they are set are merged by
value. Columns that belong together are one group, with the order that decides between two events in a
hidden column beside them (P19). Every row holds the newest time of its events, by which retention removes
it (P20). Counters are counted from rows, never added up.
"""

from arco.fold.table import (
    BOOLEAN,
    BYTES,
    INTEGER,
    STRING,
    STRINGS,
    TEXTS,
    TIME,
    BucketSpec,
    MergeRule,
    MergeStrategy,
    StateColumn,
    StateTable,
    columns,
    tables_by_name,
)

OCCURRED = "_occurred_at"
ORDER = "_told"  # the order of a table with one group of columns; the stored name

EXECUTIONS_DOMAIN = "executions"
LINEAGE_DOMAIN = "lineage"
SEARCH_DOMAIN = "search"

_OCCURRED = StateColumn(OCCURRED, TIME)


def _order(name: str) -> StateColumn:
    return StateColumn(name, BYTES)


def _last_by(order: str, *names: str) -> MergeRule:
    """A group of columns, all taken from the event that is highest in the order."""
    return MergeRule(MergeStrategy.LAST, names, (order,))


def _set_once(*names: str) -> tuple[MergeRule, ...]:
    """Facts that never change once they are set; if two events disagree, the larger value wins."""
    return _latest(*names)


def _latest(*names: str) -> tuple[MergeRule, ...]:
    """The largest value wins; of times, the latest."""
    return tuple(MergeRule(MergeStrategy.MAX, (name,)) for name in names)


def _earliest(*names: str) -> tuple[MergeRule, ...]:
    """The smallest value wins; of times, the earliest."""
    return tuple(MergeRule(MergeStrategy.MIN, (name,)) for name in names)


EXECUTIONS = StateTable(
    "executions",
    key=("execution_id",),
    columns=(
        *columns(execution_id=STRING, pipeline_id=STRING, pipeline_name=STRING),
        *columns(status=STRING, trigger_type=STRING, triggered_by=STRING),
        *columns(run_key=STRING, plan_id=STRING, started_at=TIME),
        *columns(completed_at=TIME, duration_ms=INTEGER, error_message=STRING),
        *(_order("_status"), _OCCURRED),
    ),
    rules=(
        _last_by("_status", "status", "completed_at", "duration_ms", "error_message"),
        *_set_once("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key"),
        *_set_once("plan_id"),
        *_latest(OCCURRED),
        *_earliest("started_at"),
    ),
    parent=(),
    label="execution_id",
    bucket=BucketSpec("execution_id", 64),
)
TASKS = StateTable(
    "tasks",
    key=("execution_id", "task_id"),
    columns=(
        *columns(task_id=STRING, execution_id=STRING, task_name=STRING),
        *columns(table_id=STRING, partition_key=STRING, status=STRING),
        *columns(attempt=INTEGER, retry_count=INTEGER, worker=STRING),
        *columns(started_at=TIME, completed_at=TIME, duration_ms=INTEGER),
        *columns(error_message=STRING, input_tables=STRINGS, output_tables=STRINGS),
        *columns(input_partitions=STRINGS, output_partitions=STRINGS),
        *columns(rows_read=INTEGER, rows_written=INTEGER, bytes_read=INTEGER),
        *columns(bytes_written=INTEGER, metrics=TEXTS),
        *(_order("_status"), _order("_started"), _order("_outcome"), _OCCURRED),
    ),
    rules=(
        _last_by("_status", "status", "attempt", "completed_at", "duration_ms", "error_message"),
        _last_by("_started", "started_at", "worker"),
        _last_by(
            *("_outcome", "input_tables", "output_tables", "input_partitions", "output_partitions"),
            *("rows_read", "rows_written", "bytes_read", "bytes_written", "metrics"),
        ),
        *_set_once("task_name", "table_id", "partition_key", "retry_count"),
        *_latest(OCCURRED),
    ),
    parent=("execution_id",),
    label="task_id",
    bucket=BucketSpec("execution_id", 64),
)
PARTITIONS = StateTable(
    "partitions",
    key=("table_id", "partition_id"),
    columns=(
        *columns(partition_id=STRING, table_id=STRING, partition_key=STRING),
        *columns(partition_values=TEXTS, status=STRING, error_message=STRING),
        *columns(row_count=INTEGER, size_bytes=INTEGER, materialization_id=STRING),
        *columns(input_fingerprint=STRING, code_fingerprint=STRING),
        *columns(created_at=TIME, updated_at=TIME, last_successful_run=TIME),
        *(StateColumn("last_execution_id"), _order("_named"), _order("_status"), _order("_data")),
        *(_OCCURRED, StateColumn("last_successful_execution_id")),
    ),
    rules=(
        _last_by("_named", "partition_key", "partition_values"),
        _last_by("_status", "status", "error_message", "last_execution_id"),
        _last_by(
            *("_data", "row_count", "size_bytes", "materialization_id", "input_fingerprint"),
            *("code_fingerprint", "last_successful_run", "last_successful_execution_id"),
        ),
        *_earliest("created_at"),
        *_latest("updated_at", OCCURRED),
    ),
    parent=("table_id",),
    label="partition_key",
    bucket=BucketSpec("table_id", 64),
)
QUALITY_RESULTS = StateTable(
    "quality_results",
    key=("table_id", "result_id"),
    columns=(
        *columns(result_id=STRING, table_id=STRING, partition_id=STRING),
        *columns(check_name=STRING, check_type=STRING, status=STRING),
        *columns(severity=STRING, blocking=BOOLEAN, expected_value=STRING),
        *columns(actual_value=STRING, message=STRING, execution_id=STRING),
        *(StateColumn("task_id"), StateColumn("checked_at", TIME), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(
            *(ORDER, "partition_id", "check_name", "check_type", "status", "severity"),
            *("blocking", "expected_value", "actual_value", "message", "execution_id", "task_id"),
            "checked_at",
        ),
        *_latest(OCCURRED),
    ),
    parent=("table_id",),
    label="checked_at",
    bucket=BucketSpec("table_id", 64),
)
TABLE_STATS = StateTable(
    "table_stats",
    key=("table_id",),
    columns=(
        *columns(table_id=STRING, row_count=INTEGER, size_bytes=INTEGER),
        *columns(file_count=INTEGER, last_modified_at=TIME, snapshot_id=STRING),
        *(StateColumn("source"), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(ORDER, "row_count", "size_bytes", "file_count", "snapshot_id", "source"),
        *_latest("last_modified_at", OCCURRED),
    ),
    parent=(),
    label="table_id",
    bucket=BucketSpec("table_id", 64),
)
COLUMN_STATS = StateTable(
    "column_stats",
    key=("table_id", "column_id"),
    columns=(
        *columns(column_id=STRING, table_id=STRING, column_name=STRING),
        *columns(row_count=INTEGER, null_count=INTEGER, distinct_count=INTEGER),
        *columns(min_value=STRING, max_value=STRING, size_bytes=INTEGER),
        *columns(last_modified_at=TIME, snapshot_id=STRING, source=STRING),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(
            *(ORDER, "column_name", "row_count", "null_count", "distinct_count", "min_value"),
            *("max_value", "size_bytes", "snapshot_id", "source"),
        ),
        *_latest("last_modified_at", OCCURRED),
    ),
    parent=("table_id",),
    label="column_id",
    bucket=BucketSpec("table_id", 64),
)
TABLE_COMMITS = StateTable(
    "table_commits",
    key=("table_id", "pointer_number"),
    columns=(
        *columns(table_id=STRING, pointer_number=INTEGER, commit_id=STRING),
        *columns(operation=STRING, actor=STRING, engine=STRING),
        *columns(update_source=STRING, snapshot_id=STRING, metadata_location=STRING),
        *columns(changed=STRING, added_rows=INTEGER, added_bytes=INTEGER),
        *(StateColumn("committed_at", TIME), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(
            *(ORDER, "commit_id", "operation", "actor", "engine", "update_source"),
            *("snapshot_id", "metadata_location", "changed", "added_rows", "added_bytes"),
            "committed_at",
        ),
        *_latest(OCCURRED),
    ),
    parent=("table_id",),
    label="committed_at",
    bucket=BucketSpec("table_id", 64),
)
SCHEDULES = StateTable(
    "schedules",
    key=("schedule_id",),
    columns=(
        *columns(schedule_id=STRING, pipeline_id=STRING, definition=STRING),
        *columns(status=STRING, last_tick_at=TIME, next_at=TIME),
        *(StateColumn("last_run_key"), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(ORDER, "definition", "status", "last_tick_at", "next_at", "last_run_key"),
        *_set_once("pipeline_id"),
        *_latest(OCCURRED),
    ),
    parent=(),
    label="schedule_id",
)
SENSORS = StateTable(
    "sensors",
    key=("sensor_id",),
    columns=(
        *columns(sensor_id=STRING, pipeline_id=STRING, definition=STRING),
        *columns(status=STRING, cursor=STRING, cursor_number=INTEGER),
        *columns(evaluated_at=TIME, next_at=TIME, error_message=STRING),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(
            *(ORDER, "definition", "status", "cursor", "cursor_number", "evaluated_at"),
            *("next_at", "error_message"),
        ),
        *_set_once("pipeline_id"),
        *_latest(OCCURRED),
    ),
    parent=(),
    label="sensor_id",
)
BACKFILLS = StateTable(
    "backfills",
    key=("backfill_id",),
    columns=(
        *columns(backfill_id=STRING, pipeline_id=STRING, definition=STRING),
        *columns(status=STRING, error_message=STRING, partitions_total=INTEGER),
        *columns(chunks_planned=INTEGER, created_at=TIME, updated_at=TIME),
        *(_order("_status"), _OCCURRED),
    ),
    rules=(
        _last_by("_status", "status", "error_message"),
        *_set_once("pipeline_id", "definition", "partitions_total", "chunks_planned"),
        *_latest("updated_at", OCCURRED),
        *_earliest("created_at"),
    ),
    parent=(),
    label="backfill_id",
)
# The values of dynamic partition dimensions, which events add and remove.
PARTITION_VALUES = StateTable(
    "partition_values",
    key=("dimension", "value"),
    columns=(
        *columns(dimension=STRING, value=STRING, status=STRING),
        *columns(added_at=TIME, removed_at=TIME, execution_id=STRING),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(ORDER, "status", "execution_id"),
        *_earliest("added_at"),
        *_latest("removed_at", OCCURRED),
    ),
    parent=("dimension",),
    label="value",
)
LINEAGE_EDGES = StateTable(
    "lineage_edges",
    key=("target_table_id", "edge_id"),
    columns=(
        *columns(edge_id=STRING, source_table_id=STRING, source_column_id=STRING),
        *columns(target_table_id=STRING, target_column_id=STRING),
        *columns(source_name=STRING, target_name=STRING, transformation_type=STRING),
        *columns(transformation_sql=STRING, transform_fingerprint=STRING),
        *columns(pipeline_id=STRING, execution_id=STRING, soundness=STRING),
        *columns(first_observed_at=TIME, last_observed_at=TIME, created_at=TIME),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(
            *(ORDER, "source_name", "target_name", "transformation_sql", "pipeline_id"),
            *("execution_id", "soundness"),
        ),
        *_set_once(
            "source_table_id", "source_column_id", "target_column_id", "transformation_type"
        ),
        *_set_once("transform_fingerprint"),
        *_latest("last_observed_at", OCCURRED),
        *_earliest("first_observed_at", "created_at"),
    ),
    parent=("target_table_id",),
    label="source_table_id",
    bucket=BucketSpec("target_table_id", 128),
)
EDGE_OBSERVATIONS = StateTable(
    "edge_observations",
    key=("target_table_id", "edge_id", "execution_id", "task_id"),
    columns=(
        *columns(edge_id=STRING, target_table_id=STRING, execution_id=STRING),
        *(
            StateColumn("task_id"),
            StateColumn("observed_at", TIME),
            _OCCURRED,
            StateColumn("soundness"),
        ),
    ),
    rules=(*_latest("observed_at"), *_set_once("soundness"), *_latest(OCCURRED)),
    parent=("target_table_id",),
    label="edge_id",
    bucket=BucketSpec("target_table_id", 128),
)
PARTITION_LINEAGE = StateTable(
    "partition_lineage",
    key=(
        *("target_table_id", "target_partition_key", "source_table_id", "source_partition_key"),
        "execution_id",
    ),
    columns=(
        *columns(target_table_id=STRING, target_partition_key=STRING),
        *columns(source_table_id=STRING, source_partition_key=STRING),
        *columns(source_version=STRING, rows_read=INTEGER, bytes_read=INTEGER),
        *(StateColumn("execution_id"), StateColumn("observed_at", TIME), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(ORDER, "source_version", "rows_read", "bytes_read"),
        *_latest("observed_at", OCCURRED),
    ),
    parent=("target_table_id",),
    label="target_partition_key",
    bucket=BucketSpec("target_table_id", 64),
)
SEARCH_DOCUMENTS = StateTable(
    "search_documents",
    key=("document_id",),
    columns=(
        *columns(document_id=STRING, kind=STRING, title=STRING, text=STRING),
        *columns(tags=STRINGS, removed=BOOLEAN, indexed_at=TIME),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last_by(ORDER, "kind", "title", "text", "tags", "removed", "indexed_at"),
        *_latest(OCCURRED),
    ),
    parent=(),
    label="document_id",
    bucket=BucketSpec("document_id", 64),
)
# Acknowledged lines that cannot be folded (P18). Each domain has such a table.
QUARANTINE = StateTable(
    "quarantine",
    key=("stream", "segment", "line"),
    columns=(
        *columns(stream=STRING, segment=INTEGER, line=INTEGER),
        *columns(event_id=STRING, event_type=STRING, event_version=INTEGER),
        *columns(reason=STRING, body=STRING, received_at=TIME),
        *(StateColumn("replayed_at", TIME), _OCCURRED),
    ),
    rules=(
        *_set_once("event_id", "event_type", "event_version", "reason", "body", "received_at"),
        *_set_once("replayed_at"),
        *_latest(OCCURRED),
    ),
    parent=("stream",),
    label="segment",
)

TIER2: dict[str, dict[str, StateTable]] = {
    EXECUTIONS_DOMAIN: tables_by_name(
        (
            *(EXECUTIONS, TASKS, PARTITIONS, QUALITY_RESULTS, TABLE_STATS, COLUMN_STATS),
            *(TABLE_COMMITS, SCHEDULES, SENSORS, BACKFILLS, PARTITION_VALUES, QUARANTINE),
        )
    ),
    LINEAGE_DOMAIN: tables_by_name(
        (LINEAGE_EDGES, EDGE_OBSERVATIONS, PARTITION_LINEAGE, QUARANTINE)
    ),
    SEARCH_DOMAIN: tables_by_name((SEARCH_DOCUMENTS, QUARANTINE)),
}
