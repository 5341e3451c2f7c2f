"""Group commit: turns requests into published commits, many requests at a time (P21 to P25).

Requests that arrive while a commit is in flight go into the next one, decided in order. A pass reads the
head, answers requests that have landed already, decides the others, appends the decided rows to the ledger
and has the compactor publish them. Only an error raised while deciding is a refusal; an error after that
is not, because the commit may have landed (law 9).

Sequential round trips when the head is known: head; append, file and commit record; manifest: 3. With an
idempotency key, or a compactor in another process, the append comes first: 4. A key also adds its claim,
which is checked in parallel to the append.
"""

from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
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
from arco.ledger.segment import MAX_BYTES, segment_key
from arco.ledger.writer import LedgerWriter, SegmentPosition
from arco.storage.entry import read_entry

_MAX_STALLED_PASSES = 6
_STALL_PAUSE_MS = 10
_MAX_REQUESTS = 512
_LONG_WAIT_MS = 1_000  # longer than any store takes to answer: another process held the lease
_GROUP_BYTES = 4 * 1024 * 1024
_MAX_CHANGE_BYTES = MAX_BYTES - 64 * 1024  # leaves space for the envelope
_MAX_MS = 25_000  # below the request timeout of a server, so that the caller gets an answer

# Raised while deciding, these concern the store or the caller's rights, not the request.
_NOT_REFUSALS = (Unavailable, Unknown, Corrupt, Denied)


class StallDetector:
    """Stops passes that make no progress: no other process committed, and nothing was published.

    A compactor that serves another store, or sees an older state of it, refuses every time. Each pass
    appends a segment to the ledger, so the callers get an error after a few passes with growing pauses.
    """

    def __init__(self) -> None:
        self._previous: tuple[int, int] | None = None
        self._stalled_passes = 0

    async def refuse(self, runtime: Runtime, number: int, requests: int) -> None:
        """`Unavailable` if several passes began with the same head and the same number of requests."""
        is_same = (number, requests) == self._previous
        self._stalled_passes = self._stalled_passes + 1 if is_same else 0
        self._previous = (number, requests)
        if self._stalled_passes > _MAX_STALLED_PASSES:
            raise Unavailable(
                "the compactor publishes nothing; check that it serves the same store as this server"
            )
        if self._stalled_passes:
            pause_ms = _STALL_PAUSE_MS * self._stalled_passes
            await runtime.clock.sleep(pause_ms * (1 + runtime.rng.random()))


@dataclass
class _CommitAttempt:
    """One attempt to publish a group."""

    snapshot: Snapshot
    decided: list[tuple[PendingRequest, Decision, Envelope]] = field(default_factory=list)
    # Refusals that depend on rows of the same group, which are not published yet.
    held_back: list[tuple[PendingRequest, ArcoError]] = field(default_factory=list)
    size_bytes: int = 0

    def requests(self) -> list[PendingRequest]:
        """All requests of the attempt."""
        return [each[0] for each in self.decided] + [each[0] for each in self.held_back]

    def refuse_held_back(self) -> None:
        """Deliver the refusals that depend on other requests, now that those are published (P25)."""
        for pending, refusal in self.held_back:
            pending.refuse(refusal)


