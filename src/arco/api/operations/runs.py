"""Handlers of runs and their tasks, as events describe them."""

from typing import Any

from arco.access.authorization import Operation
from arco.api.http.reply import Reply
from arco.api.http.request import Call
from arco.api.http.route import AnyRoute
from arco.api.operations.reading import (
    EventTableReader,
    FreshPageQuery,
    FreshQuery,
    Select,
    after_key,
    equal,
    event_table_route,
    from_row,
    open_reader,
    page_start,
    split_page,
)
from arco.api.operations.responses import (
    Execution,
    ExecutionStatus,
    ExecutionSummary,
    RunPage,
    TaskRun,
    TaskRunPage,
    columns_of,
)
from arco.api.services import Services
from arco.core import json
from arco.core.errors import NotFound

_RUN = columns_of(ExecutionSummary)
_TASK = columns_of(TaskRun)
_NOT_BEGUN = 2**63 - 1  # runs without a start come before all others
_BEGAN = f"coalesce(CAST(started_at AS BIGINT), {_NOT_BEGUN})"


class RunsQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Runs of a pipeline, or those in one status."""

    status: ExecutionStatus | None = None


class ExecutionHandlers:
    """Read executions and their tasks."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def of_pipeline(self, call: Call[RunsQuery, None]) -> Reply:
        """The runs of a pipeline, latest first."""
        query, pipeline = call.query, call.path_params["pipeline"]
        where = [equal("pipeline_id", pipeline)]
        if query.status is not None:
            where.append(equal("status", query.status))
        reader, page = await self.page(call, where)
        if not page.items and query.page_token is None:
            await self._check_pipeline(reader, pipeline)
        return Reply(200, json.encode(page))

    async def page(
        self, call: Call[Any, None], where: list[str]
    ) -> tuple[EventTableReader, RunPage]:
        """A page of the selected runs, latest first, and the reader that it was read with."""
        query: FreshPageQuery = call.query
        reader = await open_reader(self._services, call, query.page_token)
        start = page_start(query.page_token)
        rows = await reader.rows(
            Select(
                "executions",
                (*_RUN, f"{_BEGAN} AS began"),
                [*where, *after_key(_BEGAN, start, name="execution_id", numeric=True)],
                order_by=("began DESC", "execution_id"),
                limit=query.page_size + 1,
            )
        )
        page, last_key = split_page(rows, query.page_size, "began", "execution_id")
        items = tuple(from_row(ExecutionSummary, row) for row in page)
        return reader, RunPage(items=items, next_page_token=reader.token(last_key))

    async def get(self, call: Call[FreshQuery, None]) -> Reply:
        """One run, with the statuses of its tasks."""
        execution_id = call.path_params["execution"]
        reader = await open_reader(self._services, call)
        rows = await reader.rows(_execution(execution_id))
        if not rows:
            raise _unknown_run(execution_id)
        counts = await reader.counts("tasks", "status", [equal("execution_id", execution_id)])
        return Reply(200, json.encode(from_row(Execution, rows[0], task_counts=counts)))

    async def tasks(self, call: Call[FreshPageQuery, None]) -> Reply:
        """The tasks of a run."""
        return Reply(200, json.encode(await self.task_page(call, call.path_params["execution"])))

    async def task_page(self, call: Call[Any, None], execution_id: str) -> TaskRunPage:
        """A page of the tasks of a run, by their ids."""
        query: FreshPageQuery = call.query
        reader = await open_reader(self._services, call, query.page_token)
        start = page_start(query.page_token)
        rows = await reader.rows(
            Select(
                "tasks",
                _TASK,
                [equal("execution_id", execution_id), *after_key("task_id", start, name="task_id")],
                order_by=("task_id",),
                limit=query.page_size + 1,
            )
        )
        if not rows and start is None and not await reader.rows(_execution(execution_id)):
            raise _unknown_run(execution_id)
        page, last_key = split_page(rows, query.page_size, "task_id", "task_id")
        items = tuple(from_row(TaskRun, row) for row in page)
        return TaskRunPage(items=items, next_page_token=reader.token(last_key))

    async def _check_pipeline(self, reader: EventTableReader, pipeline: str) -> None:
        select = Select("executions", ("pipeline_id",), [equal("pipeline_id", pipeline)], limit=1)
        if not await reader.rows(select):
            raise NotFound(f"there is no run of a pipeline {pipeline[:80]!r}")


def _execution(execution_id: str) -> Select:
    return Select("executions", _RUN, [equal("execution_id", execution_id)], limit=1)


def _unknown_run(execution_id: str) -> NotFound:
    return NotFound(f"there is no run {execution_id[:80]!r}")


def execution_routes(on: ExecutionHandlers) -> tuple[AnyRoute, ...]:
    """The routes of runs and their tasks."""
    run = "/api/v1/executions/{execution}"
    runs = "/api/v1/pipelines/{pipeline}/runs"
    return (
        event_table_route(runs, Operation.LIST_EXECUTIONS, on.of_pipeline, RunsQuery, RunPage),
        event_table_route(run, Operation.GET_EXECUTION, on.get, FreshQuery, Execution),
        event_table_route(
            f"{run}/tasks", Operation.LIST_TASKS, on.tasks, FreshPageQuery, TaskRunPage
        ),
    )
