"""The store's own clock: the one clock by which the age of an object can be told without trust.

A collector whose clock runs ahead would take young numbers for old ones, and a writer that remembers
them would fork the chain. So ages are differences of two times that the store itself has stamped.
"""

from arco.core.ids import new_ulid
from arco.storage.store import Store


async def store_now_ms(store: Store) -> int:
    """What the store's clock says: the stamp on an object written now. For the janitor alone."""
    key = f"_probe/clock-{new_ulid(store.runtime)}.json"
    await store.create(key, b"{}")
    stamped = await store.head(key)
    await store.delete(key)
    return stamped.modified_ms
