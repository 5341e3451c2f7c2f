"""The state tables of Tier 2, made of events, by domain.

A row is assembled from many events in any order. Facts that never change once they are set are merged by
value. Columns that belong together are one group, with the order that decides between two events in a
hidden column beside them (P19). Every row holds the newest time of its events, by which retention removes
it (P20). Counters are counted from rows, never added up.
"""

from arco.fold.table import (
    BucketSpec,
    ColumnType,
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

_OCCURRED = StateColumn(OCCURRED, ColumnType.TIME)


def _order(name: str) -> StateColumn:
    return StateColumn(name, ColumnType.BYTES)


def _last(order: str, *names: str) -> MergeRule:
    """A group of columns, all taken from the event that is highest in the order."""
    return MergeRule(MergeStrategy.LAST, names, (order,))


def _constant(*names: str) -> tuple[MergeRule, ...]:
    """Facts that never change once they are set; if two events disagree, the larger value wins."""
    return tuple(MergeRule(MergeStrategy.MAX, (name,)) for name in names)


def _first(*names: str) -> tuple[MergeRule, ...]:
    return tuple(MergeRule(MergeStrategy.MIN, (name,)) for name in names)


EXECUTIONS = StateTable(
    "executions",
    key=("execution_id",),
    columns=(
        *columns(
            execution_id=ColumnType.STRING,
            pipeline_id=ColumnType.STRING,
            pipeline_name=ColumnType.STRING,
        ),
        *columns(
            status=ColumnType.STRING, trigger_type=ColumnType.STRING, triggered_by=ColumnType.STRING
        ),
        *columns(run_key=ColumnType.STRING, plan_id=ColumnType.STRING, started_at=ColumnType.TIME),
        *columns(
            completed_at=ColumnType.TIME,
            duration_ms=ColumnType.INTEGER,
            error_message=ColumnType.STRING,
        ),
        *(_order("_status"), _OCCURRED),
    ),
    rules=(
        _last("_status", "status", "completed_at", "duration_ms", "error_message"),
        *_constant("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key"),
        *_constant("plan_id", OCCURRED),
        *_first("started_at"),
    ),
    parent=(),
    label="execution_id",
    bucket=BucketSpec("execution_id", 64),
)
TASKS = StateTable(
    "tasks",
    key=("execution_id", "task_id"),
    columns=(
        *columns(
            task_id=ColumnType.STRING, execution_id=ColumnType.STRING, task_name=ColumnType.STRING
        ),
        *columns(
            table_id=ColumnType.STRING, partition_key=ColumnType.STRING, status=ColumnType.STRING
        ),
        *columns(
            attempt=ColumnType.INTEGER, retry_count=ColumnType.INTEGER, worker=ColumnType.STRING
        ),
        *columns(
            started_at=ColumnType.TIME, completed_at=ColumnType.TIME, duration_ms=ColumnType.INTEGER
        ),
        *columns(
            error_message=ColumnType.STRING,
            input_tables=ColumnType.STRINGS,
            output_tables=ColumnType.STRINGS,
        ),
        *columns(input_partitions=ColumnType.STRINGS, output_partitions=ColumnType.STRINGS),
        *columns(
            rows_read=ColumnType.INTEGER,
            rows_written=ColumnType.INTEGER,
            bytes_read=ColumnType.INTEGER,
        ),
        *columns(bytes_written=ColumnType.INTEGER, metrics=ColumnType.TEXTS),
        *(_order("_status"), _order("_started"), _order("_outcome"), _OCCURRED),
    ),
    rules=(
        _last("_status", "status", "attempt", "completed_at", "duration_ms", "error_message"),
        _last("_started", "started_at", "worker"),
        _last(
            *("_outcome", "input_tables", "output_tables", "input_partitions", "output_partitions"),
            *("rows_read", "rows_written", "bytes_read", "bytes_written", "metrics"),
        ),
        *_constant("task_name", "table_id", "partition_key", "retry_count", OCCURRED),
    ),
    parent=("execution_id",),
    label="task_id",
    bucket=BucketSpec("execution_id", 64),
)
PARTITIONS = StateTable(
    "partitions",
    key=("table_id", "partition_id"),
    columns=(
        *columns(
            partition_id=ColumnType.STRING,
            table_id=ColumnType.STRING,
            partition_key=ColumnType.STRING,
        ),
        *columns(
            partition_values=ColumnType.TEXTS,
            status=ColumnType.STRING,
            error_message=ColumnType.STRING,
        ),
        *columns(
            row_count=ColumnType.INTEGER,
            size_bytes=ColumnType.INTEGER,
            materialization_id=ColumnType.STRING,
        ),
        *columns(input_fingerprint=ColumnType.STRING, code_fingerprint=ColumnType.STRING),
        *columns(
            created_at=ColumnType.TIME,
            updated_at=ColumnType.TIME,
            last_successful_run=ColumnType.TIME,
        ),
        *(StateColumn("last_execution_id"), _order("_named"), _order("_status"), _order("_data")),
        *(_OCCURRED, StateColumn("last_successful_execution_id")),
    ),
    rules=(
        _last("_named", "partition_key", "partition_values"),
        _last("_status", "status", "error_message", "last_execution_id"),
        _last(
            *("_data", "row_count", "size_bytes", "materialization_id", "input_fingerprint"),
            *("code_fingerprint", "last_successful_run", "last_successful_execution_id"),
        ),
        *_first("created_at"),
        *_constant("updated_at", OCCURRED),
    ),
    parent=("table_id",),
    label="partition_key",
    bucket=BucketSpec("table_id", 64),
)
QUALITY_RESULTS = StateTable(
    "quality_results",
    key=("table_id", "result_id"),
    columns=(
        *columns(
            result_id=ColumnType.STRING, table_id=ColumnType.STRING, partition_id=ColumnType.STRING
        ),
        *columns(
            check_name=ColumnType.STRING, check_type=ColumnType.STRING, status=ColumnType.STRING
        ),
        *columns(
            severity=ColumnType.STRING,
            blocking=ColumnType.BOOLEAN,
            expected_value=ColumnType.STRING,
        ),
        *columns(
            actual_value=ColumnType.STRING,
            message=ColumnType.STRING,
            execution_id=ColumnType.STRING,
        ),
        *(
            StateColumn("task_id"),
            StateColumn("checked_at", ColumnType.TIME),
            _order(ORDER),
            _OCCURRED,
        ),
    ),
    rules=(
        _last(
            *(ORDER, "partition_id", "check_name", "check_type", "status", "severity"),
            *("blocking", "expected_value", "actual_value", "message", "execution_id", "task_id"),
            "checked_at",
        ),
        *_constant(OCCURRED),
    ),
    parent=("table_id",),
    label="checked_at",
    bucket=BucketSpec("table_id", 64),
)
TABLE_STATS = StateTable(
    "table_stats",
    key=("table_id",),
    columns=(
        *columns(
            table_id=ColumnType.STRING, row_count=ColumnType.INTEGER, size_bytes=ColumnType.INTEGER
        ),
        *columns(
            file_count=ColumnType.INTEGER,
            last_modified_at=ColumnType.TIME,
            snapshot_id=ColumnType.STRING,
        ),
        *(StateColumn("source"), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(ORDER, "row_count", "size_bytes", "file_count", "snapshot_id", "source"),
        *_constant("last_modified_at", OCCURRED),
    ),
    parent=(),
    label="table_id",
    bucket=BucketSpec("table_id", 64),
)
COLUMN_STATS = StateTable(
    "column_stats",
    key=("table_id", "column_id"),
    columns=(
        *columns(
            column_id=ColumnType.STRING, table_id=ColumnType.STRING, column_name=ColumnType.STRING
        ),
        *columns(
            row_count=ColumnType.INTEGER,
            null_count=ColumnType.INTEGER,
            distinct_count=ColumnType.INTEGER,
        ),
        *columns(
            min_value=ColumnType.STRING, max_value=ColumnType.STRING, size_bytes=ColumnType.INTEGER
        ),
        *columns(
            last_modified_at=ColumnType.TIME,
            snapshot_id=ColumnType.STRING,
            source=ColumnType.STRING,
        ),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(
            *(ORDER, "column_name", "row_count", "null_count", "distinct_count", "min_value"),
            *("max_value", "size_bytes", "snapshot_id", "source"),
        ),
        *_constant("last_modified_at", OCCURRED),
    ),
    parent=("table_id",),
    label="column_id",
    bucket=BucketSpec("table_id", 64),
)
TABLE_COMMITS = StateTable(
    "table_commits",
    key=("table_id", "pointer_number"),
    columns=(
        *columns(
            table_id=ColumnType.STRING,
            pointer_number=ColumnType.INTEGER,
            commit_id=ColumnType.STRING,
        ),
        *columns(operation=ColumnType.STRING, actor=ColumnType.STRING, engine=ColumnType.STRING),
        *columns(
            update_source=ColumnType.STRING,
            snapshot_id=ColumnType.STRING,
            metadata_location=ColumnType.STRING,
        ),
        *columns(
            changed=ColumnType.STRING, added_rows=ColumnType.INTEGER, added_bytes=ColumnType.INTEGER
        ),
        *(StateColumn("committed_at", ColumnType.TIME), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(
            *(ORDER, "commit_id", "operation", "actor", "engine", "update_source"),
            *("snapshot_id", "metadata_location", "changed", "added_rows", "added_bytes"),
            "committed_at",
        ),
        *_constant(OCCURRED),
    ),
    parent=("table_id",),
    label="committed_at",
    bucket=BucketSpec("table_id", 64),
)
SCHEDULES = StateTable(
    "schedules",
    key=("schedule_id",),
    columns=(
        *columns(
            schedule_id=ColumnType.STRING,
            pipeline_id=ColumnType.STRING,
            definition=ColumnType.STRING,
        ),
        *columns(status=ColumnType.STRING, last_tick_at=ColumnType.TIME, next_at=ColumnType.TIME),
        *(StateColumn("last_run_key"), _order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(ORDER, "definition", "status", "last_tick_at", "next_at", "last_run_key"),
        *_constant("pipeline_id", OCCURRED),
    ),
    parent=(),
    label="schedule_id",
)
SENSORS = StateTable(
    "sensors",
    key=("sensor_id",),
    columns=(
        *columns(
            sensor_id=ColumnType.STRING, pipeline_id=ColumnType.STRING, definition=ColumnType.STRING
        ),
        *columns(
            status=ColumnType.STRING, cursor=ColumnType.STRING, cursor_number=ColumnType.INTEGER
        ),
        *columns(
            evaluated_at=ColumnType.TIME, next_at=ColumnType.TIME, error_message=ColumnType.STRING
        ),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(
            *(ORDER, "definition", "status", "cursor", "cursor_number", "evaluated_at"),
            *("next_at", "error_message"),
        ),
        *_constant("pipeline_id", OCCURRED),
    ),
    parent=(),
    label="sensor_id",
)
BACKFILLS = StateTable(
    "backfills",
    key=("backfill_id",),
    columns=(
        *columns(
            backfill_id=ColumnType.STRING,
            pipeline_id=ColumnType.STRING,
            definition=ColumnType.STRING,
        ),
        *columns(
            status=ColumnType.STRING,
            error_message=ColumnType.STRING,
            partitions_total=ColumnType.INTEGER,
        ),
        *columns(
            chunks_planned=ColumnType.INTEGER,
            created_at=ColumnType.TIME,
            updated_at=ColumnType.TIME,
        ),
        *(_order("_status"), _OCCURRED),
    ),
    rules=(
        _last("_status", "status", "error_message"),
        *_constant("pipeline_id", "definition", "partitions_total", "chunks_planned", "updated_at"),
        *_constant(OCCURRED),
        *_first("created_at"),
    ),
    parent=(),
    label="backfill_id",
)
# The values of dynamic partition dimensions, which events add and remove.
PARTITION_VALUES = StateTable(
    "partition_values",
    key=("dimension", "value"),
    columns=(
        *columns(dimension=ColumnType.STRING, value=ColumnType.STRING, status=ColumnType.STRING),
        *columns(
            added_at=ColumnType.TIME, removed_at=ColumnType.TIME, execution_id=ColumnType.STRING
        ),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(ORDER, "status", "execution_id"),
        *_first("added_at"),
        *_constant("removed_at", OCCURRED),
    ),
    parent=("dimension",),
    label="value",
)
LINEAGE_EDGES = StateTable(
    "lineage_edges",
    key=("target_table_id", "edge_id"),
    columns=(
        *columns(
            edge_id=ColumnType.STRING,
            source_table_id=ColumnType.STRING,
            source_column_id=ColumnType.STRING,
        ),
        *columns(target_table_id=ColumnType.STRING, target_column_id=ColumnType.STRING),
        *columns(
            source_name=ColumnType.STRING,
            target_name=ColumnType.STRING,
            transformation_type=ColumnType.STRING,
        ),
        *columns(transformation_sql=ColumnType.STRING, transform_fingerprint=ColumnType.STRING),
        *columns(
            pipeline_id=ColumnType.STRING,
            execution_id=ColumnType.STRING,
            soundness=ColumnType.STRING,
        ),
        *columns(
            first_observed_at=ColumnType.TIME,
            last_observed_at=ColumnType.TIME,
            created_at=ColumnType.TIME,
        ),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(
            *(ORDER, "source_name", "target_name", "transformation_sql", "pipeline_id"),
            *("execution_id", "soundness"),
        ),
        *_constant(
            "source_table_id", "source_column_id", "target_column_id", "transformation_type"
        ),
        *_constant("transform_fingerprint", "last_observed_at", OCCURRED),
        *_first("first_observed_at", "created_at"),
    ),
    parent=("target_table_id",),
    label="source_table_id",
    bucket=BucketSpec("target_table_id", 128),
)
EDGE_OBSERVATIONS = StateTable(
    "edge_observations",
    key=("target_table_id", "edge_id", "execution_id", "task_id"),
    columns=(
        *columns(
            edge_id=ColumnType.STRING,
            target_table_id=ColumnType.STRING,
            execution_id=ColumnType.STRING,
        ),
        *(
            StateColumn("task_id"),
            StateColumn("observed_at", ColumnType.TIME),
            _OCCURRED,
            StateColumn("soundness"),
        ),
    ),
    rules=_constant("observed_at", "soundness", OCCURRED),
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
        *columns(target_table_id=ColumnType.STRING, target_partition_key=ColumnType.STRING),
        *columns(source_table_id=ColumnType.STRING, source_partition_key=ColumnType.STRING),
        *columns(
            source_version=ColumnType.STRING,
            rows_read=ColumnType.INTEGER,
            bytes_read=ColumnType.INTEGER,
        ),
        *(
            StateColumn("execution_id"),
            StateColumn("observed_at", ColumnType.TIME),
            _order(ORDER),
            _OCCURRED,
        ),
    ),
    rules=(
        _last(ORDER, "source_version", "rows_read", "bytes_read"),
        *_constant("observed_at", OCCURRED),
    ),
    parent=("target_table_id",),
    label="target_partition_key",
    bucket=BucketSpec("target_table_id", 64),
)
SEARCH_DOCUMENTS = StateTable(
    "search_documents",
    key=("document_id",),
    columns=(
        *columns(
            document_id=ColumnType.STRING,
            kind=ColumnType.STRING,
            title=ColumnType.STRING,
            text=ColumnType.STRING,
        ),
        *columns(tags=ColumnType.STRINGS, removed=ColumnType.BOOLEAN, indexed_at=ColumnType.TIME),
        *(_order(ORDER), _OCCURRED),
    ),
    rules=(
        _last(ORDER, "kind", "title", "text", "tags", "removed", "indexed_at"),
        *_constant(OCCURRED),
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
        *columns(stream=ColumnType.STRING, segment=ColumnType.INTEGER, line=ColumnType.INTEGER),
        *columns(
            event_id=ColumnType.STRING,
            event_type=ColumnType.STRING,
            event_version=ColumnType.INTEGER,
        ),
        *columns(reason=ColumnType.STRING, body=ColumnType.STRING, received_at=ColumnType.TIME),
        *(StateColumn("replayed_at", ColumnType.TIME), _OCCURRED),
    ),
    rules=_constant(
        *("event_id", "event_type", "event_version", "reason", "body", "received_at"),
        *("replayed_at", OCCURRED),
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
