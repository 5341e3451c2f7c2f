"""Registering metadata that are there already: a new table, or the next version of one that is there (P30).

Which of the two it is, is fixed by the claim: a retry must not find the table that its first try has made,
and take it for one to overwrite. The file is read only by who carries the request out: a retry of one that
has landed is a success, whatever became of the file since.
"""
# DOC overwrite: """Registering over a table that is there: its chain goes on with the metadata that are named (P30)."""

from arco.catalog.model import ObjectKind
from arco.core.errors import Invalid
from arco.core.ids import new_object_id
from arco.iceberg.commit import TABLES, CommitWork, landed_on
from arco.iceberg.context import Caller, Desk, missing_file
from arco.iceberg.create import Birth, CreateWork, Newborn, birth_terms, born_under, check_new
from arco.iceberg.errors import exists
from arco.iceberg.idempotency import refused
from arco.iceberg.loaded_metadata import Loaded
from arco.iceberg.name_resolution import Name, look_up
from arco.iceberg.pointer_head import Standing
from arco.iceberg.prepared_commit import REGISTER, Attempt, attempt
from arco.iceberg.wire import CommitTableRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms

_UUID = {ObjectKind.TABLE: "table-uuid", ObjectKind.VIEW: "view-uuid"}


class RegisterWork:
    """A registration as work that takes effect once."""

    def __init__(
        self,
        desk: Desk,
        name: Name,
        kind: ObjectKind,
        caller: Caller,
        location: str,
        *,
        overwrite: bool = False,
    ) -> None:
        self._desk = desk
        self._name = name
        self._kind = kind
        self._caller = caller
        self._location = location
        self._overwrite = overwrite

    async def terms(self) -> Terms:
        found = await look_up(self._desk, self._name, self._kind) if self._overwrite else None
        if found is None:
            return await birth_terms(self._desk)
        return Terms(ids={"table": found.id}, base=found.standing.number)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        return await (landed_on if "table" in claim.ids else born_under)(self._desk, claim)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        desk, name, caller = self._desk, self._name, self._caller
        try:
            stored = await self._read()
            if "table" not in claim.ids:
                birth = _birth(desk, name, self._kind, caller, stored)
                return await CreateWork(desk, birth).perform(claim, hold)
        except Invalid as wrong:
            return refused(wrong)
        if await self._is_elsewhere(stored, claim.ids["table"]):
            raise exists("Table with the same UUID is registered under another name")
        return await OverwriteWork(desk, name, caller, stored).perform(claim, hold)

    async def _read(self) -> Loaded:
        """The metadata, if we may read them where they are, and they are what they should be."""
        desk, location, uuid = self._desk, self._location, _UUID[self._kind]
        owner = desk.locations.owner(location)  # `Invalid` where we may not
        if owner is not None and await _is_purged(desk, owner):
            raise missing_file(location)  # or about to be
        stored = await desk.load(location)
        metadata = stored.metadata
        if not isinstance(metadata.get(uuid), str):
            raise Invalid(f"{location} does not hold the metadata that it should: no {uuid}")
        home = str(metadata.get("location"))
        desk.locations.check_inside(location, home)
        desk.locations.check_metadata(metadata, home)
        return stored

    async def _is_elsewhere(self, stored: Loaded, table_id: str) -> bool:
        """Whether another table than the one to overwrite goes by this uuid."""
        uuid = str(stored.metadata[_UUID[self._kind]])
        holder = await (await self._desk.reader.head()).table_by_uuid(uuid)
        return holder is not None and holder.row.table_id != table_id


def _birth(desk: Desk, name: Name, kind: ObjectKind, caller: Caller, stored: Loaded) -> Birth:
    """A table or view whose metadata are there already."""
    owner = desk.locations.owner(str(stored.metadata["location"]))
    also = frozenset() if owner is None else frozenset({owner})
    newborn = Newborn(stored.metadata, stored.location, also)
    check_new(desk, stored.metadata, str(new_object_id(desk.runtime)), also)
    return Birth(name, kind, caller, REGISTER, lambda _: newborn)


async def _is_purged(desk: Desk, table_id: str) -> bool:
    standing = await desk.standings.of(table_id)
    return (
        standing.tombstone is not None and standing.pointer is not None and standing.pointer.purge
    )


class OverwriteWork(CommitWork):
    """A registration over a table as work that takes effect once."""

    def __init__(self, desk: Desk, name: Name, caller: Caller, stored: Loaded) -> None:
        super().__init__(desk, name, CommitTableRequest(), caller, TABLES)
        self._stored = stored

    def _decide(self, base: Loaded, standing: Standing, claim: Claim) -> Attempt | None:
        if standing.location == self._stored.location:
            return None
        location = str(self._stored.metadata["location"])
        if location.rstrip("/") != str(base.metadata["location"]).rstrip("/"):
            raise Invalid("a table stays where it is: these metadata belong to another place")
        return attempt(
            self._desk,
            self._stored.metadata,
            number=standing.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation=REGISTER,
            previous=standing.location,
            stored=self._stored.location,
            base=base.metadata,
        )
