"""The routes of runs, tasks, partitions, health and statistics."""

from typing import Any

from arco.access.operation import Operation
from arco.api.http.request import QueryParams
from arco.api.http.route import AnyRoute, ResponseSpec, Route
from arco.api.operations.reading import FreshPageQuery, FreshQuery
from arco.api.operations.responses import (
    Execution,
    PartitionPage,
    RunPage,
    TableHealth,
    TableStatistics,
    TaskRunPage,
)
from arco.api.operations.runs import ExecutionHandlers, RunsQuery
from arco.api.operations.tables import PartitionsQuery, TableFactHandlers
from arco.api.services import Services

_EXECUTION = "/api/v1/executions/{execution}"
_TABLE = "/api/v1/tables/{table_id}"


def operations_routes(services: Services) -> tuple[AnyRoute, ...]:
    """The routes of this package."""
    runs, facts = ExecutionHandlers(services), TableFactHandlers(services)
    of_pipeline = "/api/v1/pipelines/{pipeline}/runs"
    return (
        _read(of_pipeline, Operation.LIST_RUNS, runs.of_pipeline, RunsQuery, RunPage),
        _read(_EXECUTION, Operation.GET_EXECUTION, runs.get, FreshQuery, Execution),
        _read(f"{_EXECUTION}/tasks", Operation.LIST_TASKS, runs.tasks, FreshPageQuery, TaskRunPage),
        _read(
            f"{_TABLE}/partitions",
            Operation.LIST_PARTITIONS,
            facts.partitions,
            PartitionsQuery,
            PartitionPage,
        ),
        _read(
            f"{_TABLE}/health", Operation.GET_TABLE_HEALTH, facts.health, FreshQuery, TableHealth
        ),
        _read(
            f"{_TABLE}/statistics",
            Operation.GET_STATISTICS,
            facts.statistics,
            FreshQuery,
            TableStatistics,
        ),
    )


def _read(
    path: str, operation: Operation, handler: Any, query: type[QueryParams], response: Any
) -> AnyRoute:
    return Route(
        "GET",
        path,
        operation,
        handler,
        query,
        (ResponseSpec(200, "As it was told.", response),),
        problems=(404,),
        has_etag=False,
        runs_sql=True,
    )
