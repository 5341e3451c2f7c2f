"""The handler of SQL: a result as JSON, or as a stream of Arrow for those who ask for it."""

from arco.api.query_params import Query
from arco.api.route import JSON, Call, Reply
from arco.api.services import Services
from arco.api.wire import Question
from arco.query.result import ARROW_STREAM, to_arrow, to_json


class Queries:
    """SQL, read only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ask(self, call: Call[Query, Question]) -> Reply:
        """Answer one query."""
        asked = call.body
        table = await self._services.engine.query(
            asked.sql, as_of=asked.as_of, freshness=asked.freshness, caller=call.caller
        )
        write, content_type = (to_arrow, ARROW_STREAM) if _wants_arrow(call) else (to_json, JSON)
        body = await self._services.runtime.tasks.in_thread(lambda: write(table))
        return Reply(200, body, content_type, headers={"Vary": "Accept"})


def _wants_arrow(call: Call[Query, Question]) -> bool:
    """Whether Arrow stands in Accept; without it, JSON is what everybody reads."""
    accepted = (call.header(b"accept") or "").lower()
    kinds = [part.partition(";") for part in accepted.split(",")]
    return any(
        kind.strip() == ARROW_STREAM and weight.replace(" ", "") not in {"q=0", "q=0.0"}
        for kind, _, weight in kinds
    )
