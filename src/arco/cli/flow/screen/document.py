"""A run as one document for programs."""

from arco.cli.flow.screen.board import Board, took_ms
from arco.flow.coordinator.messages import TaskStatus
from arco.flow.plan.keys import short_name
from arco.flow.plan.plan import Plan, PlannedTask, blocked_document


def run_document(board: Board) -> dict[str, object]:
    """All that is known of a run: of a plan without tasks there is none, and nothing went wrong."""
    run, plan = board.run, board.plan
    return {
        "run_id": None if run is None else run.run_id,
        "status": "SUCCESS" if run is None else run.status,
        "plan_id": plan.plan_id,
        "project": plan.project,
        "requested_at_ms": None if run is None else run.requested_at_ms,
        "completed_at_ms": None if run is None else run.completed_at_ms,
        "error": None if run is None else run.error,
        "counts": {status.value: count for status, count in board.counts().items()},
        "up_to_date": plan.up_to_date,
        "waiting": waiting_document(plan),
        "blocked": blocked_document(plan),
        "tasks": [_task(board, task) for task in plan.tasks],
    }


def waiting_document(plan: Plan) -> list[dict[str, object]]:
    """What was asked for and cannot be made."""
    return [{"key": each.key, "lacks": list(each.lacks)} for each in plan.waiting]


def _task(board: Board, task: PlannedTask) -> dict[str, object]:
    view = board.views.get(task.key)
    told: dict[str, object] = {
        "key": task.key,
        "asset": short_name(task.maker),
        "partition": task.partition,
        "reason": task.reason,
        "status": TaskStatus.PENDING if view is None else view.status,
    }
    if view is None:
        return told
    return told | {
        "attempt": view.attempt,
        "rows": view.rows_written,
        "started_at_ms": view.started_at_ms,
        "completed_at_ms": view.completed_at_ms,
        "duration_ms": took_ms(view),
        "error": view.error,
        "checks": list(view.checks),
        "warnings": list(view.warnings),
        "note": view.note,
    }
