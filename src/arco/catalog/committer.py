"""The committer: from requests to a published commit, many requests at a time (P21 to P25).

Requests that arrive while a commit is in flight are decided against each other and go into the next one.
A pass reads the head, looks whether requests have landed already, decides each, appends the decided rows
to the ledger and has the compactor publish them. Only what is raised while deciding is a refusal; trouble
on the way to a manifest is never one, because the commit may have landed (law 9).

Round trips one after the other, when the head is known: the head, the append, the files beside the commit
record, the manifest: 4. With an idempotency key its claim comes first; its check runs beside the append.
"""

from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from arco.catalog.compactor_port import CompactorPort, PublishedCommit, SyncCompact
from arco.catalog.decide import decide
from arco.catalog.decision import Decision, DecisionContext, DecisionView, WorkspaceRules
from arco.catalog.event import make_event
from arco.catalog.lease import Lease
from arco.catalog.model import TABLE_OF, AnyRow, CommittedRow
from arco.catalog.pending_request import (
    ChangeResult,
    PendingRequest,
    fail_all,
    read_change_result,
    unanswered,
)
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.clock import utc
from arco.core.errors import (
    ArcoError,
    Conflict,
    Corrupt,
    Denied,
    Fenced,
    Invalid,
    NotFound,
    StoreFull,
    Unavailable,
    Unknown,
)
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.ledger.envelope import Envelope
from arco.ledger.segment import LARGEST_BYTES, segment_key
from arco.ledger.writer import Writer
from arco.storage.link import read_entry

_MOST_TIMES = 6
_PAUSE_MS = 10


