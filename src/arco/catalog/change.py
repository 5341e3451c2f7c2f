"""The entry points to change the catalog: directly, or under an idempotency key (P10 to P14)."""

from collections.abc import Callable
from typing import Protocol

from arco.catalog.committer import Committer
from arco.catalog.ddl import CreateCatalog, Ddl
from arco.catalog.manifest import read_manifest
from arco.catalog.pending_request import ChangeResult, PendingRequest, read_change_result
from arco.core.errors import AlreadyExists, ArcoError
from arco.core.ids import new_object_id, new_ulid
from arco.ledger.claim import Answer, Claim, find_evidence
from arco.ledger.idempotency import ClaimHold, ClaimTerms
from arco.storage.entry import Entry

DEFAULT_CATALOG = "default"
SYSTEM = "client:arco"


class ClaimId:
    """The stored names of what the claim of a request fixes for a process that takes over."""

    OBJECT = "object"  # the id of a new object
    SPARE = "spare"  # the id of a new table if the first one is taken
    TABLE = "table"  # the id of an existing table; empty if none has the name
    TABLES = "tables"  # the same of a transaction, separated by commas
    TRANSACTION = (
        "transaction"  # the id of the transaction that the present holder of the claim writes
    )
    EARLIER = "earlier"  # the transactions of earlier holders, separated by commas
    REMOVED = "removed"  # the keys of properties that a request removes, as JSON
    PROTOCOL = "protocol"  # the API of the request, if it is not the catalog's own
    STALE = "stale"  # why the request is refused: the object is not the version that If-Match names
    KIND = "way"  # the kind of object, if a table format carries the request out
    FORMAT = "format"  # that format; Iceberg if absent


class Renderer(Protocol):
    """Encodes the results of changes in the format of one API."""

    def done(self, done: ChangeResult) -> Answer:
        """The answer to a request that was committed."""

    def refused(self, problem: ArcoError) -> Answer:
        """The answer to a request that was refused."""


async def change(committer: Committer, request: Ddl, actor: str) -> ChangeResult:
    """Commit a request; a refusal is raised."""
    runtime = committer.reader.store.runtime
    return await committer.submit(
        PendingRequest(
            request=request,
            actor=actor,
            request_id=new_ulid(runtime),
            new_id=new_object_id(runtime),
            arrived_ms=runtime.clock.elapsed_ms(),
            done=runtime.tasks.event(),
        )
    )


async def ensure_default(committer: Committer) -> None:
    """Create the catalog `default` in a new workspace; several processes may try at once."""
    if (await committer.reader.head()).number >= 0:
        return
    try:
        await change(committer, CreateCatalog(name=DEFAULT_CATALOG), SYSTEM)
    except AlreadyExists:
        return


class ChangeWork:
    """A change of the catalog as the work of an idempotency claim.

    `request_of` builds the request from the claim's ids, so that a takeover makes the same request. The
    entry `object` of `ids` is the id of a new object.
    """

    def __init__(
        self,
        committer: Committer,
        request_of: Callable[[Claim], Ddl],
        actor: str,
        renderer: Renderer,
        ids: dict[str, str],
    ) -> None:
        self._committer = committer
        self._reader = committer.reader
        self._runtime = committer.reader.store.runtime
        self._request_of = request_of
        self._actor = actor
        self._renderer = renderer
        self._ids = ids
        self._absent_up_to = -1  # the request has not landed at this number or below

    async def terms(self) -> ClaimTerms:
        head = self._reader.chain.remembered()
        base = (await self._reader.head()).number if head is None else head.number
        return ClaimTerms(ids=self._ids, base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        evidence = await find_evidence(self._reader.chain, claim, committed_requests)
        if evidence.landed is None:
            self._absent_up_to = evidence.head.number
            return None
        return self._renderer.done(
            await read_change_result(self._reader, claim.request_id, evidence.landed.number)
        )

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        pending = PendingRequest(
            request=self._request_of(claim),
            actor=self._actor,
            request_id=claim.request_id,
            new_id=claim.ids[ClaimId.OBJECT],
            arrived_ms=self._runtime.clock.elapsed_ms(),
            done=self._runtime.tasks.event(),
            base=max(claim.base, self._absent_up_to),
            hold=hold,
        )
        try:
            return self._renderer.done(await self._committer.submit(pending))
        except ArcoError as problem:
            if not pending.refused:
                raise
            return self._renderer.refused(problem)


def committed_requests(entry: Entry) -> list[str]:
    """The requests that a manifest lists as committed."""
    return list(read_manifest(entry).requests)
