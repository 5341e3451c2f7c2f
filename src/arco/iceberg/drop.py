"""Dropping: a tombstone on the chain decides, then the name is released (P31).

No commit can succeed after the tombstone, whoever holds the name for alive. That the name may be dead is
written down before it, so that lists are right in between and after a crash.
"""
# DOC undrop: """Bringing a table or view back: a pointer after the tombstone, then the name, which decides (P31).
#
# In this order nobody who meets the name finds a tombstone, and releases it again. The old name is released
# first, if its drop has not come to that yet: else a late release would take the new one. If the name cannot
# be had, the chain goes on without one, and nobody sees it. What was purged cannot come back: its files are
# gone, or going.
# """

import msgspec

from arco.catalog.ddl import RestoreTable
from arco.catalog.model import ObjectKind, TableRow
from arco.core.errors import AlreadyExists, ArcoError, Conflict, NotFound, Unavailable
from arco.core.ids import new_object_id
from arco.iceberg.catalog_change import Verdict, base_number, name_under, named_under
from arco.iceberg.commit import LONGEST_MS
from arco.iceberg.context import Caller, Desk
from arco.iceberg.errors import Refused, in_own_words
from arco.iceberg.garbage_collection import purge
from arco.iceberg.idempotency import Told, refused, succeeded
from arco.iceberg.name_resolution import Name, absent, look_up, occupant, release
from arco.iceberg.pointer import Pointer, look_above
from arco.iceberg.pointer_head import Standing
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms


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

    async def terms(self) -> Terms:
        found = await look_up(self._desk, self._name, self._kind)
        if found is None:
            return Terms(ids={"table": ""}, base=-1)
        return Terms(ids={"table": found.id}, base=found.standing.number)

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

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        table_id = claim.ids["table"]
        if not table_id:
            return refused(absent(self._kind, self._name))
        await self._desk.doubts.add([table_id], self._is_open)
        async with self._desk.lanes.enter(table_id):
            return await self._in_turn(table_id, claim, hold)

    async def _in_turn(self, table_id: str, claim: Claim, hold: Hold) -> Answer:
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


_MOST_TRIES = 3


class UndropWork:
    """An undrop as work that takes effect once."""

    def __init__(self, desk: Desk, table_id: str, name: str | None, caller: Caller) -> None:
        self._desk = desk
        self._table_id = table_id
        self._name = name
        self._caller = caller

    async def terms(self) -> Terms:
        ids = {"table": self._table_id, "object": str(new_object_id(self._desk.runtime))}
        return Terms(ids=ids, base=await base_number(self._desk))

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        done = await named_under(self._desk, claim)
        return None if done is None else succeeded(Told(table_id=self._table_id))

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        async with self._desk.lanes.enter(self._table_id):
            standing = await self._revived(claim, hold)
        if standing is None:
            return refused(
                Refused(
                    404,
                    "NoSuchTableException",
                    "it cannot come back: it was purged, or never there",
                )
            )
        request = RestoreTable(table_id=self._table_id, born=standing.number, name=self._name)
        tries = 0
        while True:
            tries += 1
            try:
                await name_under(self._desk, claim, hold, request, self._caller.actor)
                break
            except Verdict as verdict:
                was_dead = isinstance(verdict.problem, AlreadyExists) and not await self._is_taken()
                if not was_dead or tries == _MOST_TRIES:
                    return refused(in_own_words(verdict.problem))
        if standing.head.entry is not None:
            self._desk.aftermath.follow(self._table_id, standing.head.entry)
        return succeeded(Told(table_id=self._table_id, metadata_location=standing.location))

    async def _revived(self, claim: Claim, hold: Hold) -> Standing | None:
        """The chain with a version of our own at its end; None if it cannot have one any more."""
        desk, chain = self._desk, self._desk.pointers.chain(self._table_id)
        while True:
            standing = await desk.standings.decided(await desk.standings.of(self._table_id))
            last = standing.pointer
            if last is None or last.purge or last.operation == "bury":
                return None
            if standing.is_live and last.request_id == claim.request_id:
                return standing
            if not standing.is_live:
                try:
                    await release(desk, self._table_id, standing)
                except NotFound:
                    return None  # it never had a name
            elif await self._is_named():
                return standing  # it was not dropped, and the catalog will say so
            await hold.check()
            try:
                await chain.append(standing.head, self._pointer(last, standing, claim))
            except Conflict:
                continue

    async def _is_taken(self) -> bool:
        """Whether somebody has the name; a dead one is released by asking."""
        snapshot = await self._desk.reader.head()
        row = (await snapshot.find(self._table_id, dropped=True)).row
        catalog, *levels, name = await snapshot.levels(row)
        wanted = Name(catalog, tuple(levels), self._name or name)
        return await occupant(self._desk, wanted) is not None

    async def _is_named(self) -> bool:
        try:
            await (await self._desk.reader.head()).find(self._table_id)
        except NotFound:
            return False
        return True

    def _pointer(self, last: Pointer, standing: Standing, claim: Claim) -> Pointer:
        return msgspec.structs.replace(
            last,
            metadata_location=standing.location or last.metadata_location,
            transaction=None,
            request_id=claim.request_id,
            operation="undrop",
            actor=self._caller.actor,
            engine=self._caller.engine,
            update_source=self._caller.update_source,
            previous_location=None,
            changed=(),
            publication=None,
        )
