"""Handlers of what workers say: that they want tasks, that they live, and how attempts ended."""

import msgspec

from arco.api.flow.desk import FlowDesk
from arco.api.flow.sent import AttemptsStopped, AttemptsWatched
from arco.api.flow.waiting import Waiting
from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.core import json
from arco.core.errors import AttemptFenced, Fenced, Invalid
from arco.flow.coordinator.messages import AttemptReport, Heartbeat, LeaseRequest, LeaseResponse


class Work:
    """Lets workers speak to the book of runs."""

    def __init__(self, desk: FlowDesk, waiting: Waiting) -> None:
        self._book = desk.coordinator
        self._waiting = waiting

    async def lease(self, call: Call[Query, LeaseRequest]) -> Reply:
        """Ask for tasks, waiting for some if there are none."""
        offer = call.body

        async def ask(wait_ms: int) -> LeaseResponse:
            return await self._book.lease(msgspec.structs.replace(offer, wait_ms=wait_ms))

        leased = await self._waiting.until(
            call,
            offer.wait_ms,
            ask,
            lambda found: bool(found.tasks or found.other_code) or found.is_over,
        )
        return Reply(200, json.encode(leased))

    async def watch(self, call: Call[Query, AttemptsWatched]) -> Reply:
        """Ask which attempts are to stop, waiting for the first."""
        asked = call.body

        async def ask(wait_ms: int) -> tuple[str, ...]:
            return await self._book.watch(asked.worker, asked.attempt_ids, wait_ms)

        stopped = await self._waiting.until(call, asked.wait_ms, ask, bool)
        return Reply(200, json.encode(AttemptsStopped(attempt_ids=stopped)))

    async def heartbeat(self, call: Call[Query, Heartbeat]) -> Reply:
        """Give a sign of life of an attempt, which makes its lease longer."""
        _check_named(call, call.body.attempt_id)
        try:
            pulse = await self._book.heartbeat(call.body)
        except Fenced as lost:
            raise _lost(lost) from lost
        return Reply(200, json.encode(pulse))

    async def complete(self, call: Call[Query, AttemptReport]) -> Reply:
        """Tell how an attempt ended; answered once that is durable."""
        _check_named(call, call.body.attempt_id)
        try:
            await self._book.complete(call.body)
        except Fenced as lost:
            raise _lost(lost) from lost
        return Reply(204)


def _check_named(
    call: Call[Query, Heartbeat] | Call[Query, AttemptReport], attempt_id: str
) -> None:
    if call.names["attempt_id"] != attempt_id:
        raise Invalid("the attempt in the path is another than the one in the body")


def _lost(fenced: Fenced) -> AttemptFenced:
    """Unlike a server that has lost a lease of its own, an attempt that has must not try again."""
    return fenced if isinstance(fenced, AttemptFenced) else AttemptFenced(str(fenced))
