"""Registering an existing metadata file: as a new table, or as the next version of an existing one (P30).

The claim fixes which of the two it is: a retry must not find the table that its first attempt created
and overwrite it. Only the process that carries the request out reads the file: a retry of a request
that has landed succeeds even if the file is gone.
"""

from arco.catalog.change import ClaimId
from arco.catalog.model import ObjectKind
from arco.catalog.pending_request import Caller
from arco.core.errors import Invalid
from arco.core.ids import new_object_id
from arco.iceberg.commit import TABLE_ENGINE, CommitWork, find_landed_commit
from arco.iceberg.context import IcebergContext
from arco.iceberg.create import (
    CreateWork,
    Creation,
    InitialMetadata,
    check_new_metadata,
    creation_terms,
    find_created,
)
from arco.iceberg.errors import already_exists, missing_file
from arco.iceberg.idempotency import FixedIdsWork, error_answer
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName, find_object
from arco.iceberg.pointer import PointerOperation
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import PreparedCommit, prepare_commit
from arco.iceberg.wire import CommitTableRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms

_UUID = {ObjectKind.TABLE: "table-uuid", ObjectKind.VIEW: "view-uuid"}


class RegisterWork(FixedIdsWork):
    """A registration as work that takes effect once."""

    def __init__(
        self,
        context: IcebergContext,
        name: FullName,
        kind: ObjectKind,
        caller: Caller,
        location: str,
        *,
        overwrite: bool = False,
    ) -> None:
        self._context = context
        self._name = name
        self._kind = kind
        self._caller = caller
        self._location = location
        self._overwrite = overwrite

    async def terms(self) -> ClaimTerms:
        resolved = (
            await find_object(self._context, self._name, self._kind) if self._overwrite else None
        )
        if resolved is None:
            return await creation_terms(self._context)
        return ClaimTerms(ids={ClaimId.TABLE: resolved.id}, base=resolved.table_head.number)

    async def find(self, claim: Claim) -> Answer | None:
        return await (find_landed_commit if "table" in claim.ids else find_created)(
            self._context, claim
        )

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        context, name, caller = self._context, self._name, self._caller
        try:
            stored = await self._read()
            if ClaimId.TABLE not in claim.ids:
                creation = _creation(context, name, self._kind, caller, stored)
                return await CreateWork(context, creation).perform(claim, hold)
        except Invalid as invalid:
            return error_answer(invalid)
        if await self._is_elsewhere(stored, claim.ids[ClaimId.TABLE]):
            raise already_exists("Table with the same UUID is registered under another name")
        return await OverwriteWork(context, name, caller, stored).perform(claim, hold)

    async def _read(self) -> LoadedMetadata:
        """The metadata, if its location may be read and it is of the right kind."""
        context, location, uuid = self._context, self._location, _UUID[self._kind]
        owner = context.locations.owner(location)  # `Invalid` if it may not be used
        if owner is not None and await _is_purged(context, owner):
            raise missing_file(location)  # its files are being deleted
        stored = await context.load(location)
        metadata = stored.metadata
        if not isinstance(metadata.get(uuid), str):
            raise Invalid(
                f"{location} is not the metadata of this kind of object: it has no {uuid}"
            )
        table_location = str(metadata.get("location"))
        context.locations.check_inside(location, table_location)
        context.locations.check_metadata(metadata, table_location)
        return stored

    async def _is_elsewhere(self, stored: LoadedMetadata, table_id: str) -> bool:
        """Whether another table than the one to overwrite has this uuid."""
        uuid = str(stored.metadata[_UUID[self._kind]])
        holder = await (await self._context.reader.head()).table_by_uuid(uuid)
        return holder is not None and holder.row.table_id != table_id


def _creation(
    context: IcebergContext,
    name: FullName,
    kind: ObjectKind,
    caller: Caller,
    stored: LoadedMetadata,
) -> Creation:
    """The creation of a table or view whose metadata file exists."""
    owner = context.locations.owner(str(stored.metadata["location"]))
    extra_owner_ids = frozenset() if owner is None else frozenset({owner})
    initial = InitialMetadata(stored.metadata, stored, extra_owner_ids)
    check_new_metadata(
        context, stored.metadata, str(new_object_id(context.runtime)), extra_owner_ids
    )
    return Creation(name, kind, caller, PointerOperation.REGISTER, lambda _: initial)


async def _is_purged(context: IcebergContext, table_id: str) -> bool:
    table_head = await context.heads.of(table_id)
    return (
        table_head.tombstone is not None
        and table_head.pointer is not None
        and table_head.pointer.purge
    )


class OverwriteWork(CommitWork):
    """A registration over a table as work that takes effect once."""

    def __init__(
        self, context: IcebergContext, name: FullName, caller: Caller, stored: LoadedMetadata
    ) -> None:
        super().__init__(context, name, CommitTableRequest(), caller, TABLE_ENGINE)
        self._stored = stored

    def _prepare(
        self, base: LoadedMetadata, table_head: PointerHead, claim: Claim
    ) -> PreparedCommit | None:
        if table_head.location == self._stored.location:
            return None
        location = str(self._stored.metadata["location"])
        if location.rstrip("/") != str(base.metadata["location"]).rstrip("/"):
            raise Invalid(
                "the metadata file belongs to another location, and a table cannot be moved by registering"
            )
        return prepare_commit(
            self._context,
            self._stored.metadata,
            number=table_head.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation=PointerOperation.REGISTER,
            previous=table_head.location,
            stored=self._stored,
            base=base.metadata,
        )
