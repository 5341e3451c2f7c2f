"""One simulated API process of the Iceberg catalog, from the inbox to the answer.

Everything behind the inbox is the real code; only HTTP is left out. An answer is recorded at
the moment at which the server sends it, whether or not the client still waits for it.
"""

from dataclasses import dataclass

from arco.api.iceberg.errors import error_of
from arco.catalog.change import change, ensure_default
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import CompactorPort
from arco.catalog.ddl import CreateSchema
from arco.catalog.decision import WorkspaceRules
from arco.catalog.lease import Lease
from arco.catalog.model import TableFormat
from arco.catalog.pending_request import Caller
from arco.catalog.reader import SnapshotReader
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Corrupt,
    Invalid,
    KeyExpired,
    Unavailable,
    Unknown,
)
from arco.core.scope import Scope
from arco.core.tasks import AsyncEvent
from arco.fold.tier1 import DOMAIN
from arco.iceberg.drop import UndropWork
from arco.iceberg.files import TableFiles
from arco.iceberg.idempotency import run_once
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.location import Locations
from arco.iceberg.service import open_iceberg
from arco.iceberg.wire import CommitTransactionRequest, RegisterTableRequest, RenameRequest
from arco.ledger.idempotency import Idempotency
from arco.ledger.writer import LedgerWriter
from arco.storage.store import Store

from .catalog_api import UNDROP_FOR
from .iceberg_notes import IcebergNotes, Intent, Outcome, Reply
from .iceberg_operations import (
    CATALOG,
    NAMESPACE,
    Append,
    Both,
    Create,
    Drop,
    List,
    Load,
    Mark,
    Operation,
    Register,
    Rename,
    Undrop,
    identifier,
    read_facts,
)
from .objects import SimObjects
from .process import Incarnation
from .world import HOUR_MS, SECOND_MS

ROOT_URL = f"s3://sim/{Scope().prefix}"

_STREAM_LIFE_MS = round(2 * HOUR_MS)
_READS = (Load, List)


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


@dataclass(frozen=True)
class _Shown:
    """What an answer holds."""

    outcome: Outcome
    code: str = ""
    detail: str = ""
    location: str | None = None
    names: tuple[str, ...] = ()