class StallDetector:
    """Notices passes that lead nowhere: nobody else has won, and yet nothing was published.

    A compactor that serves another store, or sees an older one, refuses for ever. Each pass leaves a
    segment behind, so after a few of them, each later than the one before, the callers are told.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._times = 0

    async def refuse(self, runtime: Runtime, number: int, asks: int) -> None:
        """`Unavailable` if this pass begins where several before it began."""
        self._times = self._times + 1 if (number, asks) == self._last else 0
        self._last = (number, asks)
        if self._times > _MOST_TIMES:
            raise Unavailable("the compactor publishes nothing: does it serve this very store?")
        if self._times:
            await runtime.clock.sleep(_PAUSE_MS * self._times * (1 + runtime.rng.random()))


_MOST_ASKS = 512
_LONG_WAIT_MS = 1_000  # longer than the way to any store: somebody else had the lease
_GROUP_BYTES = 4 * 1024 * 1024
_LARGEST_CHANGE_BYTES = LARGEST_BYTES - 64 * 1024  # the envelope around it takes some, too
# Then a caller is told what is known; it is below the time that a server gives a request.
_LONGEST_MS = 25_000

# Raised while deciding, these are about the store or the caller's rights, not about the request.
_NO_VERDICT = (Unavailable, Unknown, Corrupt, Denied)


@dataclass
class _Pass:
    """One attempt to publish a group."""

    snapshot: Snapshot
    decided: list[tuple[PendingRequest, Decision, Envelope]] = field(default_factory=list)
    held_back: list[tuple[PendingRequest, ArcoError]] = field(
        default_factory=list
    )  # refusals that must wait
    size_bytes: int = 0

    def asks(self) -> list[PendingRequest]:
        """Everybody who took part."""
        return [each[0] for each in self.decided] + [each[0] for each in self.held_back]

    def refuse_held_back(self) -> None:
        """Give the refusals that rested on neighbours, now that those are published (P25)."""
        for ask, verdict in self.held_back:
            ask.refuse(verdict)


class Committer:
    """One process's way to change a domain."""

    def __init__(
        self,
        reader: SnapshotReader,
        writer: Writer,
        compactor: CompactorPort,
        lease: Lease,
        rules: WorkspaceRules | None = None,
    ) -> None:
        self.reader = reader
        self._writer = writer
        self._compactor = compactor
        self._lease = lease
        self._rules = rules or WorkspaceRules()
        self._runtime = reader.store.runtime
        self._queue: deque[PendingRequest] = deque()
        self._pump: Task[None] | None = None
        self._closed = False

    async def submit(self, ask: PendingRequest) -> ChangeResult:
        """Carry a request out, in a group with others; a refusal is raised."""
        if self._closed:
            raise Unavailable("the server is stopping; retry elsewhere")
        self._queue.append(ask)
        if self._pump is None or self._pump.done():
            self._pump = self._runtime.tasks.spawn(self._run())
        await ask.done.wait()
        if ask.answer is None:
            raise ask.problem or Unknown("the request ended without an answer")
        return ask.answer

    async def prepare(self) -> None:
        """Take the lease before anybody asks: after a crash the dead holder's has to run out first."""
        try:
            await self._lease.hold()
        except ArcoError:
            return  # whoever asks will wait for it, and be told
        if self._pump is None or self._pump.done():
            self._lease.idle()

    async def close(self) -> None:
        """Take no more, finish what was taken, give the lease back and seal the stream."""
        self._closed = True
        if self._pump is not None:
            await self._pump.wait()
        await self._lease.close()
        await self._writer.close()
        await self.reader.chain.close()

    async def _run(self) -> None:
        while self._queue:
            await self._runtime.tasks.turn()  # those released together share a group
            group = [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_ASKS))]
            try:
                await self._settle(group)
            except Exception as problem:
                for ask in unanswered(group):
                    ask.fail(problem)
            if not self._queue:
                self._lease.idle()

    async def _settle(self, group: list[PendingRequest]) -> None:
        """Repeat passes until every request of the group has its answer."""
        stuck = StallDetector()
        while asks := self._in_time(unanswered(group)):
            try:
                token, snapshot = await self._start(asks)
                await stuck.refuse(self._runtime, snapshot.number, len(asks))
                asks = await self._drop_landed(asks, snapshot)
            except ArcoError as problem:  # nothing was sent in this pass, and nothing is left over
                fail_all(asks, problem)
                return
            attempt = await self._decide(asks, snapshot)
            if attempt.decided:
                await self._try(attempt, token)

    async def _try(self, attempt: _Pass, token: int) -> None:
        """Publish what was decided. Whoever has no answer after this is decided again."""
        try:
            await self._publish(attempt, token)
        except Conflict:
            return  # rows have changed, or a neighbour was taken over
        except Fenced:
            self._lease.lost()
        except Unavailable as problem:
            fail_all(unanswered(attempt.asks()), problem)
        except Exception as problem:  # whatever it is: the commit may have landed (law 9)
            await self._resolve(attempt, problem)

    async def _start(self, asks: list[PendingRequest]) -> tuple[int, Snapshot]:
        """The token and the head to work with.

        A change that comes alone uses our last token again, unless one was published with a newer one. A
        takeover does not: what was sent for the request before may wait somewhere, and a refusal can rest
        on the time. A new epoch stops it.
        """
        is_takeover = any(ask.hold is not None and ask.hold.takes_over for ask in asks)
        token = None if is_takeover else self._lease.reuse()
        if token is not None:
            snapshot = await self.reader.head()
            if snapshot.manifest is None or snapshot.manifest.fencing_token <= token:
                return token, snapshot
            self._lease.lost()
        return await self._hold()

    async def _hold(self) -> tuple[int, Snapshot]:
        """The lease and the head, asked for side by side: the lease is politeness (P28)."""
        asked = self._runtime.clock.elapsed_ms()
        held, snapshot = await self._runtime.tasks.gather(
            cast("Coroutine[Any, Any, int | Snapshot]", self._lease.hold()),
            cast("Coroutine[Any, Any, int | Snapshot]", self.reader.head()),
        )
        if self._runtime.clock.elapsed_ms() - asked > _LONG_WAIT_MS:
            snapshot = await self.reader.head()  # whoever had the lease has published meanwhile
        return cast("int", held), cast("Snapshot", snapshot)

    def _in_time(self, asks: list[PendingRequest]) -> list[PendingRequest]:
        now = self._runtime.clock.elapsed_ms()
        for ask in asks:
            if now - ask.asked_ms > _LONGEST_MS:
                ask.fail(Unavailable("too many others are changing the catalog; retry"))
        return unanswered(asks)

    async def _drop_landed(
        self, asks: list[PendingRequest], snapshot: Snapshot
    ) -> list[PendingRequest]:
        """Answer what has landed already; before deciding again, everybody must look (P11, P23)."""
        looks: dict[int, dict[str, int]] = {}
        for ask in asks:
            base = snapshot.number if ask.base is None else ask.base
            try:
                if base not in looks:
                    looks[base] = await self.reader.requests_since(base, snapshot)
                if ask.request_id in looks[base]:
                    number = looks[base][ask.request_id]
                    ask.succeed(await read_change_result(self.reader, ask.request_id, number))
                ask.base = snapshot.number
            except NotFound as collected:
                ask.fail(
                    _unknown(collected, "what would show whether this has landed was collected")
                )
            except ArcoError as unseen:
                ask.fail(_unknown(unseen))
        return unanswered(asks)

    async def _decide(self, asks: list[PendingRequest], snapshot: Snapshot) -> _Pass:
        """Decide each in turn, seeing those before it; one bad request fails alone (P25)."""
        attempt, view = _Pass(snapshot), DecisionView(snapshot, snapshot.number + 1)
        at = utc(self._runtime.clock.now_ms())
        for ask in asks:
            view.begin()
            context = DecisionContext(ask.actor, at, ask.new_id, self._rules)
            try:
                decision = await decide(view, ask.request, context)
                event = _event(self._runtime, ask, decision)
            except _NO_VERDICT as problem:
                ask.fail(problem)
                continue
            except ArcoError as verdict:
                if view.met_neighbours:
                    attempt.held_back.append((ask, verdict))
                else:
                    ask.refuse(verdict)
                continue
            except Exception as problem:  # a fault of ours, and no reason to fail the others
                ask.fail(problem)
                continue
            attempt.size_bytes += len(event.payload)
            # Each row once in a commit: else nobody could tell later what the first of two had made of it.
            if view.holds(decision.rows) or (attempt.decided and attempt.size_bytes > _GROUP_BYTES):
                break  # it goes into the next pass, with all that come after it: they keep their order
            attempt.decided.append((ask, decision, event))
            view.add(decision.rows)
        return attempt

    async def _publish(self, attempt: _Pass, token: int) -> None:
        events = [event for _, _, event in attempt.decided]
        paths = await self._append(attempt, events)
        call = SyncCompact(
            domain=self.reader.domain,
            event_paths=tuple(paths),
            events=tuple(events),
            commit_ulid=new_ulid(self._runtime),
            fencing_token=token,
            base_manifest=attempt.snapshot.number,
            base_sha256=attempt.snapshot.sha256 or None,
            tenant=self.reader.store.scope.tenant,
            workspace=self.reader.store.scope.workspace,
        )
        try:
            committed = await self._compactor.sync_compact(call)
        except Invalid as refused:  # the compactor does not understand us, and has done nothing
            raise Unavailable("the compactor cannot fold this change; is it older?") from refused
        except Denied as refused:
            raise Unavailable("the compactor does not serve this workspace") from refused
        self._learn(committed, attempt)
        for ask, decision, _ in attempt.decided:
            ask.succeed(_done(decision, committed.manifest_version, committed.commit_ulid))
        attempt.refuse_held_back()

    async def _append(self, attempt: _Pass, events: list[Envelope]) -> list[str]:
        """Where the events are stored, once nobody of the group was taken over (P11)."""
        held = [ask for ask, _, _ in attempt.decided if ask.hold is not None]
        checking = self._runtime.tasks.spawn(self._check(held))
        try:
            receipt = await self._writer.append(events)
        except StoreFull:
            raise
        except ArcoError as problem:
            # A Tier-1 event counts only once a commit names it, so this is a definite no.
            if isinstance(problem, Corrupt):
                raise Unavailable("the ledger is damaged; `arco verify` names what is") from problem
            raise Unavailable("the change could not be stored; retry") from problem
        finally:
            all_ours = await checking.wait()
        if not all_ours:
            raise Conflict("a neighbour was taken over: the rest is decided again")
        path = segment_key(self.reader.domain, receipt.stream, receipt.seq)
        return [f"{path}#{receipt.first_line + offset}" for offset in range(len(events))]

    async def _check(self, held: list[PendingRequest]) -> bool:
        """Whether all these requests are still ours to carry out."""
        await self._runtime.tasks.gather(*(_check_hold(ask) for ask in held))
        return not any(ask.done.is_set() for ask in held)

    def _learn(self, committed: PublishedCommit, attempt: _Pass) -> None:
        """Remember what was published, so that the next pass need not read it."""
        if committed.manifest is None:
            return
        number, base = committed.manifest_version, attempt.snapshot
        entry = read_entry(committed.manifest.encode(), number, self.reader.chain.path)
        if number == base.number + 1 and (entry.link.parent_sha256 or "") != base.sha256:
            raise Unknown("the compactor has published on another chain than ours")
        self.reader.learn(entry, _by_table(attempt))

    async def _resolve(self, attempt: _Pass, problem: Exception) -> None:
        """Find out what became of a commit whose answer was lost, or say that it is unknown (P23)."""
        asks = [ask for ask, _, _ in attempt.decided]
        try:
            await self._drop_landed(asks, await self.reader.head())
        except ArcoError as unseen:
            problem = unseen
        if not unanswered(asks):
            return  # it has landed, so those who were held back are decided again
        fail_all(unanswered(asks), _unknown(problem))
        fail_all(unanswered(attempt.asks()), Unavailable("the catalog could not be changed; retry"))