class Committer:
    """Commits the changes that one process makes to a domain."""

    def __init__(
        self,
        reader: SnapshotReader,
        writer: LedgerWriter,
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

    async def submit(self, pending: PendingRequest) -> ChangeResult:
        """Commit a request in a group with others; a refusal is raised."""
        if self._closed:
            raise Unavailable("this server is stopping; retry on another one")
        self._queue.append(pending)
        if self._pump is None or self._pump.done():
            self._pump = self._runtime.tasks.spawn(self._run())
        await pending.done.wait()
        if pending.answer is None:
            raise pending.problem or Unknown("the request ended without an answer")
        return pending.answer

    async def prepare(self) -> None:
        """Take the lease before the first request: after a crash the old lease has to expire first."""
        try:
            await self._lease.hold()
        except ArcoError:
            return  # the first request takes the lease, and reports the error
        if self._pump is None or self._pump.done():
            self._lease.idle()

    async def close(self) -> None:
        """Refuse new requests, finish the accepted ones, release the lease and seal the stream."""
        self._closed = True
        if self._pump is not None:
            await self._pump.wait()
        await self._lease.close()
        await self._writer.close()
        await self.reader.chain.close()

    async def _run(self) -> None:
        while self._queue:
            await self._runtime.tasks.turn()  # requests that arrive together share a group
            group = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_REQUESTS))]
            try:
                await self._settle(group)
            except Exception as problem:
                for pending in unanswered(group):
                    pending.fail(problem)
            if not self._queue:
                self._lease.idle()

    async def _settle(self, group: list[PendingRequest]) -> None:
        """Repeat passes until every request of the group is answered."""
        stall_detector = StallDetector()
        while requests := self._refuse_overdue(unanswered(group)):
            try:
                token, snapshot = await self._start(requests)
                await stall_detector.refuse(self._runtime, snapshot.number, len(requests))
                requests = await self._drop_landed(requests, snapshot)
            except ArcoError as problem:  # nothing was sent in this pass
                fail_all(requests, problem)
                return
            attempt = await self._decide(requests, snapshot)
            if attempt.decided:
                await self._try(attempt, token)

    async def _try(self, attempt: _CommitAttempt, token: int) -> None:
        """Publish the decisions. Requests without an answer after this are decided again."""
        try:
            await self._publish(attempt, token)
        except Conflict:
            return  # rows have changed, or another process took over a request of the group
        except Fenced:
            self._lease.lost()
        except Unavailable as problem:
            fail_all(unanswered(attempt.requests()), problem)
        except Exception as problem:  # the commit may have landed (law 9)
            await self._resolve(attempt, problem)

    async def _start(self, requests: list[PendingRequest]) -> tuple[int, Snapshot]:
        """The fencing token and the head of this pass.

        A single change reuses the last token of this process, unless a manifest carries a newer one. A
        takeover needs a new epoch: a call that was sent earlier for the same request may still be in
        flight, and the compactor refuses it, unless it has looked the token up already (ADR 0074).
        """
        is_takeover = any(
            pending.hold is not None and pending.hold.takes_over for pending in requests
        )
        token = None if is_takeover else self._lease.reuse()
        if token is not None:
            snapshot = await self.reader.head()
            if snapshot.manifest is None or snapshot.manifest.fencing_token <= token:
                return token, snapshot
            self._lease.lost()
        return await self._hold()

    async def _hold(self) -> tuple[int, Snapshot]:
        """The token and the head, requested in parallel: safety does not depend on the lease (P28)."""
        started_ms = self._runtime.clock.elapsed_ms()
        token, snapshot = await self._runtime.tasks.gather(
            cast("Coroutine[Any, Any, int | Snapshot]", self._lease.hold()),
            cast("Coroutine[Any, Any, int | Snapshot]", self.reader.head()),
        )
        if self._runtime.clock.elapsed_ms() - started_ms > _LONG_WAIT_MS:
            snapshot = await self.reader.head()  # the previous holder of the lease has published
        return cast("int", token), cast("Snapshot", snapshot)

    def _refuse_overdue(self, requests: list[PendingRequest]) -> list[PendingRequest]:
        now = self._runtime.clock.elapsed_ms()
        for pending in requests:
            if now - pending.arrived_ms > _MAX_MS:
                pending.fail(Unavailable("too many concurrent changes of the catalog; retry"))
        return unanswered(requests)

    async def _drop_landed(
        self, requests: list[PendingRequest], snapshot: Snapshot
    ) -> list[PendingRequest]:
        """Answer the requests that have landed already, so that none is decided twice (P11, P23)."""
        landed: dict[int, dict[str, int]] = {}  # by base: request ids and their manifests
        for pending in requests:
            base = snapshot.number if pending.base is None else pending.base
            try:
                if base not in landed:
                    landed[base] = await self.reader.requests_since(base, snapshot)
                if pending.request_id in landed[base]:
                    number = landed[base][pending.request_id]
                    pending.succeed(
                        await read_change_result(self.reader, pending.request_id, number)
                    )
                pending.base = snapshot.number
            except NotFound as collected:
                pending.fail(
                    _unknown(
                        collected,
                        "it is unknown whether the change was made: the manifests that would show it "
                        "were collected; read the object before you retry",
                    )
                )
            except ArcoError as problem:
                pending.fail(_unknown(problem))
        return unanswered(requests)

    async def _decide(self, requests: list[PendingRequest], snapshot: Snapshot) -> _CommitAttempt:
        """Decide the requests in order, each on top of those before it; a refusal concerns one (P25)."""
        attempt, view = _CommitAttempt(snapshot), DecisionView(snapshot, snapshot.number + 1)
        at = utc(self._runtime.clock.now_ms())
        for pending in requests:
            view.begin()
            context = DecisionContext(pending.actor, at, pending.new_id, self._rules)
            try:
                decision = await decide(view, pending.request, context)
                event = _event(self._runtime, pending, decision)
            except _NOT_REFUSALS as problem:
                pending.fail(problem)
                continue
            except ArcoError as refusal:
                if view.used_unpublished:
                    attempt.held_back.append((pending, refusal))
                else:
                    pending.refuse(refusal)
                continue
            except Exception as problem:  # a bug must not fail the other requests
                pending.fail(problem)
                continue
            attempt.size_bytes += len(event.payload)
            # A commit holds each row once: the result of the first change could not be read back later.
            # Under a key the decision must follow from the head alone: a process that takes the request
            # over decides it without this group, and may refuse what the group is about to publish (P11).
            needs_group = pending.hold is not None and view.used_unpublished
            if (
                needs_group
                or view.holds(decision.rows)
                or (attempt.decided and attempt.size_bytes > _GROUP_BYTES)
            ):
                break  # this request and all after it go into the next pass, in order
            attempt.decided.append((pending, decision, event))
            view.add(decision.rows)
        return attempt

    async def _publish(self, attempt: _CommitAttempt, token: int) -> None:
        events = [event for _, _, event in attempt.decided]
        position = await self._next_segment()
        segment = segment_key(self.reader.domain, *position)
        call = SyncCompact(
            domain=self.reader.domain,
            event_paths=tuple(f"{segment}#{line}" for line in range(1, len(events) + 1)),
            events=tuple(events),
            commit_ulid=new_ulid(self._runtime),
            fencing_token=token,
            base_manifest=attempt.snapshot.number,
            base_sha256=attempt.snapshot.sha256 or None,
            tenant=self.reader.store.scope.tenant,
            workspace=self.reader.store.scope.workspace,
        )
        # The events become durable beside the files of the commit, and before its manifest.
        appending = self._runtime.tasks.spawn(self._append(attempt, events, position))
        if any(pending.may_be_taken_over for pending, _, _ in attempt.decided):
            # The compactor must look the token up after the claims were seen to be held: a process that
            # takes a request over takes a new epoch.
            await appending.wait()
        try:
            committed = await self._compactor.sync_compact(call, appending.wait)
        except Invalid as refused:  # the compactor does not know the event, and has done nothing
            raise Unavailable(
                "the compactor rejected the change; upgrade the compactor to the version of this server"
            ) from refused
        except Denied as refused:
            raise Unavailable(
                "the compactor does not serve this workspace; check its configuration"
            ) from refused
        finally:
            with suppress(Exception):  # the compactor has raised it already, or something else
                await appending.wait()
        self._learn(committed, attempt)
        for pending, decision, _ in attempt.decided:
            pending.succeed(_result(decision, committed.manifest_version, committed.commit_ulid))
        attempt.refuse_held_back()

    async def _next_segment(self) -> SegmentPosition:
        try:
            return await self._writer.next_segment()
        except ArcoError as problem:
            raise _not_stored(problem) from problem

    async def _append(
        self, attempt: _CommitAttempt, events: list[Envelope], position: SegmentPosition
    ) -> None:
        """Append the events there, and see that all claims of the group are still held (P11)."""
        claimed = [pending for pending, _, _ in attempt.decided if pending.hold is not None]
        checking = self._runtime.tasks.spawn(self._check(claimed))
        try:
            receipt = await self._writer.append(events)
        except ArcoError as problem:
            raise _not_stored(problem) from problem
        finally:
            all_held = await checking.wait()
        if not all_held:
            raise Conflict(
                "another process took over a request of the group; the rest is redecided"
            )
        if (receipt.stream, receipt.seq, receipt.first_line) != (*position, 1):
            raise Conflict("the stream was sealed; the group is redecided with the next one")

    async def _check(self, claimed: list[PendingRequest]) -> bool:
        """Whether this process still holds the claims of all these requests."""
        await self._runtime.tasks.gather(*(_check_hold(pending) for pending in claimed))
        return not any(pending.done.is_set() for pending in claimed)

    def _learn(self, committed: PublishedCommit, attempt: _CommitAttempt) -> None:
        """Remember the published manifest, so that the next pass need not read it."""
        if committed.manifest is None:
            return
        number, base = committed.manifest_version, attempt.snapshot
        entry = read_entry(committed.manifest.encode(), number, self.reader.chain.path)
        if number == base.number + 1 and (entry.record.parent_sha256 or "") != base.sha256:
            raise Unknown(
                "the compactor published to another chain of manifests; check that it serves this store"
            )
        self.reader.learn(entry, _by_table(attempt))

    async def _resolve(self, attempt: _CommitAttempt, problem: Exception) -> None:
        """Find out whether a commit landed whose answer was lost, or report `Unknown` (P23)."""
        requests = [pending for pending, _, _ in attempt.decided]
        try:
            await self._drop_landed(requests, await self.reader.head())
        except ArcoError as read_problem:
            problem = read_problem
        if not unanswered(requests):
            return  # it has landed; the requests held back are decided again
        fail_all(unanswered(requests), _unknown(problem))
        fail_all(
            unanswered(attempt.requests()), Unavailable("the catalog could not be changed; retry")
        )


