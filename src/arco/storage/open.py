"""Opening a store: its backend, its handle, and the check that it honours put-if-absent (law 13).

At start one key is created that stays, so that an identity that may not delete can check too; later starts
cost one create and one read. `race_put_if_absent` is the thorough check of `arco doctor`.
"""

from pathlib import Path

from arco.core.errors import Conflict, Unsupported
from arco.core.ids import new_ulid
from arco.core.json import encode
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import Address
from arco.storage.backend import Backend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role, Verb, patterns
from arco.storage.signing import UrlSigner
from arco.storage.store import Store

PROBE_KEY = "_probe/put-if-absent.json"

_REFUSAL = (
    "the store does not honour put-if-absent: a conditional write replaced an existing object. "
    "Two writers would overwrite each other, so Arco will not use it. Update the server to one "
    "that supports If-None-Match on PUT, or choose another store"
)


def open_backend(
    address: Address,
    runtime: Runtime,
    *,
    fsync: bool = True,
    signer: UrlSigner | None = None,
    shared: bool = False,
) -> Backend:
    """The backend behind an address. Its libraries are imported here, when they are needed.

    In a `shared` location on a local disk other programs create, move and delete directories too.
    """
    if address.scheme == "file":
        from arco.storage.local import LocalBackend

        return LocalBackend(
            Path(address.location), runtime, fsync=fsync, signer=signer, shared=shared
        )
    from arco.storage.cloud import CloudBackend, connect

    own = signer if address.scheme == "memory" else None
    return CloudBackend(connect(address), runtime, root=address.prefix, signer=own)


async def open_store(
    backend: Backend,
    runtime: Runtime,
    *,
    role: Role,
    scope: Scope | None = None,
    retry: StoreRetryPolicy | None = None,
) -> Store:
    """A handle for one role in one scope, on a store that honours put-if-absent."""
    store = Store(backend, runtime, scope=scope or Scope(), role=role, retry=retry)
    if patterns(role, Verb.CREATE):
        await check_put_if_absent(store)
    return store


async def check_put_if_absent(store: Store) -> None:
    """Return if the store does not overwrite an existing object, else raise `Unsupported`."""
    for _ in range(2):
        if not await _create(store, PROBE_KEY):
            return
    raise Unsupported(_REFUSAL)


async def race_put_if_absent(store: Store, racers: int = 16) -> None:
    """Let `racers` create one new key at the same time; `Unsupported` unless exactly one wins."""
    key = f"_probe/race-{new_ulid(store.runtime)}.json"
    wins = await store.runtime.tasks.gather(*(_create(store, key) for _ in range(racers)))
    if sum(wins) != 1:
        raise Unsupported(f"{sum(wins)} of {racers} racers created the same object. {_REFUSAL}")


async def _create(store: Store, key: str) -> bool:
    try:
        await store.create(key, encode({"format": 1, "create_id": new_ulid(store.runtime)}))
    except Conflict:
        return False
    return True
