"""The handler of SQL: a result as JSON, or as a stream of Arrow for those who ask for it."""

from typing import Any

from arco.api.query_params import Query
from arco.api.route import JSON, Call, Reply
from arco.api.services import Services
from arco.api.wire import Question, Result, ResultColumn
from arco.core import json
from arco.core.errors import Invalid

ARROW = "application/vnd.apache.arrow.stream"


class Queries:
    """SQL, read only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def ask(self, call: Call[Query, Question]) -> Reply:
        """Answer one query."""
        asked = call.body
        table = await self._services.engine.query(
            asked.sql, as_of=asked.as_of, freshness=asked.freshness
        )
        most = self._services.limits.rows
        if table.num_rows > most:
            raise Invalid(f"the result has more than {most} rows; add a LIMIT")
        write, content_type = (_arrow, ARROW) if _wants_arrow(call) else (_json, JSON)
        body = await self._services.runtime.tasks.in_thread(lambda: write(table))
        return Reply(200, body, content_type, headers={"Vary": "Accept"})


def _wants_arrow(call: Call[Query, Question]) -> bool:
    """Whether Arrow stands in Accept; without it, JSON is what everybody reads."""
    accepted = (call.header(b"accept") or "").lower()
    kinds = [part.partition(";") for part in accepted.split(",")]
    return any(
        kind.strip() == ARROW and weight.replace(" ", "") not in {"q=0", "q=0.0"}
        for kind, _, weight in kinds
    )


def _arrow(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _json(table: Any) -> bytes:
    columns = tuple(ResultColumn(name=each.name, type=str(each.type)) for each in table.schema)
    try:
        values = [_values(column) for column in table.columns]
        rows = [list(row) for row in zip(*values, strict=True)]
        return json.encode(Result(columns=columns, rows=rows))
    except (ValueError, OverflowError, TypeError) as problem:
        raise Invalid(f"a value cannot be written as JSON; cast it, or accept {ARROW}") from problem


def _values(column: Any) -> list[Any]:
    """The values of a column; Python's times end at microseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values
