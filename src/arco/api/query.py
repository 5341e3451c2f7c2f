"""The handler of SQL queries: a result as JSON, or as an Arrow stream if the client accepts it."""

from arco.api.http.reply import JSON, Reply
from arco.api.http.request import Call, QueryParams
from arco.api.requests import QueryRequest
from arco.api.services import Services
from arco.query.result import ARROW_STREAM, to_arrow, to_json


class QueryHandlers:
    """Run read-only SQL."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def run(self, call: Call[QueryParams, QueryRequest]) -> Reply:
        """Answer one query."""
        request = call.body
        table = await self._services.engine.query(
            request.sql, as_of=request.as_of, freshness=request.freshness, caller=call.caller
        )
        encode, content_type = (to_arrow, ARROW_STREAM) if _accepts_arrow(call) else (to_json, JSON)
        body = await self._services.runtime.tasks.in_thread(lambda: encode(table))
        return Reply(200, body, content_type, headers={"Vary": "Accept"})


def _accepts_arrow(call: Call[QueryParams, QueryRequest]) -> bool:
    """Whether Accept names Arrow; otherwise the result is JSON."""
    accepted = (call.header(b"accept") or "").lower()
    types = [part.partition(";") for part in accepted.split(",")]
    return any(
        name.strip() == ARROW_STREAM and weight.replace(" ", "") not in {"q=0", "q=0.0"}
        for name, _, weight in types
    )
