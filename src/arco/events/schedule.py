"""Events of schedules, sensors and backfills, which request executions."""

from typing import Literal

from arco.events.payload import Count, Id, Message, Payload, Timestamp
from arco.events.projection import (
    EventBatch,
    EventKind,
    ProjectedRows,
    Projection,
    event_kind,
    to_micros,
    to_micros_or_none,
)
from arco.fold.tier2 import BACKFILLS, EXECUTIONS_DOMAIN, ORDER, SCHEDULES, SENSORS

Switch = Literal["ACTIVE", "PAUSED"]
BackfillStatus = Literal["PENDING", "RUNNING", "PAUSED", "FAILED", "CANCELLED", "SUCCESS"]

_RANKS = {"PENDING": 1, "RUNNING": 2, "PAUSED": 2, "FAILED": 3, "CANCELLED": 4, "SUCCESS": 5}


class ScheduleTicked(Payload, frozen=True, kw_only=True):
    """A schedule ticked; a later `tick_at` outranks every clock."""

    schedule_id: Id
    tick_at: Timestamp
    next_at: Timestamp | None = None
    run_key: Id | None = None  # of the requested execution
    status: Switch = "ACTIVE"
    pipeline_id: Id | None = None
    definition: Message | None = None


class SensorEvaluated(Payload, frozen=True, kw_only=True):
    """A sensor was evaluated and stands at a cursor; a higher `cursor_number` outranks every clock."""

    sensor_id: Id
    cursor: Message | None = None
    cursor_number: Count = 0
    evaluated_at: Timestamp | None = None
    next_at: Timestamp | None = None
    status: Switch = "ACTIVE"
    error_message: Message | None = None
    pipeline_id: Id | None = None
    definition: Message | None = None


class BackfillCreated(Payload, frozen=True, kw_only=True):
    """A backfill of many partitions was requested."""

    backfill_id: Id
    pipeline_id: Id | None = None
    definition: Message | None = None
    partitions_total: Count | None = None
    created_at: Timestamp | None = None


class BackfillChunkPlanned(Payload, frozen=True, kw_only=True):
    """Executions were requested for the next chunk of a backfill: number `chunk`, from 1."""

    backfill_id: Id
    chunk: Count
    run_key: Id | None = None
    partitions: Count | None = None


class BackfillStateChanged(Payload, frozen=True, kw_only=True):
    """A backfill resumed, paused or ended; a higher `change` outranks statuses and clocks."""

    backfill_id: Id
    status: BackfillStatus
    change: Count = 0
    error_message: Message | None = None


def _ticked(batch: EventBatch[ScheduleTicked]) -> ProjectedRows:
    ticks = [to_micros(payload.tick_at) for payload in batch.payloads]
    return ProjectedRows(
        batch,
        {
            **batch.fields("schedule_id", "pipeline_id", "definition", "status"),
            "last_tick_at": ticks,
            "next_at": [to_micros_or_none(payload.next_at) for payload in batch.payloads],
            "last_run_key": batch.field("run_key"),
            ORDER: batch.order(causal=[max(tick, 0) for tick in ticks]),
        },
    )


def _evaluated(batch: EventBatch[SensorEvaluated]) -> ProjectedRows:
    return ProjectedRows(
        batch,
        {
            **batch.fields("sensor_id", "pipeline_id", "definition", "status", "cursor"),
            **batch.fields("cursor_number", "error_message"),
            "evaluated_at": batch.times("evaluated_at"),
            "next_at": [to_micros_or_none(payload.next_at) for payload in batch.payloads],
            ORDER: batch.order(causal=batch.field("cursor_number")),
        },
    )


def _created(batch: EventBatch[BackfillCreated]) -> ProjectedRows:
    return ProjectedRows(
        batch,
        {
            **batch.fields("backfill_id", "pipeline_id", "definition", "partitions_total"),
            "status": batch.repeat("PENDING"),
            "created_at": batch.times("created_at"),
            "updated_at": batch.occurred_us,
            "_status": batch.order(rank=_RANKS["PENDING"]),
        },
    )


def _chunk(batch: EventBatch[BackfillChunkPlanned]) -> ProjectedRows:
    planned = {"chunks_planned": batch.field("chunk"), "updated_at": batch.occurred_us}
    return ProjectedRows(batch, {**batch.fields("backfill_id"), **planned})


def _changed(batch: EventBatch[BackfillStateChanged]) -> ProjectedRows:
    ranks = [_RANKS[payload.status] for payload in batch.payloads]
    return ProjectedRows(
        batch,
        {
            **batch.fields("backfill_id", "status", "error_message"),
            "updated_at": batch.occurred_us,
            "_status": batch.order(causal=batch.field("change"), rank=ranks),
        },
    )


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "schedule_ticked",
        EXECUTIONS_DOMAIN,
        ScheduleTicked,
        Projection(SCHEDULES, _ticked),
        example={
            "schedule_id": "orders_daily",
            "tick_at": "2026-05-01T10:00:00Z",
            "next_at": "2026-05-02T10:00:00Z",
            "run_key": "orders_daily:2026-05-01",
            "pipeline_id": "orders_daily",
            "definition": "0 10 * * *",
        },
    ),
    event_kind(
        "sensor_evaluated",
        EXECUTIONS_DOMAIN,
        SensorEvaluated,
        Projection(SENSORS, _evaluated),
        example={
            "sensor_id": "new_orders",
            "cursor": "orders/2026-05-01/part-0007",
            "cursor_number": 42,
            "next_at": "2026-05-01T10:00:30Z",
        },
    ),
    event_kind(
        "backfill_created",
        EXECUTIONS_DOMAIN,
        BackfillCreated,
        Projection(BACKFILLS, _created),
        example={
            "backfill_id": "bf-3",
            "pipeline_id": "orders_daily",
            "definition": "date=2026-01-01..2026-04-30, newest first, 7 at a time",
            "partitions_total": 120,
        },
    ),
    event_kind(
        "backfill_chunk_planned",
        EXECUTIONS_DOMAIN,
        BackfillChunkPlanned,
        Projection(BACKFILLS, _chunk),
        example={"backfill_id": "bf-3", "chunk": 4, "run_key": "bf-3:4", "partitions": 7},
    ),
    event_kind(
        "backfill_state_changed",
        EXECUTIONS_DOMAIN,
        BackfillStateChanged,
        Projection(BACKFILLS, _changed),
        example={"backfill_id": "bf-3", "status": "RUNNING", "change": 1},
    ),
)
