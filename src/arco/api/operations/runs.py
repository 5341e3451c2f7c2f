"""Handlers of runs and their tasks."""

from typing import Any

from arco.api.operations.reading import (
    FreshPageQuery,
    FreshQuery,
    Reading,
    after,
    behind,
    document,
    look,
    page,
)
from arco.api.operations.selection import Select, equal
from arco.api.operations.wire import (
    Execution,
    ExecutionStatus,
    Run,
    RunPage,
    TaskRun,
    TaskRunPage,
    columns_of,
)
from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.core import json
from arco.core.errors import NotFound

_RUN = columns_of(Run)
_TASK = columns_of(TaskRun)
_NOT_BEGUN = 2**63 - 1  # runs without a start come before all others
_BEGAN = f"coalesce(CAST(started_at AS BIGINT), {_NOT_BEGUN})"


class RunsQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Runs of a pipeline, perhaps those in one status alone."""

    status: ExecutionStatus | None = None


class Runs:
    """Reads executions and tasks."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def of_pipeline(self, call: Call[RunsQuery, None]) -> Reply:
        """The runs of a pipeline, latest first."""
        query, pipeline = call.query, call.names["pipeline"]
        where = [equal("pipeline_id", pipeline)]
        if query.status is not None:
            where.append(equal("status", query.status))
        reading, found = await self.page(call, where)
        if not found.items and query.page_token is None:
            await self._refuse_unknown(reading, pipeline)
        return Reply(200, json.encode(found))

    async def page(self, call: Call[Any, None], where: list[str]) -> tuple[Reading, RunPage]:
        """A page of the runs that are meant, latest first, and the moment that it is of."""
        query: FreshPageQuery = call.query
        reading = await look(self._services, call, query.page_token)
        spot = after(query.page_token)
        rows = await reading.rows(
            Select(
                "executions",
                (*_RUN, f"{_BEGAN} AS began"),
                [*where, *behind(_BEGAN, spot, name="execution_id", numeric=True)],
                order_by=("began DESC", "execution_id"),
                limit=query.page_size + 1,
            )
        )
        shown, last = page(rows, query.page_size, "began", "execution_id")
        items = tuple(document(Run, row) for row in shown)
        return reading, RunPage(items=items, next_page_token=reading.token(last))

    async def get(self, call: Call[FreshQuery, None]) -> Reply:
        """One run, with the statuses of its tasks."""
        execution_id = call.names["execution"]
        reading = await look(self._services, call)
        rows = await reading.rows(_execution(execution_id))
        if not rows:
            raise _unknown_run(execution_id)
        counts = await reading.counts("tasks", "status", [equal("execution_id", execution_id)])
        return Reply(200, json.encode(document(Execution, rows[0], task_counts=counts)))

    async def tasks(self, call: Call[FreshPageQuery, None]) -> Reply:
        """The tasks of a run."""
        return Reply(200, json.encode(await self.task_page(call, call.names["execution"])))

    async def task_page(self, call: Call[Any, None], execution_id: str) -> TaskRunPage:
        """A page of the tasks of a run, by their ids."""
        query: FreshPageQuery = call.query
        reading = await look(self._services, call, query.page_token)
        spot = after(query.page_token)
        rows = await reading.rows(
            Select(
                "tasks",
                _TASK,
                [
                    equal("execution_id", execution_id),
                    *behind("task_id", spot, name="task_id"),
                ],
                order_by=("task_id",),
                limit=query.page_size + 1,
            )
        )
        if not rows and spot is None and not await reading.rows(_execution(execution_id)):
            raise _unknown_run(execution_id)
        shown, last = page(rows, query.page_size, "task_id", "task_id")
        items = tuple(document(TaskRun, row) for row in shown)
        return TaskRunPage(items=items, next_page_token=reading.token(last))

    async def _refuse_unknown(self, reading: Reading, pipeline: str) -> None:
        known = Select("executions", ("pipeline_id",), [equal("pipeline_id", pipeline)], limit=1)
        if not await reading.rows(known):
            raise NotFound(f"no run of a pipeline {pipeline[:80]!r} was told of")


def _execution(execution_id: str) -> Select:
    return Select("executions", _RUN, [equal("execution_id", execution_id)], limit=1)


def _unknown_run(execution_id: str) -> NotFound:
    return NotFound(f"no run {execution_id[:80]!r} was told of")
