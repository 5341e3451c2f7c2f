"""Handlers of plain Parquet tables: publishing what was staged, and which files there are."""

from typing import Annotated, Any

from msgspec import Meta

from arco.access.operation import Operation
from arco.api.desk import API
from arco.api.query_params import Query
from arco.api.route import Answered, AnyRoute, Call, Reply, Route, sent
from arco.api.verbs import says
from arco.core import json
from arco.core.errors import Invalid
from arco.flow.publish.tables import ParquetTables
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles

STAGED_BYTES = 32 * 1024 * 1024  # of one publication, which may have many files

_TABLE = f"{API}/tables/{{table_id}}"
_ATTEMPT_ID = "9f86d081884c7d659a2feaa0c55ad015"
_TABLE_ID = "01a1e0f6-9113-7475-bb94-e3fac6dcb4cd"


class FilesQuery(Query, frozen=True, kw_only=True):
    """Which version of the table; the newest if none is named."""

    version: Annotated[int, Meta(ge=0)] | None = None


class TableFiles:
    """The files of plain Parquet tables."""

    def __init__(self, tables: ParquetTables) -> None:
        self._tables = tables

    async def publish(self, call: Call[Query, FilesStaged]) -> Reply:
        """Publish files that an attempt has staged; asked for again, it is answered the same."""
        if call.body.table_id != call.names["table_id"]:
            raise Invalid("table_id in the body is not that of the path")
        return Reply(200, json.encode(await self._tables.publish(call.body)))

    async def files(self, call: Call[FilesQuery, None]) -> Reply:
        """All files of a plain Parquet table as it stands now, or of an earlier version."""
        found = await self._tables.files(call.names["table_id"], version=call.query.version)
        return Reply(200, json.encode(found))


def files_routes(on: TableFiles) -> tuple[AnyRoute, ...]:
    """The routes of plain Parquet tables."""
    return (
        Route(
            "POST",
            f"{_TABLE}/versions",
            Operation.PUBLISH_FILES,
            says(on.publish),
            on.publish,
            Query,
            (Answered(200, "They are seen from now on.", FilesPublished),),
            sent(FilesStaged, _example()),
            problems=(404, 409),
            mutates=True,
            named=True,
            tagged=False,
            body_bytes=STAGED_BYTES,
            inflates=True,
        ),
        Route(
            "GET",
            f"{_TABLE}/files",
            Operation.LIST_FILES,
            says(on.files),
            on.files,
            FilesQuery,
            (Answered(200, "The files.", TableVersionFiles),),
            problems=(404,),
            tagged=False,
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
