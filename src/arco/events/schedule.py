"""Schedules, sensors and backfills: what makes executions begin without anybody asking."""

from typing import Literal

from arco.events.field import Count, Id, Message, Moment, Payload
from arco.events.told import EventKind, Projection, Rows, Told, kind, us, us_or_none
from arco.fold.tier2 import BACKFILLS, EXECUTIONS_DOMAIN, SCHEDULES, SENSORS

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


def _ticked(told: Told[ScheduleTicked]) -> Rows:
    ticks = [us(said.tick_at) for said in told.said]
    return Rows(
        told,
        {
            **told.fields("schedule_id", "pipeline_id", "definition", "status"),
            "last_tick_at": ticks,
            "next_at": [us_or_none(said.next_at) for said in told.said],
            "last_run_key": told.field("run_key"),
            "_told": told.order(causal=[max(tick, 0) for tick in ticks]),
        },
    )


def _evaluated(told: Told[SensorEvaluated]) -> Rows:
    return Rows(
        told,
        {
            **told.fields("sensor_id", "pipeline_id", "definition", "status", "cursor"),
            **told.fields("cursor_number", "error_message"),
            "evaluated_at": told.when("evaluated_at"),
            "next_at": [us_or_none(said.next_at) for said in told.said],
            "_told": told.order(causal=told.field("cursor_number")),
        },
    )


def _created(told: Told[BackfillCreated]) -> Rows:
    return Rows(
        told,
        {
            **told.fields("backfill_id", "pipeline_id", "definition", "partitions_total"),
            "status": told.all("PENDING"),
            "created_at": told.when("created_at"),
            "updated_at": told.occurred,
            "_status": told.order(rank=_RANKS["PENDING"]),
        },
    )


def _chunk(told: Told[BackfillChunkPlanned]) -> Rows:
    planned = {"chunks_planned": told.field("chunk"), "updated_at": told.occurred}
    return Rows(told, {**told.fields("backfill_id"), **planned})


def _changed(told: Told[BackfillStateChanged]) -> Rows:
    ranks = [_RANKS[said.status] for said in told.said]
    return Rows(
        told,
        {
            **told.fields("backfill_id", "status", "error_message"),
            "updated_at": told.occurred,
            "_status": told.order(causal=told.field("change"), rank=ranks),
        },
    )


KINDS: tuple[EventKind, ...] = (
    kind(
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
    kind(
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
    kind(
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
    kind(
        "backfill_chunk_planned",
        EXECUTIONS_DOMAIN,
        BackfillChunkPlanned,
        Projection(BACKFILLS, _chunk),
        example={"backfill_id": "bf-3", "chunk": 4, "run_key": "bf-3:4", "partitions": 7},
    ),
    kind(
        "backfill_state_changed",
        EXECUTIONS_DOMAIN,
        BackfillStateChanged,
        Projection(BACKFILLS, _changed),
        example={"backfill_id": "bf-3", "status": "RUNNING", "change": 1},
    ),
)
