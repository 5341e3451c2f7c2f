"""Handlers of what plans are made of: the state of tables, and the values of dynamic dimensions."""

from arco.api.flow.desk import FlowDesk
from arco.api.flow.sent import TablesAsked
from arco.api.flow.wire import ValuesChange, ValuesChanged
from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Invalid

_SOURCE = {"type": "flow"}


class States:
    """Tells what is known of partitions, and takes note of new ones."""

    def __init__(self, desk: FlowDesk, services: Services) -> None:
        self._book = desk.coordinator
        self._services = services

    async def state(self, call: Call[Query, TablesAsked]) -> Reply:
        """What is known of the partitions of some tables, acknowledged facts included."""
        asked = call.body
        return Reply(200, json.encode(await self._book.state(asked.tables, asked.files_of)))

    async def change_values(self, call: Call[Query, ValuesChange]) -> Reply:
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
        taken = await self._services.intake.take(lines, caller=call.principal.name)
        if taken.refused:
            raise Invalid(f"value {taken.refused[0].line}: {taken.refused[0].reason}")
        told = ValuesChanged(
            dimension=change.dimension,
            values=tuple(dict.fromkeys(change.values)),
            removed=change.remove,
        )
        return Reply(200, json.encode(told))
