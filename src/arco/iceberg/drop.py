"""Dropping and undropping tables and views (P31).

A drop is decided by a tombstone on the pointer chain, after which no commit can succeed; then the name
is released. The id is recorded as unresolved first, so lists are right after a crash. An undrop appends
a pointer after the tombstone, then restores the name, which decides: in this order no operation finds a
tombstone under the name and releases it again. A name that the drop has not released yet is released
first, or a late release would take the new one.
"""

import msgspec

from arco.catalog.change import ClaimId
from arco.catalog.ddl import RestoreTable
from arco.catalog.model import ObjectKind, TableRow
from arco.catalog.pending_request import Caller
from arco.core.errors import AlreadyExists, ArcoError, Conflict, NoSuchTable, NotFound
from arco.core.ids import new_object_id
from arco.iceberg.catalog_change import (
    CatalogRefusal,
    change_catalog,
    find_catalog_change,
    manifest_number,
)
from arco.iceberg.commit import check_deadline
from arco.iceberg.context import IcebergContext
from arco.iceberg.garbage_collection import purge
from arco.iceberg.idempotency import FixedIdsWork, error_answer, table_answer
from arco.iceberg.name_resolution import (
    FullName,
    find_object,
    find_occupant,
    not_found_error,
    release_name,
)
from arco.iceberg.pointer import Pointer, PointerOperation, find_request, pointer_of
from arco.iceberg.pointer_head import PointerHead
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms

_MAX_TRIES = 3


