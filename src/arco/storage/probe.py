"""The proof that a store honours put-if-absent, before anything relies on it (law 13).

At start: one key that stays, so that an identity that may not delete can prove it too; once the key is
there, one create and one look. `race` is the thorough version for `arco doctor`: many racers, one winner.
"""

from arco.core.errors import Conflict, Unsupported
from arco.core.ids import new_ulid
from arco.core.json import encode
from arco.storage.store import Store

KEY = "_probe/put-if-absent.json"

_REFUSAL = (
    "the store does not honour put-if-absent: it let a conditional write replace an object that was "
    "there. Two writers would overwrite each other, so Arco will not use it. Update the server to one "
    "that supports If-None-Match on PUT, or choose another store"
)


async def prove_put_if_absent(store: Store) -> None:
    """Return if the store keeps what is there, else raise `Unsupported`."""
    for _ in range(2):
        if not await _create(store, KEY):
            return
    raise Unsupported(_REFUSAL)


async def race(store: Store, racers: int = 16) -> None:
    """Let `racers` create one new key at once; anything but one winner is `Unsupported`."""
    key = f"_probe/race-{new_ulid(store.runtime)}.json"
    won = await store.runtime.tasks.gather(*(_create(store, key) for _ in range(racers)))
    if sum(won) != 1:
        raise Unsupported(f"{sum(won)} of {racers} racers created the same object. {_REFUSAL}")


async def _create(store: Store, key: str) -> bool:
    try:
        await store.create(key, encode({"format": 1, "create_id": new_ulid(store.runtime)}))
    except Conflict:
        return False
    return True
