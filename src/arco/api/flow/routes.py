"""The routes of pipelines."""

from dataclasses import replace
from typing import Any

from arco.access.authorization import Operation
from arco.api.context import API
from arco.api.flow.runs import (
    CancelRunRequest,
    LogQuery,
    RetryRunRequest,
    RunHandlers,
    RunListQuery,
    RunQueryParams,
    StoppedAttempts,
    TaskListQuery,
    TaskLog,
    WatchAttemptsRequest,
    WorkerHandlers,
)
from arco.api.flow.tables import (
    FlowStateHandlers,
    FlowStateRequest,
    TableFileHandlers,
    ValuesChange,
    ValuesChanged,
    files_routes,
)
from arco.api.http.long_poll import LongPoll
from arco.api.http.request import QueryParams
from arco.api.http.route import AnyRoute, BodySpec, ResponseSpec, json_body, read_route
from arco.api.operations.responses import FlowRunPage, FlowTaskPage
from arco.api.services import Services
from arco.flow.coordinator.messages import (
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunView,
)
from arco.flow.plan.table_state import PlanningState

PLAN_BYTES = 64 * 1024 * 1024  # a plan of 10,000 tasks is some MB

_RUNS = f"{API}/runs"
_RUN = f"{_RUNS}/{{run_id}}"
_TASKS = f"{API}/tasks"
_ATTEMPT = f"{_TASKS}/{{attempt_id}}"
_ATTEMPT_ID = "9f86d081884c7d659a2feaa0c55ad015"
_PLAN = {
    "project": "shop",
    "selection": "gold.report",
    "now_ms": 1_767_225_600_000,
    "state_number": 7,
    "makers": [{"name": "report", "kind": "task"}],
    "tasks": [{"key": "report", "maker": "report", "partition": "", "reason": "FORCED"}],
}


def flow_routes(services: Services) -> tuple[AnyRoute, ...]:
    """The routes of pipelines, if this process serves runs."""
    context = services.flow
    if context is None:
        return ()
    polls = LongPoll(services.runtime, services.stopping)
    runs, states = RunHandlers(context, services, polls), FlowStateHandlers(context, services)
    return (
        *_state(states),
        *_runs(runs),
        *_run_reads(runs),
        *_workers(WorkerHandlers(context, polls)),
        *files_routes(TableFileHandlers(context.tables)),
    )


def _state(on: FlowStateHandlers) -> tuple[AnyRoute, ...]:
    return (
        read_route(
            f"{API}/flow/state",
            Operation.GET_FLOW_STATE,
            on.state,
            QueryParams,
            ResponseSpec(200, "The state of the tables.", PlanningState),
            body=json_body(FlowStateRequest, {"tables": ["default.silver.orders"]}),
            runs_sql=True,
        ),
        _change(
            f"{API}/partition-values",
            Operation.CHANGE_PARTITION_VALUES,
            on.change_values,
            json_body(ValuesChange, {"dimension": "customer", "values": ["acme"]}),
            ResponseSpec(200, "It is durable.", ValuesChanged),
            problems=(),
        ),
    )


def _runs(on: RunHandlers) -> tuple[AnyRoute, ...]:
    view = ResponseSpec(200, "The run, as it stands.", RunView)
    return (
        _change(
            _RUNS,
            Operation.SUBMIT_RUN,
            on.submit,
            json_body(RunRequest, {"run_key": "gold.report:2026-01-01", "plan": _PLAN}),
            view,
            problems=(409, 422),
        ),
        _change(
            f"{_RUN}/cancel", Operation.CANCEL_RUN, on.cancel, _optional(CancelRunRequest), view
        ),
        _change(f"{_RUN}/retry", Operation.RETRY_RUN, on.retry, _optional(RetryRunRequest), view),
    )


def _run_reads(on: RunHandlers) -> tuple[AnyRoute, ...]:
    runs, run, tasks, log = (
        ResponseSpec(200, "As it is.", each)
        for each in (FlowRunPage, RunView, FlowTaskPage, TaskLog)
    )
    return (
        read_route(_RUNS, Operation.LIST_RUNS, on.page, RunListQuery, runs, runs_sql=True),
        read_route(
            _RUN, Operation.GET_RUN, on.get, RunQueryParams, run, runs_sql=True, long_polls=True
        ),
        read_route(
            f"{_RUN}/tasks", Operation.LIST_RUN_TASKS, on.tasks, TaskListQuery, tasks, runs_sql=True
        ),
        read_route(
            f"{_RUN}/tasks/{{task}}/logs",
            Operation.GET_TASK_LOG,
            on.log,
            LogQuery,
            log,
            runs_sql=True,
        ),
    )


def _workers(on: WorkerHandlers) -> tuple[AnyRoute, ...]:
    worker = {"worker": "machine-1", "attempt_id": _ATTEMPT_ID}
    outcome = {"status": "SUCCESS"}
    times = {"started_at_ms": 1_767_225_600_000, "completed_at_ms": 1_767_225_601_000}
    return (
        _change(
            f"{_TASKS}/lease",
            Operation.LEASE_TASKS,
            on.lease,
            json_body(LeaseRequest, {"worker": "machine-1", "slots": 2, "project": "shop"}),
            ResponseSpec(200, "Tasks, if there are any.", LeaseResponse),
            long_polls=True,
        ),
        read_route(
            f"{_TASKS}/watch",
            Operation.WATCH_ATTEMPTS,
            on.watch,
            QueryParams,
            ResponseSpec(200, "Which of them are to stop.", StoppedAttempts),
            body=json_body(
                WatchAttemptsRequest, {"worker": "machine-1", "attempt_ids": [_ATTEMPT_ID]}
            ),
            long_polls=True,
        ),
        _change(
            f"{_ATTEMPT}/heartbeat",
            Operation.HEARTBEAT,
            on.heartbeat,
            json_body(Heartbeat, worker),
            ResponseSpec(200, "How long the lease is now.", HeartbeatResponse),
        ),
        _change(
            f"{_ATTEMPT}/completed",
            Operation.COMPLETE_ATTEMPT,
            on.complete,
            json_body(AttemptReport, {**worker, **times, "outcome": outcome}),
            ResponseSpec(204, "It is durable."),
        ),
    )


def _optional(body_type: Any) -> BodySpec[Any]:
    """A body that may be absent."""
    return json_body(body_type, {}, optional=True)


def _change(
    path: str,
    operation: Operation,
    handler: Any,
    body: BodySpec[Any],
    response: ResponseSpec,
    *,
    problems: tuple[int, ...] = (404, 409),
    long_polls: bool = False,
) -> AnyRoute:
    """A change of a run key, a run or an attempt, which may be repeated without an Idempotency-Key."""
    return replace(
        read_route(
            path, operation, handler, QueryParams, response, body=body, long_polls=long_polls
        ),
        problems=problems,
        mutates=True,
        is_idempotent=True,
        body_bytes=PLAN_BYTES,
        accepts_gzip=True,
    )
