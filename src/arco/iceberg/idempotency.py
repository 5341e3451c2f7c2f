"""Running an operation, exactly once if the request has an idempotency key (P10 to P14).

Each operation is an `IdempotentWork`. With a key its claim and outcome are stored; without one the same
work runs under a claim that is not stored. An outcome holds what a replay needs to build the answer again,
not the answer: the metadata is read again and may be newer.
"""

from typing import NamedTuple

import msgspec

from arco.catalog.change import ClaimId
from arco.catalog.pending_request import Caller
from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    AttemptFenced,
    Conflict,
    ContradictoryUpdate,
    Invalid,
    InvalidView,
    NoSuchCatalog,
    NoSuchSchema,
    NoSuchTable,
    NoSuchView,
    NotEmpty,
    NotFound,
    PreconditionFailed,
)
from arco.core.hashing import sha256_hex
from arco.iceberg.context import IcebergContext
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


class StoredRefusal(NamedTuple):
    """The type and the status under which one class of refusals is stored."""

    error: type[ArcoError]
    type: str
    status: int


# What is stored, not what is sent: a replay reads the class again, and the API sends it with the status in
# `ERROR_TYPES` (arco/api/iceberg/errors.py), which may differ. So the status here matters only to versions
# that do not know the type.
# Part of the stored format: a line is never changed. The first class that matches is stored, so a subclass
# precedes its parent. No status is 403, which is about the caller and no outcome (P12).
STORED_REFUSALS = (
    StoredRefusal(NoSuchCatalog, "NoSuchWarehouseException", 404),
    StoredRefusal(NoSuchSchema, "NoSuchNamespaceException", 404),
    StoredRefusal(NoSuchTable, "NoSuchTableException", 404),
    StoredRefusal(NoSuchView, "NoSuchViewException", 404),
    StoredRefusal(NotFound, "NotFoundException", 404),
    StoredRefusal(AlreadyExists, "AlreadyExistsException", 409),
    StoredRefusal(NotEmpty, "NamespaceNotEmptyException", 409),
    StoredRefusal(PreconditionFailed, "PreconditionFailedException", 412),
    StoredRefusal(Conflict, "CommitFailedException", 409),
    StoredRefusal(AttemptFenced, "AttemptFencedException", 409),
    StoredRefusal(ContradictoryUpdate, "UnprocessableEntityException", 422),
    StoredRefusal(InvalidView, "IllegalArgumentException", 400),
    StoredRefusal(Invalid, "BadRequestException", 400),
)
# The class of a stored type that this version does not know.
_CLASS_BY_STATUS: dict[int, type[ArcoError]] = {
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
}


class WrappedWork:
    """A work that leaves everything to another work; a subclass shows what it changes."""

    def __init__(self, work: IdempotentWork) -> None:
        self._work = work

    async def terms(self) -> ClaimTerms:
        return await self._work.terms()

    def renew(self, claim: Claim) -> dict[str, str]:
        return self._work.renew(claim)

    async def find(self, claim: Claim) -> Answer | None:
        return await self._work.find(claim)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        return await self._work.perform(claim, hold)


class _ProtocolTaggedWork(WrappedWork):
    """A work whose claims name the protocol, so that the reconciler recognises them."""

    async def terms(self) -> ClaimTerms:
        terms = await self._work.terms()
        return ClaimTerms(ids=terms.ids | {ClaimId.PROTOCOL: PROTOCOL}, base=terms.base)


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
        path,
        _fingerprint(caller.operation, request),
        _ProtocolTaggedWork(work),
        arrived_ms=caller.arrived_ms,
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


def error_answer(problem: ArcoError) -> Answer:
    """The answer that stores a refusal, for replays.

    An error that says nothing about the request, such as `Unavailable`, has none (P12): it is raised.
    """
    stored = next((each for each in STORED_REFUSALS if isinstance(problem, each.error)), None)
    if stored is None:
        raise problem
    body = json.encode(_Refusal(type=stored.type, message=str(problem)))
    return Answer(status=stored.status, body=msgspec.Raw(body))


def read_refusal(answer: Answer) -> ArcoError:
    """The error in an answer that is not a success."""
    refusal = json.decode(bytes(answer.body), _Refusal)
    by_type = (each.error for each in STORED_REFUSALS if each.type == refusal.type)
    error = next(by_type, None) or _CLASS_BY_STATUS.get(answer.status, Invalid)
    problem = error(refusal.message)
    problem.has_public_message = True
    return problem


def read_result(answer: Answer) -> OperationResult:
    """The result in an answer; a refusal is raised."""
    if not answer.succeeded:
        raise read_refusal(answer)
    return json.decode(bytes(answer.body), OperationResult)


def _fingerprint(operation: str, request: object) -> str:
    """A hash of the operation and the request body, independent of the order of members."""
    return sha256_hex(msgspec.json.encode([operation, request], order="sorted"))
