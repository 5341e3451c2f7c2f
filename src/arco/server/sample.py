"""The sample of `arco up --sample`: a small catalog, and the events of two runs of a pipeline on it."""

from datetime import datetime, timedelta
from typing import Any

from arco.catalog.ddl import ColumnSpec, CreateSchema, CreateTable, Ddl, SchemaName, TableName
from arco.catalog.format_router import FormatRouter
from arco.catalog.model import Sensitivity, TableFormat
from arco.catalog.pending_request import Caller
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.clock import Clock, utc
from arco.core.errors import AlreadyExists
from arco.ledger.ingestion import EventIngestion

_AUTHOR = "user:sample"

_SOURCE = {"type": "sample"}
_PIPELINE = {"pipeline_id": "orders_daily", "pipeline_name": "Orders, daily"}
_TASK = {"task_id": "load", "task_name": "load_orders"}

_SALES = SchemaName("default", ("sales",))
_WEB = SchemaName("default", ("raw", "web"))

_REQUESTS: tuple[Ddl, ...] = (
    CreateSchema(catalog="default", name="sales", comment="What was ordered, by whom"),
    CreateSchema(catalog="default", name="raw", comment="As it came in"),
    CreateSchema(catalog="default", parent=("raw",), name="web", comment="From the web shop"),
    CreateTable(
        schema=_SALES,
        name="customers",
        format=TableFormat.ICEBERG,
        comment="One row a customer",
        tags=("gold",),
        columns=(
            ColumnSpec(name="customer_id", data_type="bigint", nullable=False),
            ColumnSpec(
                name="email",
                data_type="string",
                pii_type="EMAIL",
                sensitivity=Sensitivity.CONFIDENTIAL,
            ),
            ColumnSpec(name="country", data_type="string"),
            ColumnSpec(name="since", data_type="date"),
        ),
    ),
    CreateTable(
        schema=_SALES,
        name="orders",
        format=TableFormat.ICEBERG,
        comment="One row an order",
        properties={"team": "sales"},
        columns=(
            ColumnSpec(name="order_id", data_type="bigint", nullable=False),
            ColumnSpec(name="customer_id", data_type="bigint", nullable=False),
            ColumnSpec(name="amount", data_type="decimal(12,2)"),
            ColumnSpec(name="ordered_at", data_type="timestamp"),
            ColumnSpec(name="lines", data_type="array<struct<sku:string,pieces:int>>"),
        ),
    ),
    CreateTable(
        schema=_WEB,
        name="clicks",
        format=TableFormat.PARQUET,
        columns=(
            ColumnSpec(name="at", data_type="timestamp"),
            ColumnSpec(name="ip", data_type="string", pii_type="IP_ADDRESS"),
            ColumnSpec(name="page", data_type="string"),
        ),
    ),
)


async def create_sample_objects(format_router: FormatRouter, clock: Clock) -> bool:
    """Create the schemas and tables that do not exist yet; whether there were any."""
    is_new = False
    for request in _REQUESTS:
        caller = Caller(
            actor=_AUTHOR,
            engine="arco up --sample",
            key=None,
            operation=type(request).__name__,
            arrived_ms=clock.elapsed_ms(),
            update_source="native",
        )
        try:
            await format_router.apply(request, caller)
            is_new = True
        except AlreadyExists:
            continue
    return is_new


async def append_sample_events(ingestion: EventIngestion, reader: SnapshotReader) -> None:
    """Append the events of a run that succeeded and of one that failed."""
    snapshot = await reader.head()
    orders = await snapshot.table(TableName("default", ("sales",), "orders"))
    clicks = await snapshot.table(TableName("default", ("raw", "web"), "clicks"))
    now = utc(reader.store.runtime.clock.now_ms())
    runs = _SampleRuns(orders.row.table_id, clicks.row.table_id)
    runs.add_successful_run("sample-1", now - timedelta(days=1))
    runs.add_failed_run("sample-2", now - timedelta(minutes=5))
    result = await ingestion.ingest([json.encode(each) for each in runs.events])
    if result.refused:
        raise AssertionError(f"the sample has an invalid event: {result.refused[0].reason}")


class _SampleRuns:
    """The events of runs, in the order in which they happened."""

    def __init__(self, orders: str, clicks: str) -> None:
        self._orders = orders
        self._clicks = clicks
        self.events: list[dict[str, Any]] = []

    def add_successful_run(self, run: str, at: datetime) -> None:
        """A task writes a partition, and its check passes."""
        day = at.date().isoformat()
        task = {**_TASK, "execution_id": run, **self._partition(day)}
        done = {"duration_ms": 41_000, "rows_read": 1_530, "rows_written": 1_412}
        self._add_start(run, at, task)
        self._add("task_completed", at + timedelta(seconds=42), **task, status="SUCCESS", **done)
        self._add(
            "partition_completed",
            at + timedelta(seconds=42),
            **self._partition(day),
            status="COMPLETE",
            row_count=1_412,
            size_bytes=96_800,
            execution_id=run,
            task_id="load",
        )
        self._add_check(
            "quality_check_passed", run, day, at + timedelta(seconds=43), actual_value="0"
        )
        self._add(
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
        self._add_end(run, at, "SUCCESS", 44_000)

    def add_failed_run(self, run: str, at: datetime) -> None:
        """A check fails, and the run with it."""
        day = at.date().isoformat()
        task = {**_TASK, "execution_id": run, **self._partition(day)}
        message = "17 orders have no customer"
        self._add_start(run, at, task)
        self._add_check(
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
        self._add("task_completed", at + timedelta(seconds=39), **task, **failed)
        self._add(
            "partition_failed",
            at + timedelta(seconds=39),
            **self._partition(day),
            error=message,
            execution_id=run,
        )
        self._add_end(run, at, "FAILED", 39_000, error_message="task load failed")

    def _add_start(self, run: str, at: datetime, task: dict[str, Any]) -> None:
        cause = {"trigger_type": "SCHEDULED", "triggered_by": "schedule:orders_daily"}
        self._add("execution_started", at, execution_id=run, **_PIPELINE, **cause)
        self._add("task_started", at + timedelta(seconds=1), **task, worker="sample")

    def _add_end(self, run: str, at: datetime, status: str, ms: int, **more: str) -> None:
        end = at + timedelta(milliseconds=ms)
        self._add(
            "execution_completed", end, execution_id=run, status=status, duration_ms=ms, **more
        )

    def _add_check(self, name: str, run: str, day: str, at: datetime, **result: object) -> None:
        check = {"check_name": "customer_known", "check_type": "NULL_CHECK", "expected_value": "0"}
        self._add(
            name, at, **self._partition(day), **check, execution_id=run, task_id="load", **result
        )

    def _partition(self, day: str) -> dict[str, Any]:
        return {"table_id": self._orders, "partition_values": {"date": day}}

    def _add(self, name: str, at: datetime, **payload: object) -> None:
        self.events.append(
            {
                "event_type": name,
                "event_version": 1,
                "occurred_at": at,
                "source": _SOURCE,
                "payload": payload,
            }
        )
