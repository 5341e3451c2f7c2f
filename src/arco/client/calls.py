"""The convenience calls: one for each thing that a pipeline mostly has to tell.

They only fill in payloads. What is None is not said, and what is not said changes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime


class Calls(ABC):
    """Whoever can emit an event has these."""

    @abstractmethod
    def emit(
        self,
        event_type: str,
        payload: Mapping[str, object],
        *,
        version: int = 1,
        occurred_at: datetime | None = None,
        idempotency_key: str | None = None,
        trace_id: str | None = None,
    ) -> str:
        """Tell that something happened; the id of the event."""

    def execution_started(
        self,
        execution_id: str,
        pipeline_id: str,
        pipeline_name: str | None = None,
        trigger_type: str | None = None,
        triggered_by: str | None = None,
    ) -> str:
        """A run of a pipeline began; `trigger_type` is SCHEDULED, MANUAL, EVENT or BACKFILL."""
        payload = {
            "execution_id": execution_id,
            "pipeline_id": pipeline_id,
            "pipeline_name": pipeline_name,
            "trigger_type": trigger_type,
            "triggered_by": triggered_by,
        }
        return self.emit("execution_started", payload, idempotency_key=_key("start", execution_id))

    def execution_completed(
        self,
        execution_id: str,
        status: str,
        duration_ms: int | None = None,
        error_message: str | None = None,
    ) -> str:
        """A run is over: SUCCESS, FAILED or CANCELLED."""
        payload = {
            "execution_id": execution_id,
            "status": status,
            "duration_ms": duration_ms,
            "error_message": error_message,
        }
        return self.emit("execution_completed", payload, idempotency_key=_key("end", execution_id))

    def task_started(
        self,
        execution_id: str,
        task_id: str,
        *,
        task_name: str | None = None,
        attempt: int = 1,
        worker: str | None = None,
        table_id: str | None = None,
        partition_values: Mapping[str, str] | None = None,
    ) -> str:
        """An attempt at a task of a run began."""
        payload = {
            "execution_id": execution_id,
            "task_id": task_id,
            "task_name": task_name,
            "attempt": attempt,
            "worker": worker,
            "table_id": table_id,
            "partition_values": partition_values,
        }
        key = _key("run", execution_id, task_id, attempt)
        return self.emit("task_started", payload, idempotency_key=key)

    def task_completed(
        self,
        execution_id: str,
        task_id: str,
        status: str,
        *,
        task_name: str | None = None,
        attempt: int = 1,
        duration_ms: int | None = None,
        error_message: str | None = None,
        table_id: str | None = None,
        partition_values: Mapping[str, str] | None = None,
        published_version: int | None = None,
        input_tables: Sequence[str] | None = None,
        output_tables: Sequence[str] | None = None,
        rows_read: int | None = None,
        rows_written: int | None = None,
        bytes_read: int | None = None,
        bytes_written: int | None = None,
        metrics: Mapping[str, object] | None = None,
    ) -> str:
        """An attempt at a task is over: SUCCESS, FAILED, SKIPPED, BLOCKED or CANCELLED."""
        payload = {
            "execution_id": execution_id,
            "task_id": task_id,
            "status": status,
            "task_name": task_name,
            "attempt": attempt,
            "duration_ms": duration_ms,
            "error_message": error_message,
            "table_id": table_id,
            "partition_values": partition_values,
            "published_version": published_version,
            "input_tables": input_tables,
            "output_tables": output_tables,
            "rows_read": rows_read,
            "rows_written": rows_written,
            "bytes_read": bytes_read,
            "bytes_written": bytes_written,
            "metrics": metrics,
        }
        key = _key("done", execution_id, task_id, attempt)
        return self.emit("task_completed", payload, idempotency_key=key)

    def partition_created(
        self,
        table_id: str,
        *,
        partition_values: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        partition_id: str | None = None,
        execution_id: str | None = None,
    ) -> str:
        """A table has a partition, or is about to have it; named by its values, its key or its id."""
        payload = {
            "table_id": table_id,
            "partition_values": partition_values,
            "partition_key": partition_key,
            "partition_id": partition_id,
            "execution_id": execution_id,
        }
        return self.emit("partition_created", payload)

    def partition_completed(
        self,
        table_id: str,
        *,
        partition_values: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        partition_id: str | None = None,
        row_count: int | None = None,
        size_bytes: int | None = None,
        duration_ms: int | None = None,
        version: int | None = None,
        execution_id: str | None = None,
        task_id: str | None = None,
    ) -> str:
        """The data of a partition were published; a later `version` outranks an earlier one."""
        payload = {
            "table_id": table_id,
            "partition_values": partition_values,
            "partition_key": partition_key,
            "partition_id": partition_id,
            "row_count": row_count,
            "size_bytes": size_bytes,
            "duration_ms": duration_ms,
            "version": version,
            "execution_id": execution_id,
            "task_id": task_id,
        }
        return self.emit("partition_completed", payload)

    def partition_failed(
        self,
        table_id: str,
        error: str,
        *,
        partition_values: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        partition_id: str | None = None,
        execution_id: str | None = None,
        task_id: str | None = None,
    ) -> str:
        """The data of a partition could not be made; those of before are still there."""
        payload = {
            "table_id": table_id,
            "error": error,
            "partition_values": partition_values,
            "partition_key": partition_key,
            "partition_id": partition_id,
            "execution_id": execution_id,
            "task_id": task_id,
        }
        return self.emit("partition_failed", payload)

    def quality_check_passed(
        self, table_id: str, check_name: str, check_type: str, **details: object
    ) -> str:
        """A check found nothing wrong; `details` are further fields of the payload."""
        return self._checked("quality_check_passed", table_id, check_name, check_type, details)

    def quality_check_failed(
        self, table_id: str, check_name: str, check_type: str, **details: object
    ) -> str:
        """A check found something wrong; `details` are further fields of the payload."""
        return self._checked("quality_check_failed", table_id, check_name, check_type, details)

    def _checked(
        self,
        event_type: str,
        table_id: str,
        check_name: str,
        check_type: str,
        details: Mapping[str, object],
    ) -> str:
        named = {"table_id": table_id, "check_name": check_name, "check_type": check_type}
        return self.emit(event_type, {**named, **details})


def _key(*parts: object) -> str | None:
    """The same for every attempt to tell the same; none if it would be too long for a key."""
    key = ":".join(map(str, parts))
    return key if len(key) <= 255 else None
