"""Dropping: a tombstone on the chain decides, then the name is released (P31).

No commit can succeed after the tombstone, whoever holds the name for alive. That the name may be dead is
written down before it, so that lists are right in between and after a crash.
"""

import msgspec

from arco.catalog.model import ObjectKind, TableRow
from arco.core.errors import ArcoError, Conflict, NotFound, Unavailable
from arco.iceberg.commit import LONGEST_MS
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.evidence import look_above
from arco.iceberg.keyed import Told, refused, succeeded
from arco.iceberg.names import Name, absent, look_up, release
from arco.iceberg.pointer import Pointer
from arco.iceberg.purge import purge
from arco.iceberg.standing import Standing
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms


class DropWork:
    """A drop, or the end of a registration, as work that takes effect once."""

    def __init__(
        self,
        desk: Desk,
        name: Name,
        kind: ObjectKind,
        caller: Caller,
        *,
        operation: str = "drop",
        purge: bool = False,
    ) -> None:
        self._desk = desk
        self._name = name
        self._kind = kind
        self._caller = caller
        self._operation = operation
        self._purge = purge

    async def terms(self) -> ClaimTerms:
        found = await look_up(self._desk, self._name, self._kind)
        if found is None:
            return ClaimTerms(ids={"table": ""}, base=-1)
        return ClaimTerms(ids={"table": found.id}, base=found.standing.number)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        table_id = claim.ids["table"]
        if not table_id:
            return None
        chain = self._desk.pointers.chain(table_id)
        seen = await look_above(chain, claim.base, claim.request_id)
        if seen.mine is None:
            return None
        location = seen.mine.body(Pointer).metadata_location
        return succeeded(Told(table_id=table_id, metadata_location=location))

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        table_id = claim.ids["table"]
        if not table_id:
            return refused(absent(self._kind, self._name))
        await self._desk.doubts.add([table_id], self._is_open)
        async with self._desk.lanes.hold(table_id):
            return await self._in_turn(table_id, claim, hold)

    async def _in_turn(self, table_id: str, claim: Claim, hold: ClaimHold) -> Answer:
        desk, chain = self._desk, self._desk.pointers.chain(table_id)
        look = await look_above(chain, claim.base, claim.request_id)
        while look.mine is None:
            standing = await desk.standings.decided(await desk.standings.at(look.head))
            if standing.location is None:
                return refused(absent(self._kind, self._name))
            self._refuse_overtime()  # what was in doubt for long may be forgotten
            await hold.check()
            tombstone = self._tombstone(standing, claim)
            try:
                head = await chain.append(standing.head, tombstone, tombstone=True)
            except Conflict:
                look = await look_above(chain, standing.number, claim.request_id)
                continue
            ended = Standing(head, tombstone, None)
            try:
                await release(desk, table_id, ended, self._caller.actor)
            except ArcoError:  # it is dropped: whoever meets the name finishes this
                desk.aftermath.unfinished[table_id] = None
            if head.entry is not None:
                desk.aftermath.follow(table_id, head.entry)
            if self._purge and desk.files.can_delete:  # elsewhere the janitor does it
                desk.aftermath.beside(table_id, _purge(desk, table_id, standing.location))
            return succeeded(Told(table_id=table_id, metadata_location=standing.location))
        return succeeded(
            Told(table_id=table_id, metadata_location=look.mine.body(Pointer).metadata_location)
        )

    def _tombstone(self, standing: Standing, claim: Claim) -> Pointer:
        """The last number: it names the last metadata, for an undrop."""
        location, last = str(standing.location), standing.pointer
        if last is None or last.metadata_location != location:
            # The head belongs to a transaction that was aborted, and says nothing about the table.
            uuid = None if last is None else last.table_uuid
            last = Pointer(
                request_id="", operation="", actor="", metadata_location=location, table_uuid=uuid
            )
        return msgspec.structs.replace(
            last,
            request_id=claim.request_id,
            operation=self._operation,
            actor=self._caller.actor,
            engine=self._caller.engine,
            update_source=self._caller.update_source,
            metadata_location=location,
            previous_location=location,
            changed=(),
            transaction=None,
            publication=None,
            purge=self._purge,
        )

    def _refuse_overtime(self) -> None:
        now = self._desk.runtime.clock.elapsed_ms()
        if now > self._caller.arrived_ms + LONGEST_MS:
            raise Unavailable(
                "too many others are changing this table; retry", retry_after_ms=1_000
            )

    async def _is_open(self, table_id: str, is_old: bool) -> bool:  # noqa: FBT001
        return await is_doubtful(self._desk, table_id, is_old=is_old)


async def _purge(desk: Desk, table_id: str, metadata_location: str) -> None:
    await purge(desk, table_id, metadata_location)


async def is_doubtful(desk: Desk, table_id: str, *, is_old: bool) -> bool:
    """Whether the catalog has, or is about to get, a name for a table that may be gone (see `doubt`)."""
    try:
        found = await (await desk.reader.head()).find(table_id, dropped=True)
    except NotFound:
        return not is_old  # perhaps it gets its name just now
    if not isinstance(found.row, TableRow) or found.row.dropped_at is not None:
        return False
    if not is_old:
        return True
    standing = await desk.standings.of(table_id)
    return not standing.is_live or standing.undecided is not None
