"""Requests of the catalog's own API that change Iceberg tables and views.

A native operation is a `Work` of this package and a finish step for the catalog, such as showing the
new columns or describing the renamed table. The work decides and takes effect once; the finish step can
be repeated, so under a key a retry that finds the work done still finishes it (P11).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from arco.catalog.change import Renderer
from arco.catalog.decision import refuse_stale
from arco.catalog.model import ObjectKind
from arco.catalog.pending_request import ChangeResult
from arco.core.errors import (
    ArcoError,
    Corrupt,
    MissingMetadata,
    NotFound,
    PreconditionFailed,
    Unknown,
)
from arco.iceberg.context import IcebergContext
from arco.iceberg.idempotency import (
    FixedIdsWork,
    OperationResult,
    error_answer,
    read_refusal,
    read_result,
)
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms, IdempotentWork

_STALE = "stale"  # in the ids of a claim: why the request came too late
_WAY = "way"  # in the ids of a claim: the kind of object, if the request changes Iceberg


@dataclass(frozen=True)
class NativeOperation:
    """The work that changes Iceberg, and the finish step in the catalog."""

    work: IdempotentWork
    finish: Callable[[OperationResult], Awaitable[ChangeResult]]


class IfMatchWork:
    """A work that is refused if the object does not have the version that If-Match names.

    The version is compared once, with the newest snapshot before the claim, and the claim stores the
    result: a takeover must not take the request's own effect for another request's. So it does not
    see changes between that read and the commit, nor commits of engines that leave the table's row
    as it is, such as appends: the ETag is the version of that row.
    """

    def __init__(
        self, context: IcebergContext, work: IdempotentWork, expected: int | str | None
    ) -> None:
        self._context = context
        self._work = work
        self._expected = expected

    async def terms(self) -> ClaimTerms:
        terms = await self._work.terms()
        stale = await self._stale(terms.ids.get("table", ""))
        return terms if stale is None else ClaimTerms({**terms.ids, _STALE: stale}, terms.base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return self._work.renew(claim)

    async def find(self, claim: Claim) -> Answer | None:
        return await self._work.find(claim)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        if _STALE in claim.ids:
            return error_answer(PreconditionFailed(claim.ids[_STALE]))
        return await self._work.perform(claim, hold)

    async def _stale(self, table_id: str) -> str | None:
        if self._expected is None or not table_id:
            return None
        reader = self._context.reader
        try:
            table = await (reader.remembered() or await reader.head()).find(table_id)
            refuse_stale(self._expected, table)
        except NotFound:
            return None
        except PreconditionFailed as stale:
            return str(stale)
        return None


class KeyedNativeWork(FixedIdsWork):
    """A request with a key, which the catalog or this package carries out.

    Its claim fixes which: a retry takes the same way even if the name was dropped or reused since.
    """

    def __init__(
        self,
        plain: IdempotentWork,
        kind_of: Callable[[], Awaitable[ObjectKind | None]],
        operation_for: Callable[[ObjectKind], NativeOperation],
        renderer: Renderer,
    ) -> None:
        self._plain = plain
        self._kind_of = kind_of
        self._operation_for = operation_for
        self._renderer = renderer
        self._operation: NativeOperation | None = None

    async def terms(self) -> ClaimTerms:
        kind = await self._kind_of()
        if kind is None:
            return await self._plain.terms()
        terms = await self._of(kind).work.terms()
        if not terms.ids.get("table", "-") and await self._kind_of() is None:
            return await self._plain.terms()  # the remembered row of the name was stale
        return ClaimTerms({**terms.ids, _WAY: kind}, terms.base)

    async def find(self, claim: Claim) -> Answer | None:
        way = claim.ids.get(_WAY)
        if way is None:
            return await self._plain.find(claim)
        operation = self._of(ObjectKind(way))
        answer = await operation.work.find(claim)
        return None if answer is None else await self._told(operation, answer)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        way = claim.ids.get(_WAY)
        if way is None:
            return await self._plain.perform(claim, hold)
        operation = self._of(ObjectKind(way))
        return await self._told(operation, await operation.work.perform(claim, hold))

    def _of(self, kind: ObjectKind) -> NativeOperation:
        if self._operation is None:
            self._operation = self._operation_for(kind)
        return self._operation

    async def _told(self, operation: NativeOperation, answer: Answer) -> Answer:
        refusal = read_refusal(answer)
        if refusal is not None:
            return self._renderer.refused(refusal)
        done = self._renderer.done(await finish_operation(operation, read_result(answer)))
        return msgspec.structs.replace(done, has_landed=answer.has_landed)


async def finish_operation(operation: NativeOperation, result: OperationResult) -> ChangeResult:
    """Run the finish step. A failure here is not a refusal: the request has taken effect (law 9)."""
    try:
        return await operation.finish(result)
    except ArcoError as problem:
        if isinstance(problem, Unknown | Corrupt) and not isinstance(problem, MissingMetadata):
            raise
        raise Unknown(
            "the request has taken effect, but its last step failed; read the table, then retry"
        ) from problem
