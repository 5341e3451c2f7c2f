"""The routes of operations."""

from typing import Any

from arco.access.authorization import Operation
from arco.api.operations.reading import FreshPageQuery, FreshQuery
from arco.api.operations.runs import Runs, RunsQuery
from arco.api.operations.tables import PartitionsQuery, TableFacts
from arco.api.operations.wire import (
    Execution,
    PartitionPage,
    RunPage,
    TableHealth,
    TableStatistics,
    TaskRunPage,
)
from arco.api.query_params import Query
from arco.api.route import Answered, AnyRoute, Route
from arco.api.services import Services
from arco.api.verbs import says

_EXECUTION = "/api/v1/executions/{execution}"
_TABLE = "/api/v1/tables/{table_id}"


def operations_routes(services: Services) -> tuple[AnyRoute, ...]:
    """Reads of what events have told."""
    runs, facts = Runs(services), TableFacts(services)
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


def _read(path: str, operation: Operation, handler: Any, query: type[Query], told: Any) -> AnyRoute:
    return Route(
        "GET",
        path,
        operation,
        says(handler),
        handler,
        query,
        (Answered(200, "As it was told.", told),),
        problems=(404,),
        tagged=False,
        queries=True,
    )