class DropWork(FixedIdsWork):
    """A drop, or an unregister, as work that takes effect once."""

    def __init__(
        self,
        context: IcebergContext,
        name: FullName,
        kind: ObjectKind,
        caller: Caller,
        *,
        operation: str = PointerOperation.DROP,
        purge: bool = False,
    ) -> None:
        self._context = context
        self._name = name
        self._kind = kind
        self._caller = caller
        self._operation = operation
        self._purge = purge

    async def terms(self) -> ClaimTerms:
        resolved = await find_object(self._context, self._name, self._kind)
        if resolved is None:
            return ClaimTerms(ids={ClaimId.TABLE: ""}, base=-1)
        return ClaimTerms(ids={ClaimId.TABLE: resolved.id}, base=resolved.table_head.number)

    async def find(self, claim: Claim) -> Answer | None:
        table_id = claim.ids[ClaimId.TABLE]
        if not table_id:
            return None
        chain = self._context.pointers.chain(table_id)
        search = await find_request(chain, claim.base, claim.request_id)
        if search.landed is None:
            return None
        location = search.landed.body(Pointer).metadata_location
        return table_answer(table_id, location)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        table_id = claim.ids[ClaimId.TABLE]
        if not table_id:
            return error_answer(not_found_error(self._kind, self._name))
        await self._context.unresolved_names.add([table_id], self._is_open)
        async with self._context.table_locks.hold(table_id):
            return await self._perform_locked(table_id, claim, hold)

    async def _perform_locked(self, table_id: str, claim: Claim, hold: ClaimHold) -> Answer:
        context, chain = self._context, self._context.pointers.chain(table_id)
        search = await find_request(chain, claim.base, claim.request_id)
        while search.landed is None:
            table_head = await context.heads.settle(await context.heads.resolve(search.head))
            if table_head.location is None:
                return error_answer(not_found_error(self._kind, self._name))
            check_deadline(self._context, self._caller)  # an old unresolved id may be forgotten
            await hold.check()
            tombstone = self._tombstone(table_head, claim)
            try:
                head = await chain.append(table_head.chain_head, tombstone, tombstone=True)
            except Conflict:
                search = await find_request(chain, table_head.number, claim.request_id)
                continue
            ended = PointerHead(head, tombstone, None)
            try:
                await release_name(context, table_id, ended, self._caller.actor)
            except ArcoError:  # it is dropped; the next operation on the name releases it
                context.after_commit.unfinished[table_id] = None
            if head.entry is not None:
                context.after_commit.schedule(table_id, head.entry)
            if self._purge and context.files.can_delete:  # otherwise garbage collection does it
                context.after_commit.run_in_background(
                    table_id, _purge(context, table_id, table_head.location)
                )
            return table_answer(table_id, table_head.location)
        return table_answer(table_id, search.landed.body(Pointer).metadata_location)

    def _tombstone(self, table_head: PointerHead, claim: Claim) -> Pointer:
        """The last pointer; it names the last metadata file, for an undrop."""
        location, last_pointer = str(table_head.location), table_head.pointer
        if last_pointer is None or last_pointer.metadata_location != location:
            # The head belongs to an aborted transaction, so its facts are not the table's.
            uuid = None if last_pointer is None else last_pointer.table_uuid
            last_pointer = Pointer(
                request_id="", operation="", actor="", metadata_location=location, table_uuid=uuid
            )
        return msgspec.structs.replace(
            last_pointer,
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

    async def _is_open(self, table_id: str, is_old: bool) -> bool:  # noqa: FBT001
        return await is_unresolved(self._context, table_id, is_old=is_old)


async def _purge(context: IcebergContext, table_id: str, metadata_location: str) -> None:
    await purge(context, table_id, metadata_location)


async def is_unresolved(context: IcebergContext, table_id: str, *, is_old: bool) -> bool:
    """Whether the catalog has, or is about to get, the name of a table that may be dropped."""
    try:
        table = await (await context.reader.head()).find(table_id, dropped=True)
    except NotFound:
        return not is_old  # its name may be added at this moment
    if not isinstance(table.row, TableRow) or table.row.dropped_at is not None:
        return False
    if not is_old:
        return True
    table_head = await context.heads.of(table_id)
    return not table_head.is_live or table_head.undecided is not None


class UndropWork(FixedIdsWork):
    """An undrop as work that takes effect once."""

    def __init__(
        self, context: IcebergContext, table_id: str, name: str | None, caller: Caller
    ) -> None:
        self._context = context
        self._table_id = table_id
        self._name = name
        self._caller = caller

    async def terms(self) -> ClaimTerms:
        ids = {"table": self._table_id, "object": str(new_object_id(self._context.runtime))}
        return ClaimTerms(ids=ids, base=await manifest_number(self._context))

    async def find(self, claim: Claim) -> Answer | None:
        done = await find_catalog_change(self._context, claim)
        return None if done is None else table_answer(self._table_id)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        async with self._context.table_locks.hold(self._table_id):
            table_head = await self._revived(claim, hold)
        if table_head is None:
            return error_answer(
                NoSuchTable("cannot undrop: the table was purged, or never existed")
            )
        request = RestoreTable(table_id=self._table_id, born=table_head.number, name=self._name)
        tries = 0
        while True:
            tries += 1
            try:
                await change_catalog(self._context, claim, hold, request, self._caller.actor)
                break
            except CatalogRefusal as refusal:
                was_released = (
                    isinstance(refusal.problem, AlreadyExists) and not await self._is_taken()
                )
                if not was_released or tries == _MAX_TRIES:
                    return error_answer(refusal.problem)
        entry = table_head.chain_head.entry
        if entry is None or pointer_of(entry).request_id != claim.request_id:
            # Another process has made the pointer of this request, and reports it.
            return table_answer(self._table_id)
        self._context.after_commit.schedule(self._table_id, entry)
        return table_answer(self._table_id, table_head.location)

    async def _revived(self, claim: Claim, hold: ClaimHold) -> PointerHead | None:
        """The head with this request's pointer; None if the table cannot be restored."""
        context, chain = self._context, self._context.pointers.chain(self._table_id)
        while True:
            table_head = await context.heads.settle(await context.heads.of(self._table_id))
            last_pointer = table_head.pointer
            if (
                last_pointer is None
                or last_pointer.purge
                or last_pointer.operation == PointerOperation.ABANDON
            ):
                return None
            if table_head.is_live and last_pointer.request_id == claim.request_id:
                return table_head
            if not table_head.is_live:
                try:
                    await release_name(context, self._table_id, table_head)
                except NotFound:
                    return None  # the table never had a name
            elif await self._is_named():
                return table_head  # it was not dropped: the catalog refuses the request
            await hold.check()
            try:
                await chain.append(
                    table_head.chain_head, self._pointer(last_pointer, table_head, claim)
                )
            except Conflict:
                continue

    async def _is_taken(self) -> bool:
        """Whether the name is taken; the check releases the name of a dropped table."""
        snapshot = await self._context.reader.head()
        row = (await snapshot.find(self._table_id, dropped=True)).row
        catalog, *levels, name = await snapshot.levels(row)
        full_name = FullName(catalog, tuple(levels), self._name or name)
        return await find_occupant(self._context, full_name) is not None

    async def _is_named(self) -> bool:
        try:
            await (await self._context.reader.head()).find(self._table_id)
        except NotFound:
            return False
        return True

    def _pointer(self, last_pointer: Pointer, table_head: PointerHead, claim: Claim) -> Pointer:
        return msgspec.structs.replace(
            last_pointer,
            metadata_location=table_head.location or last_pointer.metadata_location,
            transaction=None,
            request_id=claim.request_id,
            operation=PointerOperation.UNDROP,
            actor=self._caller.actor,
            engine=self._caller.engine,
            update_source=self._caller.update_source,
            previous_location=None,
            changed=(),
            publication=None,
        )
