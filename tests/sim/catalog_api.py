"""One simulated API process of the catalog, from the inbox to the answer.

Everything behind the inbox is the real code; only HTTP is left out. An answer is recorded at
the moment at which the server sends it, whether or not the client still waits for it.
"""

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from arco.catalog.change import ChangeWork, ClaimId, change, ensure_default
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import CompactorPort
from arco.catalog.decision import WorkspaceRules, id_of
from arco.catalog.lease import Lease
from arco.catalog.model import to_columns
from arco.catalog.pending_request import ChangeResult
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Corrupt,
    Invalid,
    NotFound,
    Unavailable,
    Unknown,
)
from arco.core.hashing import sha256_hex
from arco.core.ids import new_object_id
from arco.core.scope import Scope
from arco.core.tasks import AsyncEvent
from arco.fold.tier1 import DOMAIN
from arco.ledger.claim import Answer, key_path
from arco.ledger.idempotency import Idempotency
from arco.ledger.writer import LedgerWriter
from arco.storage.store import Store

from .catalog_notes import CatalogNotes, Intent, Outcome, Reply
from .objects import SimObjects
from .process import Incarnation
from .world import HOUR_MS, SECOND_MS

UNDROP_FOR = timedelta(hours=1)

_STREAM_LIFE_MS = round(2 * HOUR_MS)  # short, so that servers sleep past it and meet a seal

_STATUS = {"invalid": 400, "not_found": 404, "precondition_failed": 412}
_VERDICTS = (Invalid, NotFound, AlreadyExists, Conflict)


@dataclass
class Call:
    """An intent on its way to a server."""

    intent: Intent
    replied: AsyncEvent
    sent: int  # position of the log
    sent_ms: float


@dataclass
class Inbox:
    """Where a living server takes calls."""

    calls: list[Call]
    rung: AsyncEvent


class Renderer:
    """Answers as documents, kept under a key."""

    def done(self, done: ChangeResult) -> Answer:
        return Answer(status=201, body=msgspec.Raw(render(done)))

    def refused(self, problem: ArcoError) -> Answer:
        body = json.encode({"code": problem.code})
        return Answer(status=_STATUS.get(problem.code, 409), body=msgspec.Raw(body))


def render(done: ChangeResult) -> bytes:
    """The answer to a user whose request succeeded."""
    return json.encode(
        {
            "number": done.number,
            "commit_ulid": done.commit_ulid,
            "operation": done.operation,
            "id": id_of(done.object.row),
            "object": to_columns(done.object.row),
            "commit": done.object.commit,
            "columns": [to_columns(column) for column in done.columns],
        }
    )


class Api:
    """What one incarnation of an API process holds."""

    def __init__(
        self,
        incarnation: Incarnation,
        store: Store,
        port: CompactorPort,
        notes: CatalogNotes,
        objects: SimObjects,
        *,
        key_life_ms: int,
    ) -> None:
        self._incarnation = incarnation
        self._notes = notes
        self._objects = objects
        self.reader = SnapshotReader(store)
        self.committer = Committer(
            self.reader,
            LedgerWriter(store, DOMAIN, life_ms=_STREAM_LIFE_MS),
            port,
            Lease(store, DOMAIN, holder=incarnation.name),
            WorkspaceRules(retention=UNDROP_FOR),
        )
        self.keys = Idempotency(store, life_ms=key_life_ms)

    async def begin(self) -> None:
        """Make the first catalog, for as long as that takes."""
        while True:
            try:
                await ensure_default(self.committer)
            except (Unavailable, Unknown):
                await self._incarnation.runtime.clock.sleep(10 * SECOND_MS)
            else:
                return

    async def serve(self, inbox: Inbox) -> None:
        """Answer calls for ever, many at once."""
        while True:
            await inbox.rung.wait()
            inbox.rung.clear()
            calls, inbox.calls = inbox.calls, []
            for call in calls:
                self._incarnation.runtime.tasks.spawn(self.answer(call))

    async def answer(self, call: Call) -> None:
        """Carry an intent out and record the answer."""
        wall_ms = self._incarnation.runtime.clock.now_ms()
        outcome, detail, code, body = await (
            self._keyed(call) if call.intent.keyed else self._plain(call.intent)
        )
        number = -1
        if outcome is Outcome.DONE:
            document = msgspec.json.decode(body)
            number = document["number"]
            self._notes.heard(call.intent.request, document["id"], number)
        world = self._incarnation.world
        call.intent.replies.append(
            Reply(
                outcome=outcome,
                sent=call.sent,
                answered=len(self._objects.log),
                sent_ms=call.sent_ms,
                answered_ms=world.now_ms,
                walls=(wall_ms, self._incarnation.runtime.clock.now_ms()),
                detail=detail,
                code=code,
                number=number,
                body=body,
            )
        )
        world.tally[outcome.value] += 1
        world.note(
            self._incarnation.name,
            f"answers {call.intent.name} {outcome.value} {code} {number} {detail}",
        )
        call.replied.set()

    async def _plain(self, intent: Intent) -> tuple[Outcome, str, str, bytes]:
        try:
            done = await change(self.committer, intent.request, intent.actor)
        except _VERDICTS as refused:
            return Outcome.REFUSED, str(refused), refused.code, b""
        except ArcoError as problem:
            return self._trouble(intent, problem)
        return Outcome.DONE, "", "", render(done)

    async def _keyed(self, call: Call) -> tuple[Outcome, str, str, bytes]:
        intent, runtime = call.intent, self._incarnation.runtime
        path = key_path(
            Scope(), principal=intent.actor, api="sim", operation="change", key=intent.name
        )
        arrived_ms = runtime.clock.elapsed_ms() - (self._incarnation.world.now_ms - call.sent_ms)
        try:
            ids: dict[str, str] = {ClaimId.OBJECT: new_object_id(runtime)}
            answer = await self.keys.once(
                path,
                sha256_hex(json.encode(intent.request)),
                ChangeWork(self.committer, lambda _: intent.request, intent.actor, Renderer(), ids),
                arrived_ms=arrived_ms,
            )
        except Invalid as expired:
            return Outcome.EXPIRED, str(expired), "", b""
        except ArcoError as problem:
            return self._trouble(intent, problem)
        body = bytes(answer.body)
        if answer.succeeded:
            return Outcome.DONE, "", "", body
        return Outcome.REFUSED, "", msgspec.json.decode(body)["code"], body

    def _trouble(self, intent: Intent, problem: ArcoError) -> tuple[Outcome, str, str, bytes]:
        """What is no verdict; only three errors may leave a server as that."""
        for outcome, kind in (
            (Outcome.UNAVAILABLE, Unavailable),
            (Outcome.UNKNOWN, Unknown),
            (Outcome.CORRUPT, Corrupt),
        ):
            if isinstance(problem, kind):
                return outcome, str(problem), "", b""
        self._notes.complaints.append(
            f"{intent.name} was answered {problem!r}, which is no verdict"
        )
        return Outcome.UNKNOWN, repr(problem), "", b""
