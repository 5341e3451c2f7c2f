"""The handler of replays: sends the event of a line in quarantine anew, and notes that it was.

The event keeps its id and its key, so a replay that is repeated, or of an event that was folded after all,
changes nothing. What the door refuses still stays in quarantine, and the sender is told why.
"""

from dataclasses import dataclass

import msgspec

from arco.access.authorization import Operation
from arco.api.problem import CONTENT_TYPE, encode_problem, problem_of
from arco.api.query_params import Query
from arco.api.route import JSON, Answered, AnyRoute, Call, Reply, Route, sent
from arco.api.services import Services
from arco.api.wire import Document
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Invalid, NotFound
from arco.core.hashing import sha256_hex
from arco.core.ids import Ulid, new_ulid, parse_ulid
from arco.events.quarantine import KINDS, QuarantineReplayed
from arco.events.registry import ALL_TYPES, ANY_DOMAIN, find_kind
from arco.fold.tier2 import TIER2
from arco.ledger.claim import Answer, Claim, key_path
from arco.ledger.envelope import Count, Envelope, Source
from arco.ledger.idempotency import Hold, Terms

REPLAY = "/api/v1/quarantine/replay"

(_REPLAYED,) = KINDS
_NOTE = "note"

_BODY = """SELECT body FROM system.quarantine
WHERE domain = '{domain}' AND stream = '{stream}' AND segment = {segment} AND line = {line}"""


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of the quarantine, as `system.quarantine` names it."""

    domain: str
    stream: str
    segment: Count
    line: Count


class Replayed(Document, frozen=True, kw_only=True):
    """The event that was sent anew."""

    event_id: str
    event_type: str


class Quarantine:
    """Replays lines."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def replay(self, call: Call[Query, Line]) -> Reply:
        """Send the event of a line in quarantine anew."""
        services, line = self._services, call.body
        key = call.header(b"idempotency-key")
        if key is None:
            return Reply(200, json.encode(await self.send(line, new_ulid(services.runtime))))
        path = key_path(
            services.scope,
            principal=call.principal.name,
            api="v1",
            operation=call.operation.value,
            key=key,
        )
        answer = await services.idempotency.once(
            path, sha256_hex(json.encode(line)), _Replay(self, line), arrived_ms=call.arrived_ms
        )
        return Reply(answer.status, bytes(answer.body), JSON if answer.succeeded else CONTENT_TYPE)

    def new_id(self) -> Ulid:
        """An id for the note that a line was replayed."""
        return new_ulid(self._services.runtime)

    async def send(self, line: Line, note_id: Ulid) -> Replayed:
        """Append the event of a line, then the note that it was."""
        event, intake = await self._event(line), self._services.intake
        try:
            kind = find_kind(event.event_type, event.event_version)
            domain = line.domain if kind.domain == ANY_DOMAIN else kind.domain
            await intake.repeat(domain, _as_sent(event), ALL_TYPES, event.caller)
        except Invalid as problem:
            raise Invalid(f"the event is still refused: {problem}") from problem
        await intake.tell(line.domain, self._note(line, note_id))
        return Replayed(event_id=event.event_id, event_type=event.event_type)

    async def _event(self, line: Line) -> Envelope:
        """The event as it was stored; `Invalid` if it is none."""
        if line.domain not in TIER2:
            raise Invalid(f"domain {line.domain[:40]!r} has no quarantine")
        query = _BODY.format(
            domain=line.domain,
            stream=parse_ulid(line.stream),
            segment=line.segment,
            line=line.line,
        )
        found = (await self._services.engine.query(query)).column("body").to_pylist()
        if not found or found[0] is None:
            raise NotFound("no such line is in quarantine")
        try:
            return json.decode(found[0].encode(), Envelope)
        except Invalid as problem:
            raise Invalid(f"the line is no event, so it cannot be replayed: {problem}") from problem

    def _note(self, line: Line, event_id: Ulid) -> Envelope:
        """The event that says so."""
        now = utc(self._services.runtime.clock.now_ms())
        said = QuarantineReplayed(stream=line.stream, segment=line.segment, line=line.line)
        return Envelope(
            event_id=event_id,
            event_type=_REPLAYED.name,
            event_version=_REPLAYED.version,
            occurred_at=now,
            received_at=now,
            idempotency_key=event_id,
            source=Source(type="api"),
            payload=msgspec.Raw(json.encode(said)),
        )


@dataclass(frozen=True)
class _Replay:
    """The work of one request under its key."""

    quarantine: Quarantine
    line: Line

    async def terms(self) -> Terms:
        return Terms(ids={_NOTE: self.quarantine.new_id()}, base=0)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:  # noqa: ARG002
        """Nothing to be found: a takeover sends the event again, which counts once."""
        return None

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        await hold.check()
        try:
            sent_anew = await self.quarantine.send(self.line, Ulid(claim.ids[_NOTE]))
        except (Invalid, NotFound) as problem:
            told = problem_of(problem)
            return Answer(status=told.status, body=msgspec.Raw(encode_problem(told)))
        return Answer(status=200, body=msgspec.Raw(json.encode(sent_anew)), has_landed=False)


def quarantine_route(on: Quarantine) -> AnyRoute:
    """The one route of the quarantine; SQL reads it."""
    example = {"domain": "executions", "stream": "01M7FVEX5ZQ4SN3QGY2E97DMKR", "segment": 3}
    return Route(
        "POST",
        REPLAY,
        Operation.REPLAY_QUARANTINED,
        str(Quarantine.replay.__doc__),
        on.replay,
        Query,
        (Answered(200, "The event is durable again, and will be folded.", Replayed),),
        sent(Line, {**example, "line": 17}),
        problems=(404, 409),
        mutates=True,
        keyed=True,
        tagged=False,
    )


def _as_sent(event: Envelope) -> bytes:
    """The event as its sender would send it: when it was received and from whom is ours to say."""
    fields = msgspec.structs.asdict(event)
    del fields["received_at"], fields["caller"]
    return json.encode({name: value for name, value in fields.items() if value is not None})
