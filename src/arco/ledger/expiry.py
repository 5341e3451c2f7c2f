"""The janitor's work on idempotency keys: chains whose life is over go, number 0 last (P14).

While number 0 stands, a retry meets a claim that is too old and is refused; a chain that lost its number 0
first would be claimed anew below an outcome of another request. How long a key lives is written in its
number 0, so whoever claims and whoever collects cannot be set apart.
"""

from collections.abc import AsyncIterator

from arco.ledger.claim import KEYS, Claim
from arco.ledger.idempotency import LONGEST_REQUEST_MS, SHORTEST_LIFE_MS
from arco.ledger.key import key_chain
from arco.storage.backend import Meta
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms


async def collect_keys(store: Store, *, longest_request_ms: int = LONGEST_REQUEST_MS) -> int:
    """Delete the chains of keys that have expired, each from the top down; how many chains.

    Costs a listing, and one GET for each key that is older than the shortest life.
    """
    now_ms = await store_now_ms(store)
    collected = 0
    async for numbers in _chains(store):
        age_ms = now_ms - numbers[0].modified_ms - longest_request_ms
        if age_ms < SHORTEST_LIFE_MS or not await _is_over(store, numbers[0], age_ms):
            continue
        for meta in reversed(numbers):
            await store.delete(meta.key)
        collected += 1
    return collected


async def _is_over(store: Store, lowest: Meta, age_ms: float) -> bool:
    """Whether the life is over that the key's first claim speaks of."""
    chain = key_chain(store, _folder(lowest))
    first = await chain.find(0)
    if first is None:
        # If it was listed, another collects this key. If not, what was came too late for its key's end.
        return lowest.key != chain.key(0)
    return age_ms >= first.body(Claim).life_ms


async def _chains(store: Store) -> AsyncIterator[list[Meta]]:
    """The numbers of each key, in order: keys of one chain stand together in a listing."""
    numbers: list[Meta] = []
    async for meta in store.list(KEYS):
        if numbers and _folder(numbers[0]) != _folder(meta):
            yield numbers
            numbers = []
        numbers.append(meta)
    if numbers:
        yield numbers


def _folder(meta: Meta) -> str:
    return meta.key.rpartition("/")[0]
