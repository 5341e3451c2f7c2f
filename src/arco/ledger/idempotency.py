"""Idempotency: a request with a key takes effect at most once and is always answered the same (P10-P14).

The claim comes before the work, the outcome after it, both as numbers of one chain per key. With the
rules of P11 a takeover is safe at any time, so a crashed holder costs a retry two seconds. A success
that has landed is answered as one, whatever stands above the claim; a refusal only if its outcome got
the number above the claim, since another holder may land the request meanwhile.

Cost of a request with a key: one create for the claim, without a look before it; one GET before each
commit; and one create for the outcome, which follows the answer of a success, and precedes a refusal.
"""

from collections import OrderedDict
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
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.ledger.claim import Answer, Claim, Outcome, State
from arco.ledger.key import key_chain, read_key
from arco.storage.chain import Chain, Head
from arco.storage.link import Entry
from arco.storage.store import Store

TAKEOVER_MS = 2_000
DEFAULT_LIFE_MS = 24 * 3_600_000
SHORTEST_LIFE_MS = 3_600_000  # so that collectors need not read the claims of younger keys
LONGEST_REQUEST_MS = 10 * 60_000

_SEEN = 10_000


@dataclass(frozen=True)
class Terms:
    """What a claim fixes: ids that the work will use, and a target number known to exist."""

    ids: dict[str, str]
    base: int


class Hold(Protocol):
    """The right to go on, which another may take over at any time."""

    @property
    def takes_over(self) -> bool:
        """Whether another has begun this request, and what it has sent may still be under way."""

    async def check(self) -> None:
        """`TakenOver` if something stands above the claim, `Unavailable` if it took too long.

        Ask after validating, before creating.
        """


class Work(Protocol):
    """A request that is to take effect once."""

    async def terms(self) -> Terms:
        """Fix the ids, before anything is done.

        Asked before the key is looked at, so perhaps for nothing: it must not change anything.
        """

    def renew(self, claim: Claim) -> dict[str, str]:
        """The ids of the claim that takes over from this one: mostly the same (P10).

        New ones are for work that must first end what was begun under the old (P33).
        """

    async def find(self, claim: Claim) -> Answer | None:
        """The answer if the claim's request_id is in the target, from its base to the head."""

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        """Do the work, in passes.

        Each pass: look (see `evidence`), validate against the head of that look, `hold.check()`, and
        only then create, after that very head, an entry that carries the request_id. A refusal may rest
        on nothing but that head: another holder may still land the request, unless the head has moved.
        """


@dataclass(frozen=True)
class _Ask:
    """A request under its key, in the hands of this process."""

    chain: Chain
    request_sha256: str
    work: Work
    until_ms: float


