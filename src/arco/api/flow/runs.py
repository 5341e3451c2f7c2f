"""Handlers of runs, for commands (submit, read, cancel, retry, logs) and for workers (lease, complete)."""

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta, structs

from arco.access.principal import LOCAL_USER, Principal
from arco.api.flow.tables import Name
from arco.api.http.long_poll import LongPoll
from arco.api.http.reply import Reply
from arco.api.http.request import Call, Freshness, QueryParams
from arco.api.operations.reading import FreshPageQuery, equal
from arco.api.operations.responses import FlowRun, FlowRunPage, FlowTask, FlowTaskPage
from arco.api.operations.runs import ExecutionHandlers
from arco.api.requests import RequestModel
from arco.api.responses import ResponseModel
from arco.api.services import FlowContext, Services
from arco.core import json
from arco.core.errors import AttemptFenced, Fenced, Invalid, NotFound
from arco.flow.coordinator.attempt_logs import read_log
from arco.flow.coordinator.events import MAX_LABEL_CHARS
from arco.flow.coordinator.messages import (
    AttemptReport,
    Heartbeat,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunStatus,
    RunView,
    TaskView,
)
from arco.flow.coordinator.ports import StoredRun, run_not_found, task_not_found
from arco.flow.coordinator.run_state import ENDED_STATUSES, attempt_id_of
from arco.flow.plan.plan import Plan

WaitMs = Annotated[int, Meta(ge=0, le=30_000, description="How long to wait for news, at most.")]


class RunListQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Runs of all pipelines, or those in one status; by default with all acknowledged events."""

    freshness: Freshness = "fresh"
    status: RunStatus | None = None


class TaskListQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Tasks of a run; by default with all acknowledged events."""

    freshness: Freshness = "fresh"


class RunQueryParams(QueryParams, frozen=True, kw_only=True):
    """A run: what has changed `since` a number of it, after waiting for a change up to `wait_ms`."""

    since: Annotated[int, Meta(ge=0, le=2**53)] = 0
    wait_ms: WaitMs = 0


class LogQuery(QueryParams, frozen=True, kw_only=True):
    """The log of an attempt from a chunk on; of the last attempt by default."""

    attempt: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    since: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class TaskLog(ResponseModel, frozen=True, kw_only=True):
    """What an attempt has logged; `next` is where to go on, `is_over` that nothing more will come."""

    run_id: str
    task: str
    attempt: int
    attempt_id: str
    text: str
    next: int
    is_over: bool


class CancelRunRequest(RequestModel, frozen=True, kw_only=True):
    """Cancels a run; `by` records who asked for it, if given."""

    by: Name | None = None


class RetryRunRequest(RequestModel, frozen=True, kw_only=True):
    """Runs again what a run has not made; `worker` restricts the new run to one worker.

    `plan` is a new plan of what the run has not made, or of some of it, with the present code. Without one
    the plan of the run is carried out again, by workers that have the code that it was made with.
    """

    worker: Annotated[str, Meta(max_length=255)] = ""
    plan: Plan | None = None


class WatchAttemptsRequest(RequestModel, frozen=True, kw_only=True):
    """Attempts of a worker, which wants to know which of them are to stop."""

    worker: Name
    attempt_ids: Annotated[tuple[Name, ...], Meta(max_length=1_000)]
    wait_ms: WaitMs = 0


