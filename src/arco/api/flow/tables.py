"""Handlers of tables for pipelines: their state for planning, and the files of plain Parquet tables."""

from typing import Annotated, Any

from msgspec import Meta

from arco.access.authorization import Operation
from arco.api.context import API
from arco.api.http.reply import Reply
from arco.api.http.request import Call, QueryParams
from arco.api.http.route import AnyRoute, ResponseSpec, Route, json_body
from arco.api.requests import RequestModel
from arco.api.responses import ResponseModel
from arco.api.services import FlowContext, Services
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.flow.publish.tables import ParquetTables
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles

Name = Annotated[str, Meta(min_length=1, max_length=255)]
STAGED_BYTES = 32 * 1024 * 1024  # of one publication, which may have many files

_TABLE = f"{API}/tables/{{table_id}}"
_ATTEMPT_ID = "9f86d081884c7d659a2feaa0c55ad015"
_TABLE_ID = "01a1e0f6-9113-7475-bb94-e3fac6dcb4cd"
_SOURCE = {"type": "flow"}


class FlowStateRequest(RequestModel, frozen=True, kw_only=True, omit_defaults=True):
    """Tables by their full names, whose state is asked for.

    Of those in `files_of` the answer also names the files that no pipeline added.
    """

    tables: Annotated[tuple[Name, ...], Meta(max_length=10_000)]
    files_of: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()


class ValuesChange(RequestModel, frozen=True, kw_only=True):
    """Values that a dynamic dimension gets, or loses."""

    dimension: Name
    values: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=10_000)]
    remove: bool = False


class ValuesChanged(ResponseModel, frozen=True, kw_only=True):
    """The values that were added or removed; the change is durable."""

    dimension: str
    values: tuple[str, ...]
    removed: bool


class FlowStateHandlers:
    """Read the state of tables, and change the values of dynamic dimensions."""

    def __init__(self, context: FlowContext, services: Services) -> None:
        self._coordinator = context.coordinator
        self._services = services

    async def state(self, call: Call[QueryParams, FlowStateRequest]) -> Reply:
        """What is known of the partitions of some tables, acknowledged facts included."""
        request = call.body
        state = await self._coordinator.state(request.tables, request.files_of, caller=call.caller)
        return Reply(200, json.encode(state))

    async def change_values(self, call: Call[QueryParams, ValuesChange]) -> Reply:
        """Add values to a dynamic dimension, or remove some; answered once that is durable."""
        change = call.body
        now = utc(self._services.runtime.clock.now_ms()).isoformat()
        name = "partition_value_removed" if change.remove else "partition_value_added"
        lines = [
            json.encode(
                {
                    "event_type": name,
                    "event_version": 1,
                    "occurred_at": now,
                    "source": _SOURCE,
                    "payload": {"dimension": change.dimension, "value": value},
                }
            )
            for value in dict.fromkeys(change.values)
        ]
        result = await self._services.ingestion.ingest(lines, caller=call.principal.name)
        if result.refused:
            raise Invalid(f"value {result.refused[0].line}: {result.refused[0].reason}")
        document = ValuesChanged(
            dimension=change.dimension,
            values=tuple(dict.fromkeys(change.values)),
            removed=change.remove,
        )
        return Reply(200, json.encode(document))


class FilesQuery(QueryParams, frozen=True, kw_only=True):
    """A version of the table; the newest by default."""

    version: Annotated[int, Meta(ge=0)] | None = None


class TableFileHandlers:
    """Publish and list the files of plain Parquet tables."""

    def __init__(self, tables: ParquetTables) -> None:
        self._tables = tables

    async def publish(self, call: Call[QueryParams, FilesStaged]) -> Reply:
        """Publish files that an attempt has staged; asked for again, it is answered the same."""
        if call.body.table_id != call.path_params["table_id"]:
            raise Invalid("table_id in the body is not that of the path")
        return Reply(200, json.encode(await self._tables.publish(call.body)))

    async def files(self, call: Call[FilesQuery, None]) -> Reply:
        """All files of a plain Parquet table as it stands now, or of an earlier version."""
        files = await self._tables.files(call.path_params["table_id"], version=call.query.version)
        return Reply(200, json.encode(files))


def files_routes(on: TableFileHandlers) -> tuple[AnyRoute, ...]:
    """The routes of plain Parquet tables."""
    return (
        Route(
            "POST",
            f"{_TABLE}/versions",
            Operation.PUBLISH_FILES,
            on.publish,
            QueryParams,
            (ResponseSpec(200, "They are seen from now on.", FilesPublished),),
            json_body(FilesStaged, _example()),
            problems=(404, 409),
            mutates=True,
            is_idempotent=True,
            has_etag=False,
            body_bytes=STAGED_BYTES,
            accepts_gzip=True,
        ),
        Route(
            "GET",
            f"{_TABLE}/files",
            Operation.LIST_FILES,
            on.files,
            FilesQuery,
            (ResponseSpec(200, "The files.", TableVersionFiles),),
            problems=(404,),
            has_etag=False,
        ),
    )


def _example() -> dict[str, Any]:
    path = f"data/{_ATTEMPT_ID}/part-00000.parquet"
    return {
        "table_id": _TABLE_ID,
        "attempt": {
            "attempt_id": _ATTEMPT_ID,
            "task": "01M7FVEX5ZQ4SN3QGY2E97DMKR/silver.orders@ds=2026-01-10",
            "dispatched_at_number": 3,
            "dispatched_at_ms": 1_767_225_600_000,
            "partitions": ["ds=2026-01-10"],
        },
        "mode": "replace_partition",
        "files": {"ds=2026-01-10": [{"path": path, "rows": 120, "bytes": 4_711}]},
    }
