"""Claims without an outcome whose holder is gone: for anti-entropy, so found by a listing (law 6)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from arco.core.errors import Conflict
from arco.ledger.claim import KEYS, Answer, Claim, Outcome, State
from arco.ledger.idempotency import LONGEST_REQUEST_MS
from arco.ledger.key import key_chain, read_key
from arco.storage.backend import Meta
from arco.storage.chain import Chain, Head
from arco.storage.store import Store


@dataclass(frozen=True)
class UnfinishedKey:
    """A key whose last number is a claim that nobody can be working on any more."""

    chain: Chain
    head: Head
    claim: Claim

    async def finish(self, answer: Answer) -> bool:
        """Write the outcome down; whether it was us."""
        outcome = Outcome(request_sha256=self.claim.request_sha256, answer=answer)
        try:
            await self.chain.append(self.head, outcome)
        except Conflict:
            return False  # somebody has come back to it
        return True


async def unfinished_claims(store: Store, *, most: int) -> AsyncIterator[UnfinishedKey]:
    """Keys with a claim on top that is older than the longest request, and younger than its life.

    It begins anywhere among them, so that in time all are looked at, however many there are.
    """
    clock = store.runtime.clock
    seen, folder = 0, ""
    async for meta in _from_anywhere(store):
        if meta.key.rpartition("/")[0] == folder:
            continue
        folder = meta.key.rpartition("/")[0]
        seen += 1
        if seen > most:
            return
        chain, started = key_chain(store, folder), clock.elapsed_ms()
        numbers = await read_key(chain)
        if not numbers:
            continue
        state: State = numbers[-1].body(State)  # type: ignore[arg-type]  # msgspec decodes unions
        now_ms = clock.now_ms()
        is_held = now_ms - numbers[-1].created_ms <= LONGEST_REQUEST_MS
        # A life counts from number 0: after it the chain may be collected at any time (P14).
        is_over = isinstance(state, Claim) and now_ms - numbers[0].created_ms >= state.life_ms
        if isinstance(state, Outcome) or is_held or is_over:
            continue
        yield UnfinishedKey(chain, Head(numbers[-1], started), state)


async def _from_anywhere(store: Store) -> AsyncIterator[Meta]:
    """All numbers of all keys, beginning with some key in the middle."""
    start = f"{KEYS}{store.runtime.rng.randbytes(1).hex()}"
    async for meta in store.list(KEYS, after=start):
        yield meta
    async for meta in store.list(KEYS):
        if meta.key > start:
            return
        yield meta
