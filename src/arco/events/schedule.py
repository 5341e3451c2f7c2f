"""Schedules, sensors and backfills: what makes executions begin without anybody asking."""

from typing import Literal

from arco.events.field import Count, Id, Message, Moment, Payload
from arco.events.told import EventKind, Projection, Row, Told, kind, us
from arco.fold.tier2 import BACKFILLS, EXECUTIONS_DOMAIN, OCCURRED, SCHEDULES, SENSORS

Switch = Literal["ACTIVE", "PAUSED"]
BackfillStatus = Literal["PENDING", "RUNNING", "PAUSED", "FAILED", "CANCELLED", "SUCCESS"]

_RANKS = {"PENDING": 1, "RUNNING": 2, "PAUSED": 2, "FAILED": 3, "CANCELLED": 4, "SUCCESS": 5}


class ScheduleTicked(Payload, frozen=True, kw_only=True):
    """The time of a schedule has come; a later `tick_at` decides before any clock."""

    schedule_id: Id
    tick_at: Moment
    next_at: Moment | None = None
    run_key: Id | None = None  # of the execution that it asked for
    status: Switch = "ACTIVE"
    pipeline_id: Id | None = None
    definition: Message | None = None


class SensorEvaluated(Payload, frozen=True, kw_only=True):
    """A sensor looked for news, and stands at a cursor; a higher `cursor_number` decides before clocks."""

    sensor_id: Id
    cursor: Message | None = None
    cursor_number: Count = 0
    evaluated_at: Moment | None = None
    next_at: Moment | None = None
    status: Switch = "ACTIVE"
    error_message: Message | None = None
    pipeline_id: Id | None = None
    definition: Message | None = None


class BackfillCreated(Payload, frozen=True, kw_only=True):
    """Somebody wants many partitions to be made anew."""

    backfill_id: Id
    pipeline_id: Id | None = None
    definition: Message | None = None
    partitions_total: Count | None = None
    created_at: Moment | None = None


class BackfillChunkPlanned(Payload, frozen=True, kw_only=True):
    """Executions were asked for, for the next part of a backfill: number `chunk`, from 1."""

    backfill_id: Id
    chunk: Count
    run_key: Id | None = None
    partitions: Count | None = None


class BackfillStateChanged(Payload, frozen=True, kw_only=True):
    """A backfill goes on, rests or is over; a higher `change` decides before status and clocks."""

    backfill_id: Id
    status: BackfillStatus
    change: Count = 0
    error_message: Message | None = None


def _ticked(told: Told, said: ScheduleTicked) -> tuple[Row]:
    tick = us(said.tick_at)
    row = (
        said.schedule_id,
        said.pipeline_id,
        said.definition,
        said.status,
        tick,
        None if said.next_at is None else us(said.next_at),
        said.run_key,
        told.order(causal=max(tick, 0)),
        told.occurred,
    )
    return (row,)


def _evaluated(told: Told, said: SensorEvaluated) -> tuple[Row]:
    row = (
        said.sensor_id,
        said.pipeline_id,
        said.definition,
        said.status,
        said.cursor,
        said.cursor_number,
        told.when(said.evaluated_at),
        None if said.next_at is None else us(said.next_at),
        said.error_message,
        told.order(causal=said.cursor_number),
        told.occurred,
    )
    return (row,)


def _created(told: Told, said: BackfillCreated) -> tuple[Row]:
    row = (
        said.backfill_id,
        said.pipeline_id,
        said.definition,
        "PENDING",
        said.partitions_total,
        told.when(said.created_at),
        told.occurred,
        told.order(rank=_RANKS["PENDING"]),
        told.occurred,
    )
    return (row,)


def _chunk(told: Told, said: BackfillChunkPlanned) -> tuple[Row]:
    return ((said.backfill_id, said.chunk, told.occurred, told.occurred),)


def _changed(told: Told, said: BackfillStateChanged) -> tuple[Row]:
    order = told.order(causal=said.change, rank=_RANKS[said.status])
    row = (said.backfill_id, said.status, said.error_message, told.occurred, order, told.occurred)
    return (row,)


KINDS: tuple[EventKind, ...] = (
    kind(
        "schedule_ticked",
        EXECUTIONS_DOMAIN,
        ScheduleTicked,
        Projection(
            SCHEDULES,
            (
                *("schedule_id", "pipeline_id", "definition", "status", "last_tick_at"),
                *("next_at", "last_run_key", "_told", OCCURRED),
            ),
            _ticked,
        ),
        example={
            "schedule_id": "orders_daily",
            "tick_at": "2026-05-01T10:00:00Z",
            "next_at": "2026-05-02T10:00:00Z",
            "run_key": "orders_daily:2026-05-01",
            "pipeline_id": "orders_daily",
            "definition": "0 10 * * *",
        },
    ),
    kind(
        "sensor_evaluated",
        EXECUTIONS_DOMAIN,
        SensorEvaluated,
        Projection(
            SENSORS,
            (
                *("sensor_id", "pipeline_id", "definition", "status", "cursor"),
                *("cursor_number", "evaluated_at", "next_at", "error_message"),
                *("_told", OCCURRED),
            ),
            _evaluated,
        ),
        example={
            "sensor_id": "new_orders",
            "cursor": "orders/2026-05-01/part-0007",
            "cursor_number": 42,
            "next_at": "2026-05-01T10:00:30Z",
        },
    ),
    kind(
        "backfill_created",
        EXECUTIONS_DOMAIN,
        BackfillCreated,
        Projection(
            BACKFILLS,
            (
                *("backfill_id", "pipeline_id", "definition", "status", "partitions_total"),
                *("created_at", "updated_at", "_status", OCCURRED),
            ),
            _created,
        ),
        example={
            "backfill_id": "bf-3",
            "pipeline_id": "orders_daily",
            "definition": "date=2026-01-01..2026-04-30, newest first, 7 at a time",
            "partitions_total": 120,
        },
    ),
    kind(
        "backfill_chunk_planned",
        EXECUTIONS_DOMAIN,
        BackfillChunkPlanned,
        Projection(BACKFILLS, ("backfill_id", "chunks_planned", "updated_at", OCCURRED), _chunk),
        example={"backfill_id": "bf-3", "chunk": 4, "run_key": "bf-3:4", "partitions": 7},
    ),
    kind(
        "backfill_state_changed",
        EXECUTIONS_DOMAIN,
        BackfillStateChanged,
        Projection(
            BACKFILLS,
            ("backfill_id", "status", "error_message", "updated_at", "_status", OCCURRED),
            _changed,
        ),
        example={"backfill_id": "bf-3", "status": "RUNNING", "change": 1},
    ),
)