async def _check_hold(pending: PendingRequest) -> None:
    try:
        if pending.hold is not None:
            await pending.hold.check()
    except ArcoError as problem:
        pending.fail(problem)


def _event(runtime: Runtime, pending: PendingRequest, decision: Decision) -> Envelope:
    event = make_event(runtime, decision, request_id=pending.request_id, actor=pending.actor)
    if len(event.payload) > _MAX_CHANGE_BYTES:
        raise Invalid(
            f"a change has at most {_MAX_CHANGE_BYTES} bytes; split it into smaller changes"
        )
    return event


def _not_stored(problem: ArcoError) -> ArcoError:
    """A Tier 1 event has no effect until a commit names it: the change was not made."""
    if isinstance(problem, StoreFull):
        return problem
    if isinstance(problem, Corrupt):
        return Unavailable("the ledger is damaged; run `arco verify` to find the damaged objects")
    return Unavailable("the change could not be stored; retry")


def _unknown(problem: Exception, why: str = "") -> ArcoError:
    if isinstance(problem, Unknown):
        return problem
    unknown = Unknown(
        why or "it is unknown whether the change was made; read the object before you retry"
    )
    unknown.__cause__ = problem
    return unknown


def _result(decision: Decision, number: int, commit_ulid: str) -> ChangeResult:
    return ChangeResult(
        number=number,
        commit_ulid=commit_ulid,
        operation=decision.operation,
        object=CommittedRow(decision.object, number),
        columns=decision.columns,
    )


def _by_table(attempt: _CommitAttempt) -> Mapping[str, list[AnyRow]]:
    rows: dict[str, list[AnyRow]] = {}
    for _, decision, _ in attempt.decided:
        for row in decision.rows:
            rows.setdefault(TABLE_OF[type(row)].name, []).append(row)
    return rows
