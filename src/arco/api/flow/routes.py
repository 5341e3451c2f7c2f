"""The routes of pipelines."""

from dataclasses import replace
from typing import Any

from arco.access.authorization import Operation
from arco.api.desk import API
from arco.api.flow.files import TableFiles, files_routes
from arco.api.flow.runs import FlowRuns
from arco.api.flow.sent import AttemptsStopped, AttemptsWatched, CancelWish, RetryWish, TablesAsked
from arco.api.flow.state import States
from arco.api.flow.waiting import Waiting
from arco.api.flow.wire import (
    LogQuery,
    LookQuery,
    RunListQuery,
    TaskListQuery,
    TaskLog,
    ValuesChange,
    ValuesChanged,
)
from arco.api.flow.work import Work
from arco.api.operations.wire import FlowRunPage, FlowTaskPage
from arco.api.query_params import Query
from arco.api.route import Answered, AnyRoute, Route, Sent, sent
from arco.api.services import Services
from arco.api.verbs import says
from arco.core import json
from arco.flow.run.wire import Beat, Completed, Leased, Offer, Pulse, RunView, RunWish
from arco.flow.state import State

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
    """All routes of pipelines, where somebody keeps the book of runs."""
    desk = services.flow
    if desk is None:
        return ()
    waiting = Waiting(services.runtime, services.stopping)
    runs, states = FlowRuns(desk, services, waiting), States(desk, services)
    return (
        *_state(states),
        *_runs(runs),
        *_reads_of_runs(runs),
        *_work(Work(desk, waiting)),
        *files_routes(TableFiles(desk.tables)),
    )


def _state(on: States) -> tuple[AnyRoute, ...]:
    return (
        _asked(
            f"{API}/flow/state",
            Operation.GET_FLOW_STATE,
            on.state,
            sent(TablesAsked, {"tables": ["default.silver.orders"]}),
            Answered(200, "What is known.", State),
        ),
        _told(
            f"{API}/partition-values",
            Operation.CHANGE_PARTITION_VALUES,
            on.change_values,
            sent(ValuesChange, {"dimension": "customer", "values": ["acme"]}),
            Answered(200, "It is durable.", ValuesChanged),
            problems=(),
        ),
    )


def _runs(on: FlowRuns) -> tuple[AnyRoute, ...]:
    view = Answered(200, "The run, as it stands.", RunView)
    return (
        _told(
            _RUNS,
            Operation.SUBMIT_RUN,
            on.submit,
            sent(RunWish, {"run_key": "gold.report:2026-01-01", "plan": _PLAN}),
            view,
            problems=(409, 422),
        ),
        _told(f"{_RUN}/cancel", Operation.CANCEL_RUN, on.cancel, _maybe(CancelWish), view),
        _told(f"{_RUN}/retry", Operation.RETRY_RUN, on.retry, _maybe(RetryWish), view),
    )


def _reads_of_runs(on: FlowRuns) -> tuple[AnyRoute, ...]:
    return (
        _read(_RUNS, Operation.LIST_ALL_RUNS, on.page, RunListQuery, FlowRunPage, queries=True),
        _read(_RUN, Operation.GET_RUN, on.look, LookQuery, RunView, waits=True),
        _read(
            f"{_RUN}/tasks",
            Operation.LIST_RUN_TASKS,
            on.tasks,
            TaskListQuery,
            FlowTaskPage,
            queries=True,
        ),
        _read(f"{_RUN}/tasks/{{task}}/logs", Operation.GET_TASK_LOG, on.log, LogQuery, TaskLog),
    )


def _work(on: Work) -> tuple[AnyRoute, ...]:
    worker = {"worker": "machine-1", "attempt_id": _ATTEMPT_ID}
    outcome = {"status": "SUCCESS"}
    times = {"started_at_ms": 1_767_225_600_000, "completed_at_ms": 1_767_225_601_000}
    return (
        _told(
            f"{_TASKS}/lease",
            Operation.LEASE_TASKS,
            on.lease,
            sent(Offer, {"worker": "machine-1", "slots": 2, "project": "shop"}),
            Answered(200, "Tasks, if there are any.", Leased),
            waits=True,
        ),
        _asked(
            f"{_TASKS}/watch",
            Operation.WATCH_ATTEMPTS,
            on.watch,
            sent(AttemptsWatched, {"worker": "machine-1", "attempt_ids": [_ATTEMPT_ID]}),
            Answered(200, "Which of them are to stop.", AttemptsStopped),
            waits=True,
        ),
        _told(
            f"{_ATTEMPT}/heartbeat",
            Operation.BEAT_ATTEMPT,
            on.beat,
            sent(Beat, worker),
            Answered(200, "How long the lease is now.", Pulse),
        ),
        _told(
            f"{_ATTEMPT}/completed",
            Operation.COMPLETE_ATTEMPT,
            on.complete,
            sent(Completed, {**worker, **times, "outcome": outcome}),
            Answered(204, "It is durable."),
        ),
    )


def _maybe(kind: Any) -> Sent[Any]:
    """A body that may be left out."""
    return Sent(lambda raw: json.decode(raw, kind), (kind,), {}, optional=True)


def _read(
    path: str,
    operation: Operation,
    handler: Any,
    query: type[Query],
    told: Any,
    *,
    waits: bool = False,
    queries: bool = False,
) -> AnyRoute:
    return Route(
        "GET",
        path,
        operation,
        says(handler),
        handler,
        query,
        (Answered(200, "As it is.", told),),
        problems=(404,),
        tagged=False,
        waits=waits,
        queries=queries,
    )


def _asked(
    path: str,
    operation: Operation,
    handler: Any,
    body: Sent[Any],
    answered: Answered,
    *,
    waits: bool = False,
) -> AnyRoute:
    """A question that is too long for a URL; it changes nothing."""
    return Route(
        "POST",
        path,
        operation,
        says(handler),
        handler,
        Query,
        (answered,),
        body,
        problems=(404,),
        tagged=False,
        waits=waits,
    )


def _told(
    path: str,
    operation: Operation,
    handler: Any,
    body: Sent[Any],
    answered: Answered,
    *,
    problems: tuple[int, ...] = (404, 409),
    waits: bool = False,
) -> AnyRoute:
    """A change that names what it is about, by a run key, a run or an attempt: repeating it is harmless."""
    return replace(
        _asked(path, operation, handler, body, answered, waits=waits),
        problems=problems,
        mutates=True,
        named=True,
        body_bytes=PLAN_BYTES,
        inflates=True,
    )
