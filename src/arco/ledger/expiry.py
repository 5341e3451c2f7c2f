"""The janitor's work on idempotency keys: chains whose life is over go, number 0 last (P14).

While number 0 stands, a retry meets a claim that is too old and is refused; a chain that lost its number 0
first would be claimed anew below an outcome of another request.
"""

from collections.abc import AsyncIterator

from arco.ledger.claim import KEYS
from arco.ledger.idempotency import DEFAULT_LIFE_MS, LONGEST_REQUEST_MS
from arco.storage.backend import Meta
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms


async def collect_keys(
    store: Store,
    *,
    life_ms: int = DEFAULT_LIFE_MS,
    longest_request_ms: int = LONGEST_REQUEST_MS,
) -> int:
    """Delete the chains of keys that have expired, each from the top down; how many chains."""
    old_ms = await store_now_ms(store) - life_ms - longest_request_ms
    collected = 0
    async for numbers in _chains(store):
        if numbers[0].modified_ms > old_ms:
            continue
        for meta in reversed(numbers):
            await store.delete(meta.key)
        collected += 1
    return collected


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
