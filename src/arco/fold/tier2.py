"""The tables of Tier 2: what was told to have happened, by domain.

A row is put together from many events, in any order. Facts that never change once they are known are merged
by their value; columns that belong together are one group, and the order that decides between two events
about them stands beside them (P19). Every row knows the newest moment of which it was told, as rows leave
by it (P20). Counters are counted from rows, never added up.
"""

from arco.fold.column import Column, Kind, columns
from arco.fold.table import Bucket, Keep, Rule, Table, by_name

OCCURRED = "_occurred_at"

EXECUTIONS_DOMAIN = "executions"
LINEAGE_DOMAIN = "lineage"
SEARCH_DOMAIN = "search"

_OCCURRED = Column(OCCURRED, Kind.TIME)


def _order(name: str) -> Column:
    return Column(name, Kind.BYTES)


def _last(order: str, *names: str) -> Rule:
    """A group of columns, all of them as the event highest in the order says."""
    return Rule(Keep.LAST, names, (order,))


def _known(*names: str) -> tuple[Rule, ...]:
    """Facts that never change once they are known; should two tell of it differently, the larger stays."""
    return tuple(Rule(Keep.MAX, (name,)) for name in names)


def _first(*names: str) -> tuple[Rule, ...]:
    return tuple(Rule(Keep.MIN, (name,)) for name in names)


