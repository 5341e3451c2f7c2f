"""Fences: versions of a table that change nothing but who may publish its partitions (P35).

Before a task is given to somebody else, a fence with the new attempt's name goes onto the table's chain; an
earlier attempt that comes late meets it inside its own commit, and is refused. It is a plain number of the
chain: it names the metadata in effect, races with commits like any of them, and nobody is told of it, as
nothing has changed.
"""

import msgspec

from arco.catalog.publication import FLOW, DispatchedAttempt, NumberedPublication, published_by_task
from arco.core.errors import Conflict, NotFound
from arco.core.ids import new_ulid
from arco.iceberg.attempt import facts_of
from arco.iceberg.desk import Desk
from arco.iceberg.errand import unreadable
from arco.iceberg.pointer import FENCE, Pointer
from arco.iceberg.refusal import Unreadable
from arco.iceberg.standing import Standing

SYSTEM = "client:arco"


class IcebergFences:
    """Fences on Iceberg tables."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def number(self, table_id: str) -> int | None:
        """The last number of a table's chain; None if there is no table any more."""
        standing = await self._desk.standings.of(table_id)
        return standing.number if standing.is_live else None

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        """What an attempt at the same task has published above `since`, or else the number of a fence.

        Round trips: the head, the numbers above `since` that this process has not read yet, the fence.
        """
        desk, chain = self._desk, self._desk.pointers.chain(table_id)
        request_id = new_ulid(desk.runtime)
        async with desk.lanes.hold(table_id):
            while True:
                standing = await desk.standings.decided(await desk.standings.of(table_id))
                if standing.location is None:
                    raise NotFound(f"there is no table {table_id}")
                above = await desk.published.above(chain, since, standing.head)
                done = published_by_task(attempt.task, above)
                if done is not None:
                    return done
                body = await self._body(standing, standing.location, attempt, request_id)
                try:
                    head = await chain.append(standing.head, body)
                except Conflict:
                    continue  # a commit was faster, and may even have been the task's own
                if head.entry is not None:
                    desk.published.learn(chain, head.entry)
                return head.number

    async def _body(
        self, standing: Standing, location: str, attempt: DispatchedAttempt, request_id: str
    ) -> Pointer:
        """The metadata in effect once more, with what the last number says of them if it names them."""
        fence = Pointer(
            request_id=request_id,
            operation=FENCE,
            actor=SYSTEM,
            update_source=FLOW,
            metadata_location=location,
            previous_location=location,
            publication=attempt.publication(is_fence=True),
        )
        last = standing.pointer
        if last is None or last.metadata_location != location:  # a transaction that was aborted
            try:
                loaded = await self._desk.load(location)
            except Unreadable as problem:
                raise unreadable(problem) from problem
            return msgspec.structs.replace(fence, **facts_of(loaded.metadata))
        return msgspec.structs.replace(
            fence,
            table_uuid=last.table_uuid,
            schema_id=last.schema_id,
            sequence_number=last.sequence_number,
            snapshot=last.snapshot,
        )