class IcebergApi:
    """What one incarnation of an API process holds."""

    def __init__(
        self,
        incarnation: Incarnation,
        store: Store,
        port: CompactorPort,
        notes: IcebergNotes,
        objects: SimObjects,
        *,
        key_life_ms: int,
        janitor: Store | None = None,
    ) -> None:
        self._incarnation = incarnation
        self._notes = notes
        self._objects = objects
        self.committer = Committer(
            SnapshotReader(store),
            LedgerWriter(store, DOMAIN, life_ms=_STREAM_LIFE_MS),
            port,
            Lease(store, DOMAIN, holder=incarnation.name),
            WorkspaceRules(retention=UNDROP_FOR, routed_formats=frozenset({TableFormat.ICEBERG})),
        )
        self.iceberg = open_iceberg(
            self.committer,
            Idempotency(store, life_ms=key_life_ms),
            TableFiles(store, ROOT_URL, {}, janitor=janitor),
            Locations(ROOT_URL, ()),
        )

    async def begin(self) -> None:
        """Make the catalog and its one namespace, for as long as that takes."""
        while True:
            try:
                await ensure_default(self.committer)
                request = CreateSchema(catalog=CATALOG, name=NAMESPACE[0])
                await change(self.committer, request, "client:arco")
            except AlreadyExists:
                return
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
        shown = await self._carry_out(call)
        world = self._incarnation.world
        call.intent.replies.append(
            Reply(
                outcome=shown.outcome,
                sent=call.sent,
                answered=len(self._objects.log),
                sent_ms=call.sent_ms,
                answered_ms=world.now_ms,
                code=shown.code,
                detail=shown.detail,
                location=shown.location,
                names=shown.names,
            )
        )
        world.tally[shown.outcome.value] += 1
        kind = type(call.intent.operation).__name__.lower()
        world.tally[f"{kind} {shown.outcome.value}"] += 1
        detail = f"{shown.outcome.value} {shown.code} {shown.detail} {shown.location or ''}"
        world.note(self._incarnation.name, f"answers {call.intent.name} {detail}")
        call.replied.set()

    async def _carry_out(self, call: Call) -> _Shown:
        intent, clock = call.intent, self._incarnation.runtime.clock
        caller = Caller(
            actor=intent.actor,
            engine=None,
            key=intent.name if intent.keyed and not isinstance(intent.operation, _READS) else None,
            operation=type(intent.operation).__name__,
            arrived_ms=clock.elapsed_ms() - (self._incarnation.world.now_ms - call.sent_ms),
            update_source="iceberg_rest",
        )
        try:
            return await self._do(intent.operation, caller)
        except KeyExpired as expired:
            return _Shown(Outcome.EXPIRED, detail=str(expired))
        except ArcoError as problem:
            if not problem.has_public_message and not isinstance(problem, Invalid):
                return self._trouble(intent, problem)
            model = error_of(problem, "none")
            return _Shown(Outcome.REFUSED, f"{model.code} {model.type}", str(problem))

    async def _do(self, operation: Operation, caller: Caller) -> _Shown:
        iceberg = self.iceberg
        tables = iceberg.tables
        match operation:
            case Mark() | Append():
                return self._show(
                    operation.name,
                    await tables.commit(
                        CATALOG, NAMESPACE, operation.name, operation.request(), caller
                    ),
                )
            case Create(staged=None):
                made = await tables.create(CATALOG, NAMESPACE, operation.request(), caller)
                return self._show(operation.name, made)
            case Create():
                made = await tables.commit(
                    CATALOG, NAMESPACE, operation.name, operation.commit(), caller
                )
                return self._show(operation.name, made)
            case Register():
                request = RegisterTableRequest(
                    name=operation.name, metadata_location=operation.location
                )
                made = await tables.register(CATALOG, NAMESPACE, request, caller)
                return self._show(operation.name, made)
            case Load():
                return self._show(
                    operation.name, await tables.load(CATALOG, NAMESPACE, operation.name)
                )
            case List():
                names = await tables.page(CATALOG, NAMESPACE, after=None, limit=None)
                return _Shown(Outcome.DONE, names=tuple(names))
            case _:
                await self._do_silently(operation, caller)
                return _Shown(Outcome.DONE)

    async def _do_silently(self, operation: Both | Drop | Undrop | Rename, caller: Caller) -> None:
        iceberg = self.iceberg
        match operation:
            case Both():
                changes = tuple(
                    part.commit() if isinstance(part, Create) else part.request()
                    for part in operation.parts
                )
                request = CommitTransactionRequest(table_changes=changes)
                await iceberg.transactions.commit(CATALOG, request, caller)
            case Drop():
                await iceberg.tables.drop(
                    CATALOG, NAMESPACE, operation.name, caller, purge=operation.purge
                )
            case Undrop():
                work = UndropWork(iceberg.context, operation.table_id, None, caller)
                await run_once(iceberg.context, caller, work, [operation.table_id])
            case Rename():
                source, target = identifier(operation.source), identifier(operation.target)
                moved = RenameRequest(source=source, destination=target)
                await iceberg.tables.rename(CATALOG, moved, caller)

    def _show(self, name: str, loaded: LoadedMetadata) -> _Shown:
        if loaded.location is None:
            self._notes.complaints.append(f"{name} was shown without a place")
            return _Shown(Outcome.UNKNOWN)
        self._notes.heard(name, read_facts(loaded.raw), loaded.location)
        return _Shown(Outcome.DONE, location=loaded.location)

    def _trouble(self, intent: Intent, problem: ArcoError) -> _Shown:
        """What is no verdict; only three errors may leave a server as that."""
        for outcome, kind in (
            (Outcome.UNAVAILABLE, Unavailable),
            (Outcome.UNKNOWN, Unknown),
            (Outcome.CORRUPT, Corrupt),
        ):
            if isinstance(problem, kind):
                return _Shown(outcome, detail=str(problem))
        self._notes.complaints.append(
            f"{intent.name} was answered {problem!r}, which is no verdict"
        )
        return _Shown(Outcome.UNKNOWN, detail=repr(problem))