EXECUTIONS = Table(
    "executions",
    key=("execution_id",),
    columns=(
        *columns(execution_id=Kind.STRING, pipeline_id=Kind.STRING, pipeline_name=Kind.STRING),
        *columns(status=Kind.STRING, trigger_type=Kind.STRING, triggered_by=Kind.STRING),
        *columns(run_key=Kind.STRING, plan_id=Kind.STRING, started_at=Kind.TIME),
        *columns(completed_at=Kind.TIME, duration_ms=Kind.INTEGER, error_message=Kind.STRING),
        *(_order("_status"), _OCCURRED),
    ),
    rules=(
        _last("_status", "status", "completed_at", "duration_ms", "error_message"),
        *_known("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key"),
        *_known("plan_id", OCCURRED),
        *_first("started_at"),
    ),
    parent=(),
    label="execution_id",
    bucket=Bucket("execution_id", 64),
)
TASKS = Table(
    "tasks",
    key=("execution_id", "task_id"),
    columns=(
        *columns(task_id=Kind.STRING, execution_id=Kind.STRING, task_name=Kind.STRING),
        *columns(table_id=Kind.STRING, partition_key=Kind.STRING, status=Kind.STRING),
        *columns(attempt=Kind.INTEGER, retry_count=Kind.INTEGER, worker=Kind.STRING),
        *columns(started_at=Kind.TIME, completed_at=Kind.TIME, duration_ms=Kind.INTEGER),
        *columns(error_message=Kind.STRING, input_tables=Kind.STRINGS, output_tables=Kind.STRINGS),
        *columns(input_partitions=Kind.STRINGS, output_partitions=Kind.STRINGS),
        *columns(rows_read=Kind.INTEGER, rows_written=Kind.INTEGER, bytes_read=Kind.INTEGER),
        *columns(bytes_written=Kind.INTEGER, metrics=Kind.TEXTS),
        *(_order("_status"), _order("_started"), _order("_outcome"), _OCCURRED),
    ),
    rules=(
        _last("_status", "status", "attempt", "completed_at", "duration_ms", "error_message"),
        _last("_started", "started_at", "worker"),
        _last(
            *("_outcome", "input_tables", "output_tables", "input_partitions", "output_partitions"),
            *("rows_read", "rows_written", "bytes_read", "bytes_written", "metrics"),
        ),
        *_known("task_name", "table_id", "partition_key", "retry_count", OCCURRED),
    ),
    parent=("execution_id",),
    label="task_id",
    bucket=Bucket("execution_id", 64),
)
PARTITIONS = Table(
    "partitions",
    key=("table_id", "partition_id"),
    columns=(
        *columns(partition_id=Kind.STRING, table_id=Kind.STRING, partition_key=Kind.STRING),
        *columns(partition_values=Kind.TEXTS, status=Kind.STRING, error_message=Kind.STRING),
        *columns(row_count=Kind.INTEGER, size_bytes=Kind.INTEGER, materialization_id=Kind.STRING),
        *columns(input_fingerprint=Kind.STRING, code_fingerprint=Kind.STRING),
        *columns(created_at=Kind.TIME, updated_at=Kind.TIME, last_successful_run=Kind.TIME),
        *(Column("last_execution_id"), _order("_named"), _order("_status"), _order("_data")),
        *(_OCCURRED, Column("last_successful_execution_id")),
    ),
    rules=(
        _last("_named", "partition_key", "partition_values"),
        _last("_status", "status", "error_message", "last_execution_id"),
        _last(
            *("_data", "row_count", "size_bytes", "materialization_id", "input_fingerprint"),
            *("code_fingerprint", "last_successful_run", "last_successful_execution_id"),
        ),
        *_first("created_at"),
        *_known("updated_at", OCCURRED),
    ),
    parent=("table_id",),
    label="partition_key",
    bucket=Bucket("table_id", 64),
)
QUALITY_RESULTS = Table(
    "quality_results",
    key=("table_id", "result_id"),
    columns=(
        *columns(result_id=Kind.STRING, table_id=Kind.STRING, partition_id=Kind.STRING),
        *columns(check_name=Kind.STRING, check_type=Kind.STRING, status=Kind.STRING),
        *columns(severity=Kind.STRING, blocking=Kind.BOOLEAN, expected_value=Kind.STRING),
        *columns(actual_value=Kind.STRING, message=Kind.STRING, execution_id=Kind.STRING),
        *(Column("task_id"), Column("checked_at", Kind.TIME), _order("_told"), _OCCURRED),
    ),
    rules=(
        _last(
            *("_told", "partition_id", "check_name", "check_type", "status", "severity"),
            *("blocking", "expected_value", "actual_value", "message", "execution_id", "task_id"),
            "checked_at",
        ),
        *_known(OCCURRED),
    ),
    parent=("table_id",),
    label="checked_at",
    bucket=Bucket("table_id", 64),
)
TABLE_STATS = Table(
    "table_stats",
    key=("table_id",),
    columns=(
        *columns(table_id=Kind.STRING, row_count=Kind.INTEGER, size_bytes=Kind.INTEGER),
        *columns(file_count=Kind.INTEGER, last_modified_at=Kind.TIME, snapshot_id=Kind.STRING),
        *(Column("source"), _order("_told"), _OCCURRED),
    ),
    rules=(
        _last("_told", "row_count", "size_bytes", "file_count", "snapshot_id", "source"),
        *_known("last_modified_at", OCCURRED),
    ),
    parent=(),
    label="table_id",
    bucket=Bucket("table_id", 64),
)
COLUMN_STATS = Table(
    "column_stats",
    key=("table_id", "column_id"),
    columns=(
        *columns(column_id=Kind.STRING, table_id=Kind.STRING, column_name=Kind.STRING),
        *columns(row_count=Kind.INTEGER, null_count=Kind.INTEGER, distinct_count=Kind.INTEGER),
        *columns(min_value=Kind.STRING, max_value=Kind.STRING, size_bytes=Kind.INTEGER),
        *columns(last_modified_at=Kind.TIME, snapshot_id=Kind.STRING, source=Kind.STRING),
        *(_order("_told"), _OCCURRED),
    ),
    rules=(
        _last(
            *("_told", "column_name", "row_count", "null_count", "distinct_count", "min_value"),
            *("max_value", "size_bytes", "snapshot_id", "source"),
        ),
        *_known("last_modified_at", OCCURRED),
    ),
    parent=("table_id",),
    label="column_id",
    bucket=Bucket("table_id", 64),
)
TABLE_COMMITS = Table(
    "table_commits",
    key=("table_id", "pointer_number"),
    columns=(
        *columns(table_id=Kind.STRING, pointer_number=Kind.INTEGER, commit_id=Kind.STRING),
        *columns(operation=Kind.STRING, actor=Kind.STRING, engine=Kind.STRING),
        *columns(update_source=Kind.STRING, snapshot_id=Kind.STRING, metadata_location=Kind.STRING),
        *columns(changed=Kind.STRING, added_rows=Kind.INTEGER, added_bytes=Kind.INTEGER),
        *(Column("committed_at", Kind.TIME), _order("_told"), _OCCURRED),
    ),
    rules=(
        _last(
            *("_told", "commit_id", "operation", "actor", "engine", "update_source"),
            *("snapshot_id", "metadata_location", "changed", "added_rows", "added_bytes"),
            "committed_at",
        ),
        *_known(OCCURRED),
    ),
    parent=("table_id",),
    label="committed_at",
    bucket=Bucket("table_id", 64),
)
SCHEDULES = Table(
    "schedules",
    key=("schedule_id",),
    columns=(
        *columns(schedule_id=Kind.STRING, pipeline_id=Kind.STRING, definition=Kind.STRING),
        *columns(status=Kind.STRING, last_tick_at=Kind.TIME, next_at=Kind.TIME),
        *(Column("last_run_key"), _order("_told"), _OCCURRED),
    ),
    rules=(
        _last("_told", "definition", "status", "last_tick_at", "next_at", "last_run_key"),
        *_known("pipeline_id", OCCURRED),
    ),
    parent=(),
    label="schedule_id",
)
SENSORS = Table(
    "sensors",
    key=("sensor_id",),
    columns=(
        *columns(sensor_id=Kind.STRING, pipeline_id=Kind.STRING, definition=Kind.STRING),
        *columns(status=Kind.STRING, cursor=Kind.STRING, cursor_number=Kind.INTEGER),
        *columns(evaluated_at=Kind.TIME, next_at=Kind.TIME, error_message=Kind.STRING),
        *(_order("_told"), _OCCURRED),
    ),
    rules=(
        _last(
            *("_told", "definition", "status", "cursor", "cursor_number", "evaluated_at"),
            *("next_at", "error_message"),
        ),
        *_known("pipeline_id", OCCURRED),
    ),
    parent=(),
    label="sensor_id",
)
BACKFILLS = Table(
    "backfills",
    key=("backfill_id",),
    columns=(
        *columns(backfill_id=Kind.STRING, pipeline_id=Kind.STRING, definition=Kind.STRING),
        *columns(status=Kind.STRING, error_message=Kind.STRING, partitions_total=Kind.INTEGER),
        *columns(chunks_planned=Kind.INTEGER, created_at=Kind.TIME, updated_at=Kind.TIME),
        *(_order("_status"), _OCCURRED),
    ),
    rules=(
        _last("_status", "status", "error_message"),
        *_known("pipeline_id", "definition", "partitions_total", "chunks_planned", "updated_at"),
        *_known(OCCURRED),
        *_first("created_at"),
    ),
    parent=(),
    label="backfill_id",
)
# The values of dynamic dimensions: what partitions there are is told, where no calendar says it.
PARTITION_VALUES = Table(
    "partition_values",
    key=("dimension", "value"),
    columns=(
        *columns(dimension=Kind.STRING, value=Kind.STRING, status=Kind.STRING),
        *columns(added_at=Kind.TIME, removed_at=Kind.TIME, execution_id=Kind.STRING),
        *(_order("_told"), _OCCURRED),
    ),
    rules=(
        _last("_told", "status", "execution_id"),
        *_first("added_at"),
        *_known("removed_at", OCCURRED),
    ),
    parent=("dimension",),
    label="value",
)
LINEAGE_EDGES = Table(
    "lineage_edges",
    key=("target_table_id", "edge_id"),
    columns=(
        *columns(edge_id=Kind.STRING, source_table_id=Kind.STRING, source_column_id=Kind.STRING),
        *columns(target_table_id=Kind.STRING, target_column_id=Kind.STRING),
        *columns(source_name=Kind.STRING, target_name=Kind.STRING, transformation_type=Kind.STRING),
        *columns(transformation_sql=Kind.STRING, transform_fingerprint=Kind.STRING),
        *columns(pipeline_id=Kind.STRING, execution_id=Kind.STRING, soundness=Kind.STRING),
        *columns(first_observed_at=Kind.TIME, last_observed_at=Kind.TIME, created_at=Kind.TIME),
        *(_order("_told"), _OCCURRED),
    ),
    rules=(
        _last(
            *("_told", "source_name", "target_name", "transformation_sql", "pipeline_id"),
            *("execution_id", "soundness"),
        ),
        *_known("source_table_id", "source_column_id", "target_column_id", "transformation_type"),
        *_known("transform_fingerprint", "last_observed_at", OCCURRED),
        *_first("first_observed_at", "created_at"),
    ),
    parent=("target_table_id",),
    label="source_table_id",
    bucket=Bucket("target_table_id", 128),
)
EDGE_OBSERVATIONS = Table(
    "edge_observations",
    key=("target_table_id", "edge_id", "execution_id", "task_id"),
    columns=(
        *columns(edge_id=Kind.STRING, target_table_id=Kind.STRING, execution_id=Kind.STRING),
        *(Column("task_id"), Column("observed_at", Kind.TIME), _OCCURRED, Column("soundness")),
    ),
    rules=_known("observed_at", "soundness", OCCURRED),
    parent=("target_table_id",),
    label="edge_id",
    bucket=Bucket("target_table_id", 128),
)
PARTITION_LINEAGE = Table(
    "partition_lineage",
    key=(
        *("target_table_id", "target_partition_key", "source_table_id", "source_partition_key"),
        "execution_id",
    ),
    columns=(
        *columns(target_table_id=Kind.STRING, target_partition_key=Kind.STRING),
        *columns(source_table_id=Kind.STRING, source_partition_key=Kind.STRING),
        *columns(source_version=Kind.STRING, rows_read=Kind.INTEGER, bytes_read=Kind.INTEGER),
        *(Column("execution_id"), Column("observed_at", Kind.TIME), _order("_told"), _OCCURRED),
    ),
    rules=(
        _last("_told", "source_version", "rows_read", "bytes_read"),
        *_known("observed_at", OCCURRED),
    ),
    parent=("target_table_id",),
    label="target_partition_key",
    bucket=Bucket("target_table_id", 64),
)
SEARCH_DOCUMENTS = Table(
    "search_documents",
    key=("document_id",),
    columns=(
        *columns(document_id=Kind.STRING, kind=Kind.STRING, title=Kind.STRING, text=Kind.STRING),
        *columns(tags=Kind.STRINGS, removed=Kind.BOOLEAN, indexed_at=Kind.TIME),
        *(_order("_told"), _OCCURRED),
    ),
    rules=(
        _last("_told", "kind", "title", "text", "tags", "removed", "indexed_at"),
        *_known(OCCURRED),
    ),
    parent=(),
    label="document_id",
    bucket=Bucket("document_id", 64),
)
# Lines that were acknowledged and cannot be folded (P18). Each domain has its own.
QUARANTINE = Table(
    "quarantine",
    key=("stream", "segment", "line"),
    columns=(
        *columns(stream=Kind.STRING, segment=Kind.INTEGER, line=Kind.INTEGER),
        *columns(event_id=Kind.STRING, event_type=Kind.STRING, event_version=Kind.INTEGER),
        *columns(reason=Kind.STRING, body=Kind.STRING, received_at=Kind.TIME),
        *(Column("replayed_at", Kind.TIME), _OCCURRED),
    ),
    rules=_known(
        *("event_id", "event_type", "event_version", "reason", "body", "received_at"),
        *("replayed_at", OCCURRED),
    ),
    parent=("stream",),
    label="segment",
)

TIER2: dict[str, dict[str, Table]] = {
    EXECUTIONS_DOMAIN: by_name(
        (
            *(EXECUTIONS, TASKS, PARTITIONS, QUALITY_RESULTS, TABLE_STATS, COLUMN_STATS),
            *(TABLE_COMMITS, SCHEDULES, SENSORS, BACKFILLS, PARTITION_VALUES, QUARANTINE),
        )
    ),
    LINEAGE_DOMAIN: by_name((LINEAGE_EDGES, EDGE_OBSERVATIONS, PARTITION_LINEAGE, QUARANTINE)),
    SEARCH_DOMAIN: by_name((SEARCH_DOCUMENTS, QUARANTINE)),
}
