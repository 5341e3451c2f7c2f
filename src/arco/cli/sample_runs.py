"""What happened to the sample's tables lately: two runs of a pipeline, as an orchestrator tells of them."""

from datetime import datetime, timedelta
from typing import Any

from arco.catalog.ddl import TableName
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.clock import utc
from arco.ledger.intake import Intake

_SOURCE = {"type": "sample"}
_PIPELINE = {"pipeline_id": "orders_daily", "pipeline_name": "Orders, daily"}
_TASK = {"task_id": "load", "task_name": "load_orders"}


async def tell_of_runs(intake: Intake, reader: SnapshotReader) -> None:
    """Append the sample's events."""
    snapshot = await reader.head()
    orders = await snapshot.table(TableName("default", ("sales",), "orders"))
    clicks = await snapshot.table(TableName("default", ("raw", "web"), "clicks"))
    now = utc(reader.store.runtime.clock.now_ms())
    story = _Story(orders.row.table_id, clicks.row.table_id)
    story.good_run("sample-1", now - timedelta(days=1))
    story.bad_run("sample-2", now - timedelta(minutes=5))
    taken = await intake.take([json.encode(each) for each in story.events])
    if taken.refused:
        raise AssertionError(f"an event of the sample was refused: {taken.refused[0].reason}")


class _Story:
    """Events as they would be sent, in the order in which they happened."""

    def __init__(self, orders: str, clicks: str) -> None:
        self._orders = orders
        self._clicks = clicks
        self.events: list[dict[str, Any]] = []

    def good_run(self, run: str, at: datetime) -> None:
        """All went well."""
        day = at.date().isoformat()
        task = {**_TASK, "execution_id": run, **self._partition(day)}
        done = {"duration_ms": 41_000, "rows_read": 1_530, "rows_written": 1_412}
        self._begin(run, at, task)
        self._say("task_completed", at + timedelta(seconds=42), **task, status="SUCCESS", **done)
        self._say(
            "partition_completed",
            at + timedelta(seconds=42),
            **self._partition(day),
            status="COMPLETE",
            row_count=1_412,
            size_bytes=96_800,
            execution_id=run,
            task_id="load",
        )
        self._check("quality_check_passed", run, day, at + timedelta(seconds=43), actual_value="0")
        self._say(
            "lineage_observed",
            at + timedelta(seconds=43),
            execution_id=run,
            task_id="load",
            pipeline_id="orders_daily",
            soundness="exact",
            inputs=[{"table_id": self._clicks, "name": "raw.web.clicks"}],
            outputs=[
                {"table_id": self._orders, "name": "sales.orders", "partitions": [f"date={day}"]}
            ],
        )
        self._end(run, at, "SUCCESS", 44_000)

    def bad_run(self, run: str, at: datetime) -> None:
        """A check has failed, and the run with it."""
        day = at.date().isoformat()
        task = {**_TASK, "execution_id": run, **self._partition(day)}
        message = "17 orders have no customer"
        self._begin(run, at, task)
        self._check(
            "quality_check_failed",
            run,
            day,
            at + timedelta(seconds=38),
            actual_value="17",
            message=message,
            severity="error",
            blocking=True,
        )
        failed = {"status": "FAILED", "duration_ms": 37_000, "error_message": message}
        self._say("task_completed", at + timedelta(seconds=39), **task, **failed)
        self._say(
            "partition_failed",
            at + timedelta(seconds=39),
            **self._partition(day),
            error=message,
            execution_id=run,
        )
        self._end(run, at, "FAILED", 39_000, error_message="task load failed")

    def _begin(self, run: str, at: datetime, task: dict[str, Any]) -> None:
        cause = {"trigger_type": "SCHEDULED", "triggered_by": "schedule:orders_daily"}
        self._say("execution_started", at, execution_id=run, **_PIPELINE, **cause)
        self._say("task_started", at + timedelta(seconds=1), **task, worker="sample")

    def _end(self, run: str, at: datetime, status: str, ms: int, **more: str) -> None:
        end = at + timedelta(milliseconds=ms)
        self._say(
            "execution_completed", end, execution_id=run, status=status, duration_ms=ms, **more
        )

    def _check(self, name: str, run: str, day: str, at: datetime, **found: object) -> None:
        what = {"check_name": "customer_known", "check_type": "NULL_CHECK", "expected_value": "0"}
        self._say(
            name, at, **self._partition(day), **what, execution_id=run, task_id="load", **found
        )

    def _partition(self, day: str) -> dict[str, Any]:
        return {"table_id": self._orders, "partition_values": {"date": day}}

    def _say(self, name: str, at: datetime, **payload: object) -> None:
        self.events.append(
            {
                "event_type": name,
                "event_version": 1,
                "occurred_at": at,
                "source": _SOURCE,
                "payload": payload,
            }
        )
