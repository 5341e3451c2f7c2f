"""Handlers of runs: to begin them, to look at them, to stop them, and to read what they have logged."""

from collections import Counter

from msgspec import structs

from arco.access.principal import LOCAL_USER, Principal
from arco.api.flow.desk import FlowDesk
from arco.api.flow.sent import CancelWish, RetryWish
from arco.api.flow.waiting import Waiting
from arco.api.flow.wire import LogQuery, LookQuery, RunListQuery, TaskListQuery, TaskLog
from arco.api.operations.runs import Runs
from arco.api.operations.selection import equal
from arco.api.operations.wire import FlowRun, FlowRunPage, FlowTask, FlowTaskPage
from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.core import json
from arco.core.errors import NotFound
from arco.flow.run.events import LONGEST_LABEL
from arco.flow.run.logs import read_log
from arco.flow.run.missing import no_run, no_task
from arco.flow.run.ports import StoredRun
from arco.flow.run.task_state import ENDED, attempt_id_of
from arco.flow.run.wire import RunView, RunWish, TaskView


class FlowRuns:
    """Runs, those of the book and those that only events tell of any more."""

    def __init__(self, desk: FlowDesk, services: Services, waiting: Waiting) -> None:
        self._desk = desk
        self._book = desk.coordinator
        self._waiting = waiting
        self._store = services.reader.store
        self._told = Runs(services)

    async def submit(self, call: Call[Query, RunWish]) -> Reply:
        """Carry out a plan; answered once it is durable. The same run key again is the same run."""
        by = _by(call.principal, call.body.triggered_by)
        wish = structs.replace(call.body, triggered_by=by)
        return Reply(200, json.encode(await self._book.submit(wish)))

    async def page(self, call: Call[RunListQuery, None]) -> Reply:
        """All runs, latest first."""
        status = call.query.status
        where = [] if status is None else [equal("status", status.value)]
        _, found = await self._told.page(call, where)
        items = tuple(FlowRun(**structs.asdict(each)) for each in found.items)
        page = FlowRunPage(items=items, next_page_token=found.next_page_token)
        return Reply(200, json.encode(page))

    async def look(self, call: Call[LookQuery, None]) -> Reply:
        """How a run stands, waiting for a change of it if asked to."""
        run_id, query = call.names["run_id"], call.query

        async def ask(wait_ms: int) -> RunView:
            return await self._book.look(run_id, query.since, wait_ms)

        try:
            view = await self._waiting.until(
                call, query.wait_ms, ask, lambda found: found.number > query.since
            )
        except NotFound:
            view = _view(await self._stored(run_id))
        return Reply(200, json.encode(view))

    async def tasks(self, call: Call[TaskListQuery, None]) -> Reply:
        """The tasks of a run."""
        found = await self._told.task_page(call, call.names["run_id"])
        items = tuple(FlowTask(**structs.asdict(each)) for each in found.items)
        page = FlowTaskPage(items=items, next_page_token=found.next_page_token)
        return Reply(200, json.encode(page))

    async def cancel(self, call: Call[Query, CancelWish]) -> Reply:
        """Stop a run for good; what is published stays published."""
        by = _by(call.principal, call.body.by) or call.principal.name
        return Reply(200, json.encode(await self._book.cancel(call.names["run_id"], by)))

    async def retry(self, call: Call[Query, RetryWish]) -> Reply:
        """A new run of what did not succeed in a run that is over."""
        wish = call.body
        view = await self._book.retry(call.names["run_id"], wish.worker, wish.plan)
        return Reply(200, json.encode(view))

    async def log(self, call: Call[LogQuery, None]) -> Reply:
        """What an attempt at a task has logged."""
        run_id, key, query = call.names["run_id"], call.names["task"], call.query
        last, is_over = await self._last_attempt(run_id, key)
        attempt = query.attempt or max(last, 1)
        if attempt > max(last, 1):
            raise no_task(f"the task {key[:255]!r} has no attempt {attempt}: it has had {last}")
        attempt_id = attempt_id_of(run_id, key, attempt)
        found = await read_log(self._store, run_id, attempt_id, query.since)
        log = TaskLog(
            run_id=run_id,
            task=key,
            attempt=attempt,
            attempt_id=attempt_id,
            text=found.text,
            next=found.next,
            is_over=found.is_whole and (is_over or attempt < last),
        )
        return Reply(200, json.encode(log))

    async def _last_attempt(self, run_id: str, key: str) -> tuple[int, bool]:
        """The number of a task's last attempt, and whether that is over."""
        try:
            view = await self._book.look(run_id)
        except NotFound:
            view = _view(await self._stored(run_id))
        task = next((each for each in view.changed if each.key == key), None)
        if task is None:
            raise no_task(f"the run has no task {key[:255]!r}")
        return task.attempt, task.status in ENDED

    async def _stored(self, run_id: str) -> StoredRun:
        found = await self._desk.runs.run(run_id)
        if found is None:
            raise no_run(f"no run {run_id[:80]!r} was told of")
        return found


def _by(principal: Principal, said: str | None) -> str | None:
    """Who wants something: the one who has proven it, or where nobody is asked to, who they say."""
    return said if principal.name == LOCAL_USER else principal.name[:LONGEST_LABEL]


def _view(run: StoredRun) -> RunView:
    """A run that the book has forgotten, as it would show it."""
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
