"""The handler of events: appends what is sent, and answers once it is durable, line by line.

A line that is refused costs nothing but itself, so a batch of good and bad ones is a success that tells of
both; only a batch without any good line is refused as a whole. The ids under a key follow from its claim:
whoever repeats the request after a crash stores the same events, and the fold takes them for one.
"""

from dataclasses import dataclass

import msgspec

from arco.access.authorization import Operation
from arco.api.body import media_type
from arco.api.metrics import Metrics
from arco.api.problem import CONTENT_TYPE, Problem
from arco.api.query_params import Query
from arco.api.route import JSON, Answered, AnyRoute, Call, Reply, Route, Sent
from arco.api.services import Services
from arco.api.wire import Document
from arco.core import json
from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex
from arco.core.ids import Ulid, new_ulid
from arco.events.registry import KINDS
from arco.ledger.claim import Answer, Claim, key_path
from arco.ledger.door import split_array, split_lines
from arco.ledger.envelope import Submission, TooManyRows
from arco.ledger.idempotency import Hold, Terms
from arco.ledger.intake import Taken

EVENTS = "/api/v1/events"
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")

_BATCH = "batch"


class RefusedLine(Document, frozen=True, kw_only=True):
    """A line that was not stored, counted from 1, and why; it would be refused again."""

    line: int
    reason: str


class DuplicateLine(Document, frozen=True, kw_only=True):
    """A line that was stored before, in this batch or lately, and not again."""

    line: int
    idempotency_key: str


class Appended(Document, frozen=True, kw_only=True):
    """What became of a batch. `event_ids` are those of the lines accepted, in their order."""

    accepted: int
    event_ids: tuple[str, ...]
    duplicates: tuple[DuplicateLine, ...]
    refused: tuple[RefusedLine, ...]


class AllRefused(Problem, frozen=True, kw_only=True):
    """A batch of which nothing was stored, and what is wrong with each line."""

    refused: tuple[RefusedLine, ...]


class Events:
    """Appends events to the ledger."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def append(self, call: Call[Query, bytes]) -> Reply:
        """Append events, and answer once they are durable."""
        services = self._services
        lines = _lines(call)
        key = call.header(b"idempotency-key")
        if key is None:
            return _reply(await self.take(lines, None, call.principal.name))
        path = key_path(
            services.scope,
            principal=call.principal.name,
            api="v1",
            operation=call.operation.value,
            key=key,
        )
        answer = await services.idempotency.once(
            path,
            _fingerprint(lines),
            _Batch(self, lines, call.principal.name),
            arrived_ms=call.arrived_ms,
        )
        return _reply(answer)

    async def take(self, lines: list[bytes], batch: Ulid | None, caller: str) -> Answer:
        """Store a batch, under the id that its claim has fixed if it has one."""
        try:
            taken = await self._services.intake.take(lines, batch, caller)
        except TooManyRows as refused:
            return Answer(status=413, body=msgspec.Raw(json.encode(_too_many_rows(refused))))
        return self._told(taken)

    async def terms(self) -> Terms:
        """What a claim fixes: the id that those of all events follow from."""
        return Terms(ids={_BATCH: new_ulid(self._services.runtime)}, base=0)

    def _told(self, taken: Taken) -> Answer:
        _count(self._services.metrics, taken)
        if taken.refused and not taken.accepted and not taken.duplicates:
            return Answer(status=422, body=msgspec.Raw(json.encode(_all_refused(taken))))
        # Nobody looks for the events of a batch in the ledger: only the outcome says that it was stored.
        return Answer(status=200, body=msgspec.Raw(json.encode(_document(taken))), has_landed=False)


@dataclass(frozen=True)
class _Batch:
    """The work of one request under its key."""

    events: Events
    lines: list[bytes]
    caller: str

    async def terms(self) -> Terms:
        return await self.events.terms()

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:  # noqa: ARG002
        """Nothing to be found: a takeover appends again, with the same ids."""
        return None

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        await hold.check()
        return await self.events.take(self.lines, Ulid(claim.ids[_BATCH]), self.caller)


def events_route(on: Events, body_bytes: int) -> AnyRoute:
    """The one route of events."""
    return Route(
        "POST",
        EVENTS,
        Operation.APPEND_EVENTS,
        "Append events, and answer once they are durable.",
        on.append,
        Query,
        (Answered(200, "What became of each line: what was accepted is durable.", Appended),),
        Sent(lambda raw: raw, (list[Submission], Submission), _example(), also=NDJSON),
        problems=(409, 422),
        mutates=True,
        keyed=True,
        tagged=False,
        body_bytes=body_bytes,
        inflates=True,
    )


def _lines(call: Call[Query, bytes]) -> list[bytes]:
    """The events of a body: of NDJSON its lines, of JSON an array's elements, or the one event."""
    body = call.body
    if media_type(call.headers.get(b"content-type", b"")) in NDJSON:
        return split_lines(body)
    first = body.lstrip()[:1]
    if first == b"{":
        return [body]
    if first != b"[":
        raise Invalid("a body is one event, an array of events, or lines of NDJSON")
    return split_array(body)


def _fingerprint(lines: list[bytes]) -> str:
    """What tells one batch from another; the same for lines and for an array of the same texts."""
    return sha256_hex(b"\n".join(line.strip() for line in lines))


def _document(taken: Taken) -> Appended:
    return Appended(
        accepted=len(taken.accepted),
        event_ids=tuple(taken.accepted),
        duplicates=tuple(
            DuplicateLine(line=each.line, idempotency_key=each.idempotency_key)
            for each in taken.duplicates
        ),
        refused=_refused(taken),
    )


def _refused(taken: Taken) -> tuple[RefusedLine, ...]:
    return tuple(RefusedLine(line=each.line, reason=each.reason) for each in taken.refused)


def _all_refused(taken: Taken) -> AllRefused:
    first = taken.refused[0]
    return AllRefused(
        type="urn:arco:problem:events_refused",
        title="No event was accepted",
        status=422,
        detail=f"nothing was stored; line {first.line}: {first.reason}",
        code="events_refused",
        next_step="Correct the events; `refused` has the reason for each line.",
        refused=_refused(taken),
    )


def _too_many_rows(refused: TooManyRows) -> Problem:
    return Problem(
        type=f"urn:arco:problem:{refused.code}",
        title="The batch would become too many rows",
        status=413,
        detail=f"nothing was stored; {refused}",
        code=refused.code,
        next_step="Send the events in several requests, each with its own Idempotency-Key.",
    )


def _count(metrics: Metrics, taken: Taken) -> None:
    for domain, count in taken.by_domain.items():
        metrics.events_taken(domain, count)
    if taken.refused:
        metrics.events_refused(len(taken.refused))
    if taken.duplicates:
        metrics.events_duplicate(len(taken.duplicates))


def _example() -> object:
    """Two events, as somebody would send them."""
    payloads = {kind.name: kind.example for kind in KINDS}
    return [
        {
            "event_type": name,
            "event_version": 1,
            "occurred_at": "2026-05-01T10:00:00Z",
            "source": {"type": "orchestrator"},
            "idempotency_key": key,
            "payload": payloads[name],
        }
        for name, key in (("execution_started", "start:run-7"), ("task_completed", "done:load-1"))
    ]


def _reply(answer: Answer) -> Reply:
    return Reply(answer.status, bytes(answer.body), JSON if answer.succeeded else CONTENT_TYPE)
