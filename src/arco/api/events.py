"""The handler of events: appends a batch to the ledger, and answers for each line once it is durable.

A batch with some refused lines is a success that reports both; only a batch without any accepted line is
refused. Under an idempotency key the event ids follow from its claim: a request that is repeated after a
crash stores the same events, and the fold counts them once.
"""

from dataclasses import dataclass

import msgspec

from arco.access.authorization import Operation
from arco.api.context import answer_reply, apply_once
from arco.api.http.problem import ProblemDocument
from arco.api.http.reply import Reply
from arco.api.http.request import Call, QueryParams, media_type
from arco.api.http.route import AnyRoute, BodySpec, ResponseSpec, Route
from arco.api.metrics import Metrics
from arco.api.responses import ResponseModel
from arco.api.services import Services
from arco.core import json
from arco.core.errors import Invalid
from arco.core.hashing import sha256_hex
from arco.core.ids import Ulid, new_ulid
from arco.events.registry import KINDS
from arco.ledger.claim import Answer, Claim
from arco.ledger.envelope import Submission, TooManyRows
from arco.ledger.idempotency import ClaimHold, ClaimTerms
from arco.ledger.ingestion import IngestResult, split_array, split_lines

EVENTS = "/api/v1/events"
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")

_BATCH = "batch"


class RefusedLine(ResponseModel, frozen=True, kw_only=True):
    """A line that was not stored, counted from 1, and why; it would be refused again."""

    line: int
    reason: str


class DuplicateLine(ResponseModel, frozen=True, kw_only=True):
    """A line that was stored before, in this batch or lately, and not again."""

    line: int
    idempotency_key: str


class AppendResult(ResponseModel, frozen=True, kw_only=True):
    """What became of a batch. `event_ids` are those of the lines accepted, in their order."""

    accepted: int
    event_ids: tuple[str, ...]
    duplicates: tuple[DuplicateLine, ...]
    refused: tuple[RefusedLine, ...]


class AllRefused(ProblemDocument, frozen=True, kw_only=True):
    """A batch of which nothing was stored, and what is wrong with each line."""

    refused: tuple[RefusedLine, ...]


class EventHandlers:
    """Append events to the ledger."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def append(self, call: Call[QueryParams, bytes]) -> Reply:
        """Append events, and answer once they are durable."""
        lines, caller = _lines(call), call.principal.name
        key = call.header(b"idempotency-key")
        if key is None:
            return answer_reply(await self.take(lines, None, caller))
        batch = _Batch(self, lines, caller)
        return await apply_once(self._services, call, key, _fingerprint(lines), batch)

    async def take(self, lines: list[bytes], batch: Ulid | None, caller: str) -> Answer:
        """Store a batch, under the batch id of its claim if it has one."""
        try:
            result = await self._services.ingestion.ingest(lines, batch, caller)
        except TooManyRows as refused:
            return Answer(status=413, body=msgspec.Raw(json.encode(_too_many_rows(refused))))
        return self._answer(result)

    async def terms(self) -> ClaimTerms:
        """What a claim fixes: the batch id, from which the event ids follow."""
        return ClaimTerms(ids={_BATCH: new_ulid(self._services.runtime)}, base=0)

    def _answer(self, result: IngestResult) -> Answer:
        _count(self._services.metrics, result)
        if result.refused and not result.accepted and not result.duplicates:
            return Answer(status=422, body=msgspec.Raw(json.encode(_all_refused(result))))
        # A takeover does not search the ledger for the batch: only the outcome says that it was stored.
        return Answer(
            status=200, body=msgspec.Raw(json.encode(_document(result))), has_landed=False
        )


@dataclass(frozen=True)
class _Batch:
    """The work of one request under its key."""

    events: EventHandlers
    lines: list[bytes]
    caller: str

    async def terms(self) -> ClaimTerms:
        return await self.events.terms()

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:  # noqa: ARG002
        """None, so that a takeover appends again, with the same ids."""
        return None

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        await hold.check()
        return await self.events.take(self.lines, Ulid(claim.ids[_BATCH]), self.caller)


def events_route(on: EventHandlers, body_bytes: int) -> AnyRoute:
    """The route of events."""
    return Route(
        "POST",
        EVENTS,
        Operation.APPEND_EVENTS,
        on.append,
        QueryParams,
        (
            ResponseSpec(
                200, "What became of each line: what was accepted is durable.", AppendResult
            ),
        ),
        BodySpec(lambda raw: raw, (list[Submission], Submission), _example(), other_types=NDJSON),
        problems=(409, 422),
        mutates=True,
        takes_key=True,
        has_etag=False,
        body_bytes=body_bytes,
        accepts_gzip=True,
    )


def _lines(call: Call[QueryParams, bytes]) -> list[bytes]:
    """The events of a body: the lines of NDJSON, the elements of a JSON array, or one event."""
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
    """A hash of the batch, the same for NDJSON and for a JSON array of the same events."""
    return sha256_hex(b"\n".join(line.strip() for line in lines))


def _document(result: IngestResult) -> AppendResult:
    return AppendResult(
        accepted=len(result.accepted),
        event_ids=tuple(result.accepted),
        duplicates=tuple(
            DuplicateLine(line=each.line, idempotency_key=each.idempotency_key)
            for each in result.duplicates
        ),
        refused=_refused(result),
    )


def _refused(result: IngestResult) -> tuple[RefusedLine, ...]:
    return tuple(RefusedLine(line=each.line, reason=each.reason) for each in result.refused)


def _all_refused(result: IngestResult) -> AllRefused:
    first = result.refused[0]
    return AllRefused(
        type="urn:arco:problem:events_refused",
        title="No event was accepted",
        status=422,
        detail=f"nothing was stored; line {first.line}: {first.reason}",
        code="events_refused",
        next_step="Correct the events; `refused` has the reason for each line.",
        refused=_refused(result),
    )


def _too_many_rows(refused: TooManyRows) -> ProblemDocument:
    return ProblemDocument(
        type=f"urn:arco:problem:{refused.code}",
        title="The batch would become too many rows",
        status=413,
        detail=f"nothing was stored; {refused}",
        code=refused.code,
        next_step="Send the events in several requests, each with its own Idempotency-Key.",
    )


def _count(metrics: Metrics, result: IngestResult) -> None:
    for domain, count in result.by_domain.items():
        metrics.count_accepted_events(domain, count)
    if result.refused:
        metrics.count_refused_events(len(result.refused))
    if result.duplicates:
        metrics.count_duplicate_events(len(result.duplicates))


def _example() -> object:
    """Two events as a client sends them."""
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
