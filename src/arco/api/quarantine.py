"""The handler of replays: appends the event of a quarantined line again, and records that it was replayed.

The event keeps its id and its key, so a repeated replay, or one of an event that was folded after all,
changes nothing. A line that is still refused stays in quarantine, and the answer says why.
"""

from dataclasses import dataclass

import msgspec

from arco.access.authorization import Operation
from arco.api.context import apply_once
from arco.api.http.problem import encode_problem, problem_of
from arco.api.http.reply import Reply
from arco.api.http.request import Call, QueryParams
from arco.api.http.route import AnyRoute, ResponseSpec, Route, json_body
from arco.api.responses import ResponseModel
from arco.api.services import Services
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Invalid, NotFound
from arco.core.hashing import sha256_hex
from arco.core.ids import Ulid, new_ulid, parse_ulid
from arco.events.quarantine import KINDS, QuarantineReplayed
from arco.events.registry import ALL_TYPES, ANY_DOMAIN, find_kind
from arco.fold.tier2 import TIER2
from arco.ledger.claim import Answer, Claim
from arco.ledger.envelope import Count, Envelope, Source
from arco.ledger.idempotency import ClaimHold, ClaimTerms

REPLAY = "/api/v1/quarantine/replay"

(_REPLAYED,) = KINDS
_NOTE = "note"

_BODY = """SELECT body FROM system.quarantine
WHERE domain = '{domain}' AND stream = '{stream}' AND segment = {segment} AND line = {line}"""


class QuarantineReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of the quarantine, as `system.quarantine` names it."""

    domain: str
    stream: str
    segment: Count
    line: Count


ReplayCall = Call[QueryParams, QuarantineReference]


class ReplayResult(ResponseModel, frozen=True, kw_only=True):
    """The event that was sent again."""

    event_id: str
    event_type: str


class QuarantineHandlers:
    """Replay quarantined lines."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def replay(self, call: ReplayCall) -> Reply:
        """Send the event of a line in quarantine again."""
        line, key = call.body, call.header(b"idempotency-key")
        if key is None:
            return Reply(200, json.encode(await self.send(self.new_id(), call)))
        fingerprint = sha256_hex(json.encode(line))
        return await apply_once(self._services, call, key, fingerprint, _Replay(self, call))

    def new_id(self) -> Ulid:
        """An id for the event that records a replay."""
        return new_ulid(self._services.runtime)

    async def send(self, record_id: Ulid, call: ReplayCall) -> ReplayResult:
        """Append the event of a line, then the event that records the replay."""
        line, ingestion = call.body, self._services.ingestion
        event = await self._event(line, call.caller)
        try:
            kind = find_kind(event.event_type, event.event_version)
            domain = line.domain if kind.domain == ANY_DOMAIN else kind.domain
            await ingestion.append_again(domain, _as_sent(event), ALL_TYPES, event.caller)
        except Invalid as problem:
            raise Invalid(f"the event is still refused: {problem}") from problem
        await ingestion.append_event(
            line.domain, self._record(line, record_id, call.principal.name)
        )
        return ReplayResult(event_id=event.event_id, event_type=event.event_type)

    async def _event(self, line: QuarantineReference, caller: str) -> Envelope:
        """The stored event of a line; `Invalid` if the line is not an event."""
        if line.domain not in TIER2:
            raise Invalid(f"domain {line.domain[:40]!r} has no quarantine")
        query = _BODY.format(
            domain=line.domain, stream=parse_ulid(line.stream), segment=line.segment, line=line.line
        )
        rows = await self._services.engine.query(query, caller=caller)
        bodies = rows.column("body").to_pylist()
        if not bodies or bodies[0] is None:
            raise NotFound("no such line is in quarantine")
        try:
            return json.decode(bodies[0].encode(), Envelope)
        except Invalid as problem:
            raise Invalid(f"the line is no event, so it cannot be replayed: {problem}") from problem

    def _record(self, line: QuarantineReference, event_id: Ulid, actor: str) -> Envelope:
        """The event that records the replay of a line."""
        now = utc(self._services.runtime.clock.now_ms())
        payload = QuarantineReplayed(stream=line.stream, segment=line.segment, line=line.line)
        return Envelope(
            event_id=event_id,
            event_type=_REPLAYED.name,
            event_version=_REPLAYED.version,
            occurred_at=now,
            received_at=now,
            idempotency_key=event_id,
            source=Source(type="api"),
            payload=msgspec.Raw(json.encode(payload)),
            caller=actor,
        )


@dataclass(frozen=True)
class _Replay:
    """The work of one request under its key."""

    quarantine: QuarantineHandlers
    call: ReplayCall

    async def terms(self) -> ClaimTerms:
        return ClaimTerms(ids={_NOTE: self.quarantine.new_id()}, base=0)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:  # noqa: ARG002
        """None, so that a takeover sends the event again; it counts once."""
        return None

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        await hold.check()
        try:
            result = await self.quarantine.send(Ulid(claim.ids[_NOTE]), self.call)
        except (Invalid, NotFound) as problem:
            document = problem_of(problem)
            return Answer(status=document.status, body=msgspec.Raw(encode_problem(document)))
        return Answer(status=200, body=msgspec.Raw(json.encode(result)), has_landed=False)


def quarantine_route(on: QuarantineHandlers) -> AnyRoute:
    """The route of replays; quarantined lines are read by SQL."""
    example = {"domain": "executions", "stream": "01M7FVEX5ZQ4SN3QGY2E97DMKR", "segment": 3}
    return Route(
        "POST",
        REPLAY,
        Operation.REPLAY_QUARANTINED,
        on.replay,
        QueryParams,
        (ResponseSpec(200, "The event is durable again, and will be folded.", ReplayResult),),
        json_body(QuarantineReference, {**example, "line": 17}),
        problems=(404, 409),
        mutates=True,
        takes_key=True,
        has_etag=False,
    )


def _as_sent(event: Envelope) -> bytes:
    """The event as its client sent it, without what the server added."""
    fields = msgspec.structs.asdict(event)
    del fields["received_at"], fields["caller"]
    return json.encode({name: value for name, value in fields.items() if value is not None})