class StoppedAttempts(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts that are to stop at once."""

    attempt_ids: tuple[str, ...]


class RunHandlers:
    """Runs of the coordinator, and older ones that only events describe."""

    def __init__(self, context: FlowContext, services: Services, polls: LongPoll) -> None:
        self._context = context
        self._coordinator = context.coordinator
        self._polls = polls
        self._store = services.reader.store
        self._executions = ExecutionHandlers(services)

    async def submit(self, call: Call[QueryParams, RunRequest]) -> Reply:
        """Carry out a plan; answered once it is durable. The same run key again is the same run."""
        by = _by(call.principal, call.body.triggered_by)
        request = structs.replace(call.body, triggered_by=by)
        view = await self._coordinator.submit(request, caller=call.caller)
        return Reply(200, json.encode(view))

    async def page(self, call: Call[RunListQuery, None]) -> Reply:
        """All runs, latest first."""
        status = call.query.status
        where = [] if status is None else [equal("status", status.value)]
        _, page = await self._executions.page(call, where)
        items = tuple(FlowRun(**structs.asdict(each)) for each in page.items)
        document = FlowRunPage(items=items, next_page_token=page.next_page_token)
        return Reply(200, json.encode(document))

    async def get(self, call: Call[RunQueryParams, None]) -> Reply:
        """The status of a run; waits for a change of it if the query asks for that."""
        run_id, query = call.path_params["run_id"], call.query

        async def ask(wait_ms: int) -> RunView:
            return await self._coordinator.get_run(run_id, query.since, wait_ms, caller=call.caller)

        try:
            view = await self._polls.until(
                call, query.wait_ms, ask, lambda view: view.number > query.since
            )
        except NotFound:
            view = _view(await self._stored(run_id, call.caller))
        return Reply(200, json.encode(view))

    async def tasks(self, call: Call[TaskListQuery, None]) -> Reply:
        """The tasks of a run."""
        page = await self._executions.task_page(call, call.path_params["run_id"])
        items = tuple(FlowTask(**structs.asdict(each)) for each in page.items)
        document = FlowTaskPage(items=items, next_page_token=page.next_page_token)
        return Reply(200, json.encode(document))

    async def cancel(self, call: Call[QueryParams, CancelRunRequest]) -> Reply:
        """Stop a run for good; what is published stays published."""
        by = _by(call.principal, call.body.by) or call.principal.name
        view = await self._coordinator.cancel(call.path_params["run_id"], by, caller=call.caller)
        return Reply(200, json.encode(view))

    async def retry(self, call: Call[QueryParams, RetryRunRequest]) -> Reply:
        """A new run of what did not succeed in a run that is over."""
        request = call.body
        view = await self._coordinator.retry(
            call.path_params["run_id"], request.worker, request.plan, caller=call.caller
        )
        return Reply(200, json.encode(view))

    async def log(self, call: Call[LogQuery, None]) -> Reply:
        """What an attempt at a task has logged."""
        run_id, key, query = call.path_params["run_id"], call.path_params["task"], call.query
        last, is_over = await self._last_attempt(run_id, key, call.caller)
        attempt = query.attempt or max(last, 1)
        if attempt > max(last, 1):
            raise task_not_found(
                f"the task {key[:255]!r} has no attempt {attempt}: it has had {last}"
            )
        attempt_id = attempt_id_of(run_id, key, attempt)
        chunk = await read_log(self._store, run_id, attempt_id, query.since)
        log = TaskLog(
            run_id=run_id,
            task=key,
            attempt=attempt,
            attempt_id=attempt_id,
            text=chunk.text,
            next=chunk.next,
            is_over=chunk.is_whole and (is_over or attempt < last),
        )
        return Reply(200, json.encode(log))

    async def _last_attempt(self, run_id: str, key: str, caller: str) -> tuple[int, bool]:
        """The number of a task's last attempt, and whether it has ended."""
        try:
            view = await self._coordinator.get_run(run_id, caller=caller)
        except NotFound:
            view = _view(await self._stored(run_id, caller))
        task = next((each for each in view.changed if each.key == key), None)
        if task is None:
            raise task_not_found(f"the run has no task {key[:255]!r}")
        return task.attempt, task.status in ENDED_STATUSES

    async def _stored(self, run_id: str, caller: str) -> StoredRun:
        run = await self._context.runs.run(run_id, caller=caller)
        if run is None:
            raise run_not_found(f"there is no run {run_id[:80]!r}")
        return run


def _by(principal: Principal, claimed: str | None) -> str | None:
    """Who requests something: the principal or, without identities, the name in the request."""
    return claimed if principal.name == LOCAL_USER else principal.name[:MAX_LABEL_CHARS]


def _view(run: StoredRun) -> RunView:
    """A run that the coordinator no longer has, as the coordinator would show it."""
    counts = Counter(task.status.value for task in run.tasks)
    return RunView(
        run_id=run.run_id,
        status=run.status,
        plan_id="",
        number=0,
        counts=dict(counts),
        changed=tuple(
            TaskView(
                key=task.key,
                status=task.status,
                attempt=task.attempt,
                worker=task.worker,
                started_at_ms=task.started_at_ms,
                completed_at_ms=task.completed_at_ms,
                rows_written=task.rows_written,
                error=task.error,
                checks=task.checks,
            )
            for task in run.tasks
        ),
        completed_at_ms=run.completed_at_ms,
        error=run.error,
    )


class WorkerHandlers:
    """The calls of workers to the coordinator."""

    def __init__(self, context: FlowContext, polls: LongPoll) -> None:
        self._coordinator = context.coordinator
        self._polls = polls

    async def lease(self, call: Call[QueryParams, LeaseRequest]) -> Reply:
        """Ask for tasks, waiting for some if there are none."""
        offer, caller = call.body, call.principal.name

        async def ask(wait_ms: int) -> LeaseResponse:
            request = structs.replace(offer, wait_ms=wait_ms)
            return await self._coordinator.lease(request, caller=caller)

        leased = await self._polls.until(
            call,
            offer.wait_ms,
            ask,
            lambda leased: bool(leased.tasks or leased.other_code) or leased.is_over,
        )
        return Reply(200, json.encode(leased))

    async def watch(self, call: Call[QueryParams, WatchAttemptsRequest]) -> Reply:
        """Ask which attempts are to stop, waiting for the first."""
        request = call.body

        async def ask(wait_ms: int) -> tuple[str, ...]:
            return await self._coordinator.watch(request.worker, request.attempt_ids, wait_ms)

        stopped = await self._polls.until(call, request.wait_ms, ask, bool)
        return Reply(200, json.encode(StoppedAttempts(attempt_ids=stopped)))

    async def heartbeat(self, call: Call[QueryParams, Heartbeat]) -> Reply:
        """Give a sign of life of an attempt, which makes its lease longer."""
        _check_attempt(call, call.body.attempt_id)
        try:
            pulse = await self._coordinator.heartbeat(call.body)
        except Fenced as fenced:
            raise _attempt_fenced(fenced) from fenced
        return Reply(200, json.encode(pulse))

    async def complete(self, call: Call[QueryParams, AttemptReport]) -> Reply:
        """Report how an attempt ended; answered once the report is durable."""
        _check_attempt(call, call.body.attempt_id)
        try:
            await self._coordinator.complete(call.body, caller=call.principal.name)
        except Fenced as fenced:
            raise _attempt_fenced(fenced) from fenced
        return Reply(204)


def _check_attempt(
    call: Call[QueryParams, Heartbeat] | Call[QueryParams, AttemptReport], attempt_id: str
) -> None:
    if call.path_params["attempt_id"] != attempt_id:
        raise Invalid("the attempt in the path is another than the one in the body")


def _attempt_fenced(fenced: Fenced) -> AttemptFenced:
    """An attempt that has lost its lease must not retry, unlike a server that has lost one."""
    return fenced if isinstance(fenced, AttemptFenced) else AttemptFenced(str(fenced))