class Idempotency:
    """Runs requests under their keys."""

    def __init__(
        self,
        store: Store,
        *,
        life_ms: int = DEFAULT_LIFE_MS,
        longest_request_ms: int = LONGEST_REQUEST_MS,
    ) -> None:
        if life_ms < SHORTEST_LIFE_MS:
            raise Invalid(
                f"an idempotency key lives {SHORTEST_LIFE_MS} ms or longer, not {life_ms}"
            )
        self._store = store
        self._runtime: Runtime = store.runtime
        self._life_ms = life_ms
        self._longest_request_ms = longest_request_ms
        self._first_seen: OrderedDict[str, float] = OrderedDict()
        self._recordings: dict[str, Task[None]] = {}

    async def once(
        self, path: str, request_sha256: str, work: Work, *, arrived_ms: float | None = None
    ) -> Answer:
        """The answer to the request whose key lives at `path` (see `key_path`).

        `arrived_ms` is when the request reached this process, by its elapsed clock: a request that has
        waited or slept for too long is not begun, since its key may have been used and collected (P14).
        `KeyReused` if the key was used for another request, `Unavailable` with a time to retry after
        while another holder is at work, `Unknown` if this holder cannot tell what came of it.
        """
        clock = self._runtime.clock
        began_ms = clock.elapsed_ms() if arrived_ms is None else arrived_ms
        until_ms = began_ms + self._longest_request_ms
        ask = _Ask(key_chain(self._store, path), request_sha256, work, until_ms)
        _refuse_overtime(clock, until_ms)
        answer = await self._begin_at_once(ask)
        while answer is None:
            _refuse_overtime(clock, until_ms)
            answer = await self._begin(ask)
        return answer

    async def close(self) -> None:
        """Wait for the outcomes that are still being recorded: a clean stop leaves none out."""
        for recording in list(self._recordings.values()):
            await recording.wait()

    async def _begin_at_once(self, ask: _Ask) -> Answer | None:
        """Claim the key as if nobody had: put-if-absent tells whether that is so (P10)."""
        unseen = Head(None, self._runtime.clock.elapsed_ms())
        try:
            claim = await self._fresh_claim(ask)
        except ArcoError:
            # Whatever keeps the work from beginning now, a key that was used has its answer.
            if await read_key(ask.chain):
                return None
            raise
        return await self._hold(ask, unseen, claim)

    async def _begin(self, ask: _Ask) -> Answer | None:
        """Look at the key, then answer, claim or take over; None if it has to be looked at again."""
        started = self._runtime.clock.elapsed_ms()
        numbers = await read_key(ask.chain)
        if not numbers:
            return await self._hold(ask, Head(None, started), await self._fresh_claim(ask))
        head = Head(numbers[-1], started)
        decided = await self._decided(ask, head, numbers)
        if isinstance(decided, Answer):
            return decided
        takeover = msgspec.structs.replace(decided, ids=ask.work.renew(decided))
        return await self._hold(ask, head, takeover)

    async def _hold(self, ask: _Ask, above: Head, claim: Claim) -> Answer | None:
        """Claim, then work; None if another was first."""
        try:
            mine = await ask.chain.append(above, claim)
        except Conflict:
            return None
        except Unknown as unclear:
            raise _busy("could not claim the key", TAKEOVER_MS) from unclear
        return await self._work(ask, mine, claim)

    async def _fresh_claim(self, ask: _Ask) -> Claim:
        terms = await ask.work.terms()
        return Claim(
            request_sha256=ask.request_sha256,
            request_id=new_ulid(self._runtime),
            ids=terms.ids,
            base=terms.base,
            life_ms=self._life_ms,
        )

    async def _decided(self, ask: _Ask, head: Head, numbers: list[Entry]) -> Answer | Claim:
        """The answer that stands, or the claim to repeat if it is time to take over."""
        first, entry = numbers[0], numbers[-1]
        state: State = entry.body(State)  # type: ignore[arg-type]  # msgspec decodes unions
        if state.request_sha256 != ask.request_sha256:
            raise KeyReused(
                "this idempotency key was already used for a different request; use a new key"
            )
        if isinstance(state, Outcome):
            return state.answer
        self._refuse_expired(first)
        found = await ask.work.find(state)
        if found is not None:
            self._record_beside(ask, head, state, found)
            return found
        wait_ms = self._patience(ask.chain, entry)
        if wait_ms > 0:
            reason = "another attempt of this request is under way; retry with the same key"
            raise InProgress(reason, retry_after_ms=max(1, round(wait_ms)))
        return state

    def _refuse_expired(self, first: Entry) -> None:
        """An old claim is not taken over, nor looked for: its evidence may be gone (P14)."""
        if self._runtime.clock.now_ms() - first.created_ms > first.body(Claim).life_ms:
            raise KeyExpired(
                "this idempotency key has expired without an outcome: what it was sent for may have "
                "happened; look first, then use a new key"
            )

    def _patience(self, chain: Chain, entry: Entry) -> float:
        """How long to leave the holder alone: two seconds, doubled at each takeover (P13)."""
        now_ms, elapsed = self._runtime.clock.now_ms(), self._runtime.clock.elapsed_ms()
        seen = self._first_seen.setdefault(chain.key(entry.number), elapsed)
        if len(self._first_seen) > _SEEN:
            self._first_seen.popitem(last=False)
        # The writer's clock may be ahead of ours: then what we saw ourselves counts.
        age = max(now_ms - entry.created_ms, elapsed - seen)
        return float(TAKEOVER_MS * 2**entry.number - age)

    async def _work(self, ask: _Ask, mine: Head, claim: Claim) -> Answer | None:
        """Do the work under a claim; None if another has taken over, and it is to be looked again."""
        try:
            answer = await ask.work.perform(claim, _Hold(ask.chain, mine, ask.until_ms))
        except TakenOver:
            return None
        if answer.succeeded and answer.has_landed:
            # What has landed is its own evidence, so nobody has to wait for the outcome (P12).
            self._record_beside(ask, mine, claim, answer)
            return answer
        if self._is_overtime(ask):
            raise Unknown("this request has taken too long to be answered for good")
        recorded = await self._record(ask.chain, mine, claim, answer)
        return answer if recorded else None

    def _record_beside(self, ask: _Ask, above: Head, claim: Claim, answer: Answer) -> None:
        """Record the outcome of a success while the caller goes on."""
        name = ask.chain.key(above.number + 1)

        async def record() -> None:
            try:
                if not self._is_overtime(ask):
                    await self._record(ask.chain, above, claim, answer)
            finally:
                self._recordings.pop(name, None)

        if name not in self._recordings:
            self._recordings[name] = self._runtime.tasks.spawn(record())

    def _is_overtime(self, ask: _Ask) -> bool:
        """Whether the key may have been collected: then an outcome would stand above nothing."""
        return self._runtime.clock.elapsed_ms() > ask.until_ms

    async def _record(self, chain: Chain, above: Head, claim: Claim, answer: Answer) -> bool:
        """Whether the outcome got its number; for a success it does not matter, so it is not fatal."""
        outcome = Outcome(request_sha256=claim.request_sha256, answer=answer)
        try:
            await chain.append(above, outcome)
        except Conflict:
            return False
        except ArcoError as problem:
            if answer.succeeded and answer.has_landed:
                return False  # it is answered as a success whatever becomes of the outcome (P12)
            raise Unknown("it is not known whether the answer was kept; retry") from problem
        return True


class _Hold:
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
            raise TakenOver("another holder has taken over this request, or has answered it")


def _refuse_overtime(clock: Clock, until_ms: float) -> None:
    """A request that slept may find its key collected, and must not begin anew (P14)."""
    if clock.elapsed_ms() > until_ms:
        raise _busy("this request has taken too long", TAKEOVER_MS)


def _busy(reason: str, wait_ms: float) -> Unavailable:
    return Unavailable(f"{reason}; retry", retry_after_ms=max(1, round(wait_ms)))
