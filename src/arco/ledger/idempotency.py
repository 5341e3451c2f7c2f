"""Idempotency: a request with a key takes effect at most once and is always answered the same (P10-P14).

The claim comes before the work, the outcome after it, both as entries of one chain per key. With the rules
of P11 a takeover is safe at any time, so a crashed holder costs a retry two seconds. A success that was
applied is answered as one, whatever is above the claim; a refusal only if its outcome got the number above
the claim, since another holder may apply the request meanwhile.

Cost of a request with a key: one create for the claim, without a look before it; one GET before each
commit; and one create for the outcome, which follows the answer of a success, and precedes a refusal.
"""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from arco.core.clock import Clock
from arco.core.errors import (
    ArcoError,
    Conflict,
    InProgress,
    Invalid,
    KeyExpired,
    KeyReused,
    TakenOver,
    Unavailable,
    Unknown,
)
from arco.core.ids import new_ulid
from arco.core.lru_cache import LruCache
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.ledger.claim import (
    MAX_REQUEST_MS,
    Answer,
    Claim,
    ClaimOutcome,
    KeyState,
    key_chain,
    read_key,
)
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry
from arco.storage.store import Store

TAKEOVER_MS = 2_000
MAX_TAKEOVER_MS = 32_000  # longer than a server works on a request before it answers
DEFAULT_LIFE_MS = 24 * 3_600_000
MIN_LIFE_MS = 3_600_000  # so that collectors need not read the claims of younger keys

_MAX_FIRST_SEEN = 10_000


@dataclass(frozen=True)
class ClaimTerms:
    """What a claim fixes: ids that the work will use, and a number of the target chain that exists."""

    ids: dict[str, str]
    base: int


class ClaimHold(Protocol):
    """The right to continue, which another process may take over at any time."""

    @property
    def takes_over(self) -> bool:
        """Whether another process started this request, and its writes may still be under way."""

    @property
    def may_be_taken_over(self) -> bool:
        """Whether other processes can take this request over: not without a key."""

    async def check(self) -> None:
        """`TakenOver` if an entry is above the claim, `Unavailable` if the request took too long.

        To be called after validation, before a create.
        """


class IdempotentWork(Protocol):
    """A request that is to take effect once."""

    async def terms(self) -> ClaimTerms:
        """Fix the ids, before any work.

        Called before the key is read, so perhaps in vain: it must not change anything.
        """

    def renew(self, claim: Claim) -> dict[str, str]:
        """The ids of the claim that takes over from this one: mostly the same (P10).

        New ones are for work that must first finish what was started under the old (P33).
        """

    async def find(self, claim: Claim) -> Answer | None:
        """The answer if the claim's request_id is in the target, from its base to the head."""

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        """Do the work, in passes.

        Each pass: `find_evidence`, validate against the head that it returned, `hold.check()`, and only
        then create, after that head, an entry with the request_id. A refusal may rest on nothing but that
        head: another holder may still apply the request, unless the head has moved.
        """


class _NoKeyHold:
    """The hold of a request without a key, which no other process can take over."""

    takes_over = False
    may_be_taken_over = False

    async def check(self) -> None:
        return


async def perform_without_key(runtime: Runtime, work: IdempotentWork) -> Answer:
    """Do the work of a request without a key, under a claim that is not stored."""
    terms = await work.terms()
    claim = Claim(
        request_sha256="",
        request_id=new_ulid(runtime),
        ids=terms.ids,
        base=terms.base,
        life_ms=0,
    )
    return await work.perform(claim, _NoKeyHold())


@dataclass(frozen=True)
class _KeyedRequest:
    """A request under its key, as this process runs it."""

    chain: Chain
    request_sha256: str
    work: IdempotentWork
    until_ms: float


