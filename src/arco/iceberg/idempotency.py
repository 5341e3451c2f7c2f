"""Running an operation, exactly once if the request has an idempotency key (P10 to P14).

Each operation is a `Work`. With a key its claim and outcome are stored; without one the same work runs
under a claim that is not stored. An outcome holds what a replay needs to build the answer again, not
the answer: the metadata is read again and may be newer.
"""

import msgspec

from arco.catalog.table_format import Caller
from arco.core import json
from arco.core.errors import ArcoError
from arco.core.hashing import sha256_hex
from arco.iceberg.context import IcebergContext
from arco.iceberg.errors import FENCED, IcebergError, attempt_fenced, to_iceberg_error
from arco.ledger.claim import Answer, Claim, key_path
from arco.ledger.idempotency import ClaimHold, ClaimTerms, IdempotentWork, perform_without_key

PROTOCOL = "iceberg"


class OperationResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored outcome of a success: what a replay needs to build the answer."""

    table_id: str | None = None
    metadata_location: str | None = None
    properties: dict[str, tuple[str, ...]] | None = None


class FixedIdsWork:
    """A work whose claims keep their ids when another process takes over."""

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids


class _Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The stored outcome of a refusal."""

    type: str
    message: str


class _Marked:
    """A work whose claims name the protocol, so that the reconciler recognises them."""

    def __init__(self, work: IdempotentWork) -> None:
        self._work = work

    async def terms(self) -> ClaimTerms:
        terms = await self._work.terms()
        return ClaimTerms(ids=terms.ids | {"protocol": PROTOCOL}, base=terms.base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return self._work.renew(claim)

    async def find(self, claim: Claim) -> Answer | None:
        return await self._work.find(claim)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        return await self._work.perform(claim, hold)


async def run_once(
    context: IcebergContext, caller: Caller, work: IdempotentWork, request: object
) -> OperationResult:
    """Perform the work, once if the caller has a key; a refusal is raised, also on each replay."""
    if caller.key is None:
        return read_result(await perform_without_key(context.runtime, work))
    path = key_path(
        context.store.scope,
        principal=caller.actor,
        api=PROTOCOL,
        # Not by operation: a key that is used again for another one is refused, not run.
        operation="",
        key=caller.key,
    )
    answer = await context.idempotency.once(
        path, _fingerprint(caller.operation, request), _Marked(work), arrived_ms=caller.arrived_ms
    )
    return read_result(answer)


def success_answer(result: OperationResult, *, has_landed: bool = True) -> Answer:
    """The answer of a success; if it changed nothing, its outcome is the only evidence."""
    return Answer(status=200, body=msgspec.Raw(json.encode(result)), has_landed=has_landed)


def table_answer(
    table_id: str, metadata_location: str | None = None, *, has_landed: bool = True
) -> Answer:
    """The answer of a success on one table."""
    result = OperationResult(table_id=table_id, metadata_location=metadata_location)
    return success_answer(result, has_landed=has_landed)


def error_answer(problem: ArcoError | IcebergError) -> Answer:
    """The answer of a refusal that is stored and replayed."""
    result = problem if isinstance(problem, IcebergError) else to_iceberg_error(problem)
    body = json.encode(_Refusal(type=result.kind, message=result.message))
    # Outcomes are never 403, which is about the caller (P12). This one depends on the chain alone.
    status = 409 if result.kind == FENCED else result.status
    return Answer(status=status, body=msgspec.Raw(body))


def read_result(answer: Answer) -> OperationResult:
    """The result in an answer; a refusal is raised."""
    if answer.succeeded:
        return json.decode(bytes(answer.body), OperationResult)
    refusal = json.decode(bytes(answer.body), _Refusal)
    if refusal.type == FENCED:
        raise attempt_fenced(refusal.message)
    raise IcebergError(answer.status, refusal.type, refusal.message)


def _fingerprint(operation: str, request: object) -> str:
    """A hash of the operation and the request body, independent of the order of members."""
    return sha256_hex(msgspec.json.encode([operation, request], order="sorted"))
