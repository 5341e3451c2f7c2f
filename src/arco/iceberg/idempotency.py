"""Carrying a request out, once if it has a key (P10 to P14).

Each operation is a `Work`. Under a key its claim and its outcome are kept; without one the same work runs
under a claim that nobody stores. An outcome holds what a replay needs to answer again, not the answer
itself: metadata are read anew, and may have moved on.
"""

import msgspec

from arco.core import json
from arco.core.errors import (
    ArcoError,
)
from arco.core.hashing import sha256_hex
from arco.core.ids import new_ulid
from arco.iceberg.context import Caller, Desk
from arco.iceberg.errors import FENCED, Refused, fenced, in_own_words
from arco.ledger.claim import Answer, Claim, key_path
from arco.ledger.idempotency import Hold, Terms, Work

PROTOCOL = "iceberg"


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a success is remembered by."""

    table_id: str | None = None
    metadata_location: str | None = None
    properties: dict[str, tuple[str, ...]] | None = None


class _Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What a refusal is remembered by."""

    type: str
    message: str


class _Free:
    """The right to go on of a request without a key: nobody can take it over."""

    takes_over = False

    async def check(self) -> None:
        return


class _Marked:
    """A work whose claims say that they are ours, so that the reconciler knows whose they are."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def terms(self) -> Terms:
        terms = await self._work.terms()
        return Terms(ids=terms.ids | {"protocol": PROTOCOL}, base=terms.base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return self._work.renew(claim)

    async def find(self, claim: Claim) -> Answer | None:
        return await self._work.find(claim)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        return await self._work.perform(claim, hold)


async def run(desk: Desk, caller: Caller, work: Work, request: object) -> Told:
    """Carry the work out; a refusal is raised, the first time and ever after."""
    if caller.key is None:
        terms = await work.terms()
        claim = Claim(
            request_sha256="",
            request_id=new_ulid(desk.runtime),
            ids=terms.ids,
            base=terms.base,
            life_ms=0,
        )
        return told_of(await work.perform(claim, _Free()))
    path = key_path(
        desk.store.scope,
        principal=caller.actor,
        api=PROTOCOL,
        # Not by operation: a key that comes back with another one is refused, not run a second time.
        operation="",
        key=caller.key,
    )
    answer = await desk.idempotency.once(
        path,
        _fingerprint(caller.operation, request),
        _Marked(work),
        arrived_ms=caller.arrived_ms,
    )
    return told_of(answer)


def succeeded(told: Told, *, has_landed: bool = True) -> Answer:
    """The answer of a success; one that changes nothing has no evidence but its outcome."""
    return Answer(status=200, body=msgspec.Raw(json.encode(told)), has_landed=has_landed)


def refused(problem: ArcoError | Refused) -> Answer:
    """The answer of a refusal that will be the same tomorrow."""
    told = problem if isinstance(problem, Refused) else in_own_words(problem)
    body = json.encode(_Refusal(type=told.kind, message=told.message))
    # No outcome says 403, which is mostly about the caller (P12). This one rests on the chain alone.
    status = 409 if told.kind == FENCED else told.status
    return Answer(status=status, body=msgspec.Raw(body))


def told_of(answer: Answer) -> Told:
    """What an answer tells; a refusal is raised."""
    if answer.succeeded:
        return json.decode(bytes(answer.body), Told)
    refusal = json.decode(bytes(answer.body), _Refusal)
    if refusal.type == FENCED:
        raise fenced(refusal.message)
    raise Refused(answer.status, refusal.type, refusal.message)


def _fingerprint(operation: str, request: object) -> str:
    """What tells one request from another: the operation and all that was sent, in whatever order."""
    return sha256_hex(msgspec.json.encode([operation, request], order="sorted"))
