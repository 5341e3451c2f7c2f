"""The store's own clock: the one clock by which the age of an object can be told without trust.

A collector whose clock runs ahead would take young numbers for old ones, and a writer that remembers
them would fork the chain. So ages are differences of two times that the store itself has stamped.
"""

from arco.core.errors import Unavailable
from arco.storage.store import Store

KEY = "_probe/clock.json"


async def store_now_ms(store: Store) -> int:
    """What the store's clock says: the stamp on a hint written now. For the janitor alone."""
    if not await store.put_hint(KEY, b"{}"):
        raise Unavailable("the store did not take a hint, so its clock cannot be read; retry")
    return (await store.head(KEY)).modified_ms
