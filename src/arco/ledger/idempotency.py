"""Idempotency: a request with a key takes effect at most once and is always answered the same (P10-P14).

The claim comes before the work, the outcome after it, both as numbers of one chain per key. With the
rules of P11 a takeover is safe at any time, so a crashed holder costs a retry two seconds. A success
that has landed is answered as one, whatever stands above the claim; a refusal only if its outcome got
the number above the claim, since another holder may land the request meanwhile.

Cost of a request with a key: one create for the claim, one GET before each commit, and one create for
the outcome, which may follow the answer of a success.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from arco.core.clock import Clock
from arco.core.errors import (
    ArcoError,
    Conflict,
    Invalid,
    KeyReused,
    TakenOver,
    Unavailable,
    Unknown,
)
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.ledger.claim import Answer, Claim, Outcome, State
from arco.storage.chain import Chain, Head
from arco.storage.link import Entry
from arco.storage.store import Store

TAKEOVER_MS = 2_000
DEFAULT_LIFE_MS = 24 * 3_600_000
LONGEST_REQUEST_MS = 10 * 60_000

_SEEN = 10_000


@dataclass(frozen=True)
class Terms:
    """What a claim fixes: ids that the work will use, and a target number known to exist."""

    ids: dict[str, str]
    base: int


class Hold(Protocol):
    """The right to go on, which another may take over at any time."""

    async def check(self) -> None:
        """`TakenOver` if something stands above the claim, `Unavailable` if it took too long.

        Ask after validating, before creating.
        """


class Work(Protocol):
    """A request that is to take effect once."""

    async def terms(self) -> Terms:
        """Fix the ids, before anything is done."""

    async def find(self, claim: Claim) -> Answer | None:
        """The answer if the claim's request_id is in the target, from its base to the head."""

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        """Do the work, in passes.

        Each pass: look (see `evidence`), validate against the head of that look, `hold.check()`, and
        only then create, after that very head, an entry that carries the request_id. A refusal may rest
        on nothing but that head: another holder may still land the request, unless the head has moved.
        """