async def _check_hold(ask: PendingRequest) -> None:
    try:
        if ask.hold is not None:
            await ask.hold.check()
    except ArcoError as taken:
        ask.fail(taken)


def _event(runtime: Runtime, ask: PendingRequest, decision: Decision) -> Envelope:
    event = make_event(runtime, decision, request_id=ask.request_id, actor=ask.actor)
    if len(event.payload) > _LARGEST_CHANGE_BYTES:
        raise Invalid(f"a change has at most {_LARGEST_CHANGE_BYTES} bytes; make it in parts")
    return event


def _unknown(problem: Exception, why: str = "") -> ArcoError:
    if isinstance(problem, Unknown):
        return problem
    unknown = Unknown(why or "it is not known whether the change was made; look before you retry")
    unknown.__cause__ = problem
    return unknown


def _done(decision: Decision, number: int, commit_ulid: str) -> ChangeResult:
    return ChangeResult(
        number=number,
        commit_ulid=commit_ulid,
        operation=decision.operation,
        object=CommittedRow(decision.object, number),
        columns=decision.columns,
    )


def _by_table(attempt: _Pass) -> Mapping[str, list[AnyRow]]:
    rows: dict[str, list[AnyRow]] = {}
    for _, decision, _ in attempt.decided:
        for row in decision.rows:
            rows.setdefault(TABLE_OF[type(row)].name, []).append(row)
    return rows
