"""The handler of lineage: tables upstream and downstream of a table, or the impact of a column."""

from typing import Annotated

from msgspec import Meta

from arco.access.authorization import Operation
from arco.api.http.reply import Reply
from arco.api.http.request import Call
from arco.api.http.route import AnyRoute, ResponseSpec, Route
from arco.api.operations.reading import FreshQuery
from arco.api.services import Services
from arco.core import json
from arco.core.errors import Invalid
from arco.query.lineage.response import DIRECTIONS, MAX_DEPTH, Impact, Lineage

# Not checked here: the tracer's errors say more.
Direction = Annotated[
    str,
    Meta(
        description="`up` for what it is made of, `down` for what is made of it; both by default.",
        extra_json_schema={"enum": list(DIRECTIONS)},
    ),
]
Depth = Annotated[
    int,
    Meta(
        description="How many steps to go; 8 by default, and of an impact all.",
        extra_json_schema={"minimum": 1, "maximum": MAX_DEPTH},
    ),
]
ColumnName = Annotated[
    str,
    Meta(
        max_length=4_096,
        description="A column of the table, by its name or id: the answer is all that depends on it.",
    ),
]


class LineageQuery(FreshQuery, frozen=True, kw_only=True):
    """Lineage of a table: how far, with columns, with runs; or the impact of a column."""

    direction: Direction | None = None
    depth: Depth | None = None
    columns: bool = False
    runs: bool = False
    impact: ColumnName | None = None


class LineageHandlers:
    """Read lineage."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def get(self, call: Call[LineageQuery, None]) -> Reply:
        """What a table is made of and what is made of it, or all that depends on a column."""
        table_id = call.path_params["table_id"]
        document = await (
            self._walk(table_id, call)
            if call.query.impact is None
            else self._impact(table_id, call)
        )
        body = await self._services.runtime.tasks.in_thread(lambda: json.encode(document))
        return Reply(200, body)

    async def _walk(self, table_id: str, call: Call[LineageQuery, None]) -> Lineage:
        query = call.query
        return await self._services.tracer.walk(
            table_id,
            direction=query.direction or "both",
            depth=MAX_DEPTH if query.depth is None else query.depth,
            columns=query.columns,
            runs=query.runs,
            freshness=query.freshness,
            as_of=query.as_of,
            caller=call.caller,
        )

    async def _impact(self, table_id: str, call: Call[LineageQuery, None]) -> Impact:
        query = call.query
        if query.direction not in (None, "down"):
            raise Invalid("impact covers downstream only: omit direction or pass `down`")
        if query.columns or query.runs:
            raise Invalid("an impact always has columns and never runs: leave both out")
        return await self._services.tracer.impact(
            table_id,
            query.impact or "",
            depth=query.depth,
            freshness=query.freshness,
            as_of=query.as_of,
            caller=call.caller,
        )


def lineage_route(on: LineageHandlers) -> AnyRoute:
    """The route of lineage."""
    return Route(
        "GET",
        "/api/v1/lineage/{table_id}",
        Operation.GET_LINEAGE,
        on.get,
        LineageQuery,
        (ResponseSpec(200, "As it was seen.", Lineage | Impact),),
        problems=(404,),
        has_etag=False,
        runs_sql=True,
    )