class Idempotency:
    """Runs requests under their keys."""

    def __init__(
        self,
        store: Store,
        *,
        life_ms: int = DEFAULT_LIFE_MS,
        longest_request_ms: int = LONGEST_REQUEST_MS,
    ) -> None:
        self._store = store
        self._runtime: Runtime = store.runtime
        self._life_ms = life_ms
        self._longest_request_ms = longest_request_ms
        self._first_seen: OrderedDict[str, float] = OrderedDict()

    async def once(
        self, path: str, request_sha256: str, work: Work, *, arrived_ms: float | None = None
    ) -> Answer:
        """The answer to the request whose key lives at `path` (see `key_path`).

        `arrived_ms` is when the request reached this process, by its elapsed clock: a request that has
        waited or slept for too long is not begun, since its key may have been used and collected (P14).
        `KeyReused` if the key was used for another request, `Unavailable` with a time to retry after
        while another holder is at work, `Unknown` if this holder cannot tell what came of it.
        """
        chain = key_chain(self._store, path)
        began_ms = self._runtime.clock.elapsed_ms() if arrived_ms is None else arrived_ms
        until_ms = began_ms + self._longest_request_ms
        while True:
            _refuse_overtime(self._runtime.clock, until_ms)
            head = await chain.head()
            if head.entry is None:
                claim = await self._fresh_claim(request_sha256, work)
            else:
                decided = await self._decided(chain, head, head.entry, request_sha256, work)
                if isinstance(decided, Answer):
                    return decided
                claim = decided
            try:
                mine = await chain.append(head, claim)
            except Conflict:
                continue
            except Unknown as unclear:
                raise _busy("could not claim the key", TAKEOVER_MS) from unclear
            answer = await self._work(chain, mine, claim, work, until_ms)
            if answer is not None:
                return answer

    async def _fresh_claim(self, request_sha256: str, work: Work) -> Claim:
        terms = await work.terms()
        return Claim(
            request_sha256=request_sha256,
            request_id=new_ulid(self._runtime),
            ids=terms.ids,
            base=terms.base,
        )

    async def _decided(
        self, chain: Chain, head: Head, entry: Entry, request_sha256: str, work: Work
    ) -> Answer | Claim:
        """The answer that stands, or the claim to repeat if it is time to take over."""
        state: State = entry.body(State)  # type: ignore[arg-type]  # msgspec decodes unions
        if state.request_sha256 != request_sha256:
            raise KeyReused(
                "this idempotency key was already used for a different request; use a new key"
            )
        if isinstance(state, Outcome):
            return state.answer
        await self._refuse_expired(chain, entry)
        found = await work.find(state)
        if found is not None:
            await self._record(chain, head, state, found)
            return found
        wait_ms = self._patience(chain, entry)
        if wait_ms > 0:
            raise _busy("another attempt of this request is under way", wait_ms)
        return state

    async def _refuse_expired(self, chain: Chain, entry: Entry) -> None:
        """An old claim is not taken over, nor looked for: its evidence may be gone (P14)."""
        # Number 0 goes last, so without it the key is being collected at this very moment.
        first = entry if entry.number == 0 else await chain.find(0)
        if first is None or self._runtime.clock.now_ms() - first.created_ms > self._life_ms:
            raise Invalid("this idempotency key has expired without an outcome; use a new key")

    def _patience(self, chain: Chain, entry: Entry) -> float:
        """How long to leave the holder alone: two seconds, doubled at each takeover (P13)."""
        now_ms, elapsed = self._runtime.clock.now_ms(), self._runtime.clock.elapsed_ms()
        seen = self._first_seen.setdefault(chain.key(entry.number), elapsed)
        if len(self._first_seen) > _SEEN:
            self._first_seen.popitem(last=False)
        # The writer's clock may be ahead of ours: then what we saw ourselves counts.
        age = max(now_ms - entry.created_ms, elapsed - seen)
        return float(TAKEOVER_MS * 2**entry.number - age)

    async def _work(
        self, chain: Chain, mine: Head, claim: Claim, work: Work, until_ms: float
    ) -> Answer | None:
        """Do the work under a claim; None if another has taken over, and it is to be looked again."""
        try:
            answer = await work.perform(claim, _Hold(chain, mine, until_ms))
        except TakenOver:
            return None
        if self._runtime.clock.elapsed_ms() > until_ms:
            # The key may have been collected, and an outcome would stand above nothing.
            if answer.succeeded:
                return answer
            raise Unknown("this request has taken too long to be refused for good")
        recorded = await self._record(chain, mine, claim, answer)
        return answer if answer.succeeded or recorded else None

    async def _record(self, chain: Chain, above: Head, claim: Claim, answer: Answer) -> bool:
        """Whether the outcome got its number; for a success it does not matter, so it is not fatal."""
        outcome = Outcome(request_sha256=claim.request_sha256, answer=answer)
        try:
            await chain.append(above, outcome)
        except Conflict:
            return False
        except ArcoError as problem:
            if answer.succeeded:
                return False  # it has landed, and is answered as that (P12)
            raise Unknown("it is not known whether the refusal was kept; retry") from problem
        return True


class _Hold:
    def __init__(self, chain: Chain, mine: Head, until_ms: float) -> None:
        self._chain = chain
        self._mine = mine
        self._until_ms = until_ms

    async def check(self) -> None:
        _refuse_overtime(self._chain.store.runtime.clock, self._until_ms)
        if await self._chain.find(self._mine.number + 1) is not None:
            raise TakenOver("another holder has taken over this request, or has answered it")


def key_chain(store: Store, path: str) -> Chain:
    """The chain of one key: short, so it needs neither a hint nor a floor."""
    return Chain(store, path, width=4, hinted=False, floored=False)


def _refuse_overtime(clock: Clock, until_ms: float) -> None:
    """A request that slept may find its key collected, and must not begin anew (P14)."""
    if clock.elapsed_ms() > until_ms:
        raise _busy("this request has taken too long", TAKEOVER_MS)


def _busy(reason: str, wait_ms: float) -> Unavailable:
    return Unavailable(f"{reason}; retry", retry_after_ms=max(1, round(wait_ms)))
