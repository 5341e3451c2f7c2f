"""Changes of the catalog under the claim of an Iceberg request: renames, and descriptions of views.

The catalog's manifests are the evidence: each lists the requests it contains, so the outcome of a claim
can be looked up whichever process wrote the manifest (P10, P11). A rename is the catalog's alone to
decide, since chains and locations are keyed by id (P31, law 11).
"""

from abc import ABC, abstractmethod

from arco.catalog.change import ClaimId, committed_requests
from arco.catalog.ddl import Ddl, MoveTable, UpdateTable
from arco.catalog.model import ObjectKind
from arco.catalog.pending_request import Caller, ChangeResult, PendingRequest, read_change_result
from arco.core.errors import AlreadyExists, ArcoError, NotFound
from arco.core.ids import new_object_id
from arco.iceberg.context import IcebergContext
from arco.iceberg.errors import (
    already_exists,
    dotted,
    no_such_namespace,
)
from arco.iceberg.idempotency import FixedIdsWork, error_answer, table_answer
from arco.iceberg.name_resolution import FullName, find_object, find_occupant, not_found_error
from arco.ledger.claim import Answer, Claim, find_evidence
from arco.ledger.idempotency import ClaimHold, ClaimTerms

_MAX_TRIES = 3


class CatalogRefusal(Exception):
    """The catalog refused a request for good, on the evidence of the newest manifest."""

    def __init__(self, problem: ArcoError) -> None:
        super().__init__(str(problem))
        self.problem = problem


async def manifest_number(context: IcebergContext) -> int:
    """The number of a manifest that is known to exist, as the base of a claim."""
    chain_head = context.reader.chain.remembered()
    return (await context.reader.head()).number if chain_head is None else chain_head.number


async def change_catalog(
    context: IcebergContext, claim: Claim, hold: ClaimHold, request: Ddl, actor: str
) -> ChangeResult:
    """Have the catalog carry a request out; `CatalogRefusal` if it refuses."""
    ask = PendingRequest(
        request=request,
        actor=actor,
        request_id=claim.request_id,
        new_id=claim.ids[ClaimId.OBJECT],
        arrived_ms=context.runtime.clock.elapsed_ms(),
        done=context.runtime.tasks.event(),
        base=claim.base,
        hold=hold,
    )
    try:
        return await context.committer.submit(ask)
    except ArcoError as problem:
        if not ask.refused:
            raise
        raise CatalogRefusal(problem) from problem


async def find_catalog_change(context: IcebergContext, claim: Claim) -> ChangeResult | None:
    """The result of a claim's request, if a manifest contains it."""
    search = await find_evidence(context.reader.chain, claim, committed_requests)
    if search.landed is None:
        return None
    return await read_change_result(context.reader, claim.request_id, search.landed.number)


class _NamedObjectWork(FixedIdsWork, ABC):
    """A change of the catalog about a table or view that is resolved by name when the claim is made."""

    def __init__(
        self, context: IcebergContext, name: FullName, kind: ObjectKind, caller: Caller
    ) -> None:
        self._context = context
        self._name = name
        self._kind = kind
        self._caller = caller

    async def terms(self) -> ClaimTerms:
        base = await manifest_number(self._context)
        resolved = await find_object(self._context, self._name, self._kind)
        ids = {
            ClaimId.TABLE: "" if resolved is None else resolved.id,
            ClaimId.OBJECT: str(new_object_id(self._context.runtime)),
        }
        return ClaimTerms(ids=ids, base=base)

    async def find(self, claim: Claim) -> Answer | None:
        done = await find_catalog_change(self._context, claim)
        return None if done is None else table_answer(claim.ids[ClaimId.TABLE])

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        if not claim.ids[ClaimId.TABLE]:
            return error_answer(not_found_error(self._kind, self._name))
        return await self._change(claim, hold)

    @abstractmethod
    async def _change(self, claim: Claim, hold: ClaimHold) -> Answer:
        """Change the catalog, for an object that existed when the claim was made."""


class RenameWork(_NamedObjectWork):
    """A rename as work that takes effect once."""

    def __init__(
        self,
        context: IcebergContext,
        source: FullName,
        target: FullName,
        kind: ObjectKind,
        caller: Caller,
    ) -> None:
        super().__init__(context, source, kind, caller)
        self._target = target

    async def _change(self, claim: Claim, hold: ClaimHold) -> Answer:
        table_id, problem = claim.ids[ClaimId.TABLE], None
        request = MoveTable(table_id=table_id, schema=self._target.schema, name=self._target.name)
        for _ in range(_MAX_TRIES):
            try:
                await change_catalog(self._context, claim, hold, request, self._caller.actor)
            except CatalogRefusal as refusal:
                problem = refusal.problem
            else:
                return table_answer(table_id)
            if not isinstance(problem, AlreadyExists) or await self._is_taken():
                break
        return error_answer(await self._refusal(problem))

    async def _is_taken(self) -> bool:
        """Whether the target name is taken; the check releases the name of a dropped table."""
        return await find_occupant(self._context, self._target) is not None

    async def _refusal(self, problem: ArcoError | None) -> ArcoError:
        """Why the object could not be renamed, with the message for Iceberg's clients."""
        if isinstance(problem, AlreadyExists):
            occupant = await find_occupant(self._context, self._target)
            label = "View" if occupant is not None and occupant.kind is ObjectKind.VIEW else "Table"
            source = dotted(self._name.namespace, self._name.name)
            target = dotted(self._target.namespace, self._target.name)
            return already_exists(f"Cannot rename {source} to {target}. {label} already exists")
        if isinstance(problem, NotFound):
            try:
                await (await self._context.reader.head()).schema(self._target.schema)
            except NotFound:
                return no_such_namespace(self._target.namespace)
            return not_found_error(self._kind, self._name)
        return not_found_error(self._kind, self._name) if problem is None else problem


class DescribeWork(_NamedObjectWork):
    """A change of a view's description as work that takes effect once."""

    def __init__(self, context: IcebergContext, request: UpdateTable, caller: Caller) -> None:
        target = request.target
        name = FullName(target.catalog, target.schema, target.table)
        super().__init__(context, name, ObjectKind.VIEW, caller)
        self._request = request

    async def _change(self, claim: Claim, hold: ClaimHold) -> Answer:
        try:
            await change_catalog(self._context, claim, hold, self._request, self._caller.actor)
        except CatalogRefusal as refusal:
            return error_answer(refusal.problem)
        return table_answer(claim.ids[ClaimId.TABLE])
