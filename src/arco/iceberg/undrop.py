"""Bringing a table or view back: a pointer after the tombstone, then the name, which decides (P31).

In this order nobody who meets the name finds a tombstone, and releases it again. The old name is released
first, if its drop has not come to that yet: else a late release would take the new one. If the name cannot
be had, the chain goes on without one, and nobody sees it. What was purged cannot come back: its files are
gone, or going.
"""

import msgspec

from arco.catalog.ddl import RestoreTable
from arco.core.errors import AlreadyExists, Conflict, NotFound
from arco.core.ids import new_object_id
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.keyed import Told, in_own_words, refused, succeeded
from arco.iceberg.names import Name, occupant, release
from arco.iceberg.naming import Verdict, base_number, name_under, named_under
from arco.iceberg.pointer import Pointer
from arco.iceberg.refusal import Refused
from arco.iceberg.standing import Standing
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms

_MOST_TRIES = 3


class UndropWork:
    """An undrop as work that takes effect once."""

    def __init__(self, desk: Desk, table_id: str, name: str | None, caller: Caller) -> None:
        self._desk = desk
        self._table_id = table_id
        self._name = name
        self._caller = caller

    async def terms(self) -> ClaimTerms:
        ids = {"table": self._table_id, "object": str(new_object_id(self._desk.runtime))}
        return ClaimTerms(ids=ids, base=await base_number(self._desk))

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        done = await named_under(self._desk, claim)
        return None if done is None else succeeded(Told(table_id=self._table_id))

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        async with self._desk.lanes.hold(self._table_id):
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

    async def _revived(self, claim: Claim, hold: ClaimHold) -> Standing | None:
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