class Idempotency:
    """Runs requests under their keys."""

    def __init__(
        self,
        store: Store,
        *,
        life_ms: int = DEFAULT_LIFE_MS,
        longest_request_ms: int = MAX_REQUEST_MS,
    ) -> None:
        if life_ms < MIN_LIFE_MS:
            raise Invalid(f"an idempotency key lives at least {MIN_LIFE_MS} ms, not {life_ms}")
        self._store = store
        self._runtime: Runtime = store.runtime
        self._life_ms = life_ms
        self._longest_request_ms = longest_request_ms
        self._first_seen = LruCache[str, float](_MAX_FIRST_SEEN)
        self._recordings: dict[str, Task[None]] = {}

    async def once(
        self,
        path: str,
        request_sha256: str,
        work: IdempotentWork,
        *,
        arrived_ms: float | None = None,
    ) -> Answer:
        """The answer to the request whose key lives at `path` (see `key_path`).

        `arrived_ms` is when the request reached this process, by its elapsed clock: a request that has
        waited or slept for too long is not started, since its key may have been used and collected (P14).
        `KeyReused` if the key was used for another request, `Unavailable` with a time to retry after
        while another holder is at work, `Unknown` if the outcome is not known.
        """
        clock = self._runtime.clock
        began_ms = clock.elapsed_ms() if arrived_ms is None else arrived_ms
        until_ms = began_ms + self._longest_request_ms
        request = _KeyedRequest(key_chain(self._store, path), request_sha256, work, until_ms)
        _refuse_overtime(clock, until_ms)
        answer = await self._claim_unused(request)
        while answer is None:
            _refuse_overtime(clock, until_ms)
            answer = await self._begin(request)
        return answer

    async def close(self) -> None:
        """Wait for the outcomes that are still being recorded: a clean stop leaves none out."""
        for recording in list(self._recordings.values()):
            await recording.wait()

    async def _claim_unused(self, request: _KeyedRequest) -> Answer | None:
        """Claim the key as if it were unused: put-if-absent decides whether it is (P10)."""
        unseen = Head(None, self._runtime.clock.elapsed_ms())
        try:
            claim = await self._fresh_claim(request)
        except ArcoError:
            # A key that was used has its answer, even if the work could not start now.
            if await read_key(request.chain):
                return None
            raise
        return await self._hold(request, unseen, claim)

    async def _begin(self, request: _KeyedRequest) -> Answer | None:
        """Read the key, then answer, claim or take over; None if it has to be read again."""
        started = self._runtime.clock.elapsed_ms()
        numbers = await read_key(request.chain)
        if not numbers:
            return await self._hold(request, Head(None, started), await self._fresh_claim(request))
        head = Head(numbers[-1], started)
        decided = await self._decided(request, head, numbers)
        if isinstance(decided, Answer):
            return decided
        takeover = msgspec.structs.replace(decided, ids=request.work.renew(decided))
        return await self._hold(request, head, takeover)

    async def _hold(self, request: _KeyedRequest, head: Head, claim: Claim) -> Answer | None:
        """Claim, then work; None if another process was first."""
        try:
            mine = await request.chain.append(head, claim)
        except Conflict:
            return None
        except Unknown as unclear:
            raise _busy("could not claim the key", TAKEOVER_MS) from unclear
        return await self._work(request, mine, claim)

    async def _fresh_claim(self, request: _KeyedRequest) -> Claim:
        terms = await request.work.terms()
        return Claim(
            request_sha256=request.request_sha256,
            request_id=new_ulid(self._runtime),
            ids=terms.ids,
            base=terms.base,
            life_ms=self._life_ms,
        )

    async def _decided(
        self, request: _KeyedRequest, head: Head, numbers: list[Entry]
    ) -> Answer | Claim:
        """The recorded answer, or the claim to repeat if it is time to take over."""
        first, entry = numbers[0], numbers[-1]
        state: KeyState = entry.body(KeyState)  # type: ignore[arg-type]  # msgspec decodes unions
        if state.request_sha256 != request.request_sha256:
            raise KeyReused(
                "this idempotency key was already used for a different request; use a new key"
            )
        if isinstance(state, ClaimOutcome):
            return state.answer
        self._refuse_expired(first)
        answer = await request.work.find(state)
        if answer is not None:
            self._record_in_background(request, head, state, answer)
            return answer
        wait_ms = self._takeover_in_ms(request.chain, entry)
        if wait_ms > 0:
            reason = "another attempt of this request is under way; retry with the same key"
            raise InProgress(reason, retry_after_ms=max(1, round(wait_ms)))
        return state

    def _refuse_expired(self, first: Entry) -> None:
        """An expired claim is not taken over: its evidence may have been collected (P14)."""
        if self._runtime.clock.now_ms() - first.created_ms > first.body(Claim).life_ms:
            raise KeyExpired(
                "this idempotency key has expired without an outcome, and its request may have taken "
                "effect: check that first, then use a new key"
            )

    def _takeover_in_ms(self, chain: Chain, entry: Entry) -> float:
        """How long the holder still has before a takeover: 2 s, doubled at each up to 32 s (P13)."""
        now_ms, elapsed_ms = self._runtime.clock.now_ms(), self._runtime.clock.elapsed_ms()
        key = chain.key(entry.number)
        first_seen_ms = self._first_seen.get(key)
        if first_seen_ms is None:
            first_seen_ms = elapsed_ms
            self._first_seen.put(key, first_seen_ms)
        # The clock of the writer may be ahead: then the time since this process saw the entry counts.
        age = max(now_ms - entry.created_ms, elapsed_ms - first_seen_ms)
        return min(TAKEOVER_MS * 2.0**entry.number, MAX_TAKEOVER_MS) - age

    async def _work(self, request: _KeyedRequest, mine: Head, claim: Claim) -> Answer | None:
        """Do the work under a claim; None if another process has taken over."""
        try:
            answer = await request.work.perform(claim, _Hold(request.chain, mine, request.until_ms))
        except TakenOver:
            return None
        if answer.succeeded and answer.has_landed:
            # An applied request is its own evidence, so the caller need not wait for the outcome (P12).
            self._record_in_background(request, mine, claim, answer)
            return answer
        if self._is_overtime(request):
            raise Unknown(
                "this request has taken too long, so its outcome cannot be recorded; retry"
            )
        recorded = await self._record(request.chain, mine, claim, answer)
        return answer if recorded else None

    def _record_in_background(
        self, request: _KeyedRequest, head: Head, claim: Claim, answer: Answer
    ) -> None:
        """Record the outcome of a success in the background."""
        name = request.chain.key(head.number + 1)

        async def record() -> None:
            try:
                if not self._is_overtime(request):
                    await self._record(request.chain, head, claim, answer)
            finally:
                self._recordings.pop(name, None)

        if name not in self._recordings:
            self._recordings[name] = self._runtime.tasks.spawn(record())

    def _is_overtime(self, request: _KeyedRequest) -> bool:
        """Whether the key may have been collected: then no outcome may be recorded."""
        return self._runtime.clock.elapsed_ms() > request.until_ms

    async def _record(self, chain: Chain, head: Head, claim: Claim, answer: Answer) -> bool:
        """Whether the outcome got its number; for a success that was applied an error does not matter."""
        outcome = ClaimOutcome(request_sha256=claim.request_sha256, answer=answer)
        try:
            await chain.append(head, outcome)
        except Conflict:
            return False
        except ArcoError as problem:
            if answer.succeeded and answer.has_landed:
                return False  # it is answered as a success anyway (P12)
            raise Unknown("it is not known whether the answer was recorded; retry") from problem
        return True


class _Hold:
    may_be_taken_over = True

    def __init__(self, chain: Chain, mine: Head, until_ms: float) -> None:
        self._chain = chain
        self._mine = mine
        self._until_ms = until_ms

    @property
    def takes_over(self) -> bool:
        return self._mine.number > 0

    async def check(self) -> None:
        _refuse_overtime(self._chain.store.runtime.clock, self._until_ms)
        if await self._chain.find(self._mine.number + 1) is not None:
            raise TakenOver("another process has taken over this request, or has answered it")


def _refuse_overtime(clock: Clock, until_ms: float) -> None:
    """A request that slept may find its key collected, and must not start again (P14)."""
    if clock.elapsed_ms() > until_ms:
        raise _busy("this request has taken too long", TAKEOVER_MS)


def _busy(reason: str, wait_ms: float) -> Unavailable:
    return Unavailable(f"{reason}; retry", retry_after_ms=max(1, round(wait_ms)))
