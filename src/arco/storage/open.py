"""Opening a store: its backend, its handle, and the check that it honours put-if-absent (law 13).

At start one key is created that stays, so that an identity that may not delete can check too; later starts
cost one create and one read. `race_put_if_absent` is the thorough check of `arco doctor`.
"""

from pathlib import Path

import msgspec

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


class StoreSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How another process opens a store and a workspace in it: everything but secrets.

    Secrets come from the environment of that process, or from the identity of its machine.
    """

    scheme: str
    place: str
    prefix: str = ""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    tenant: str = "default"
    workspace: str = "default"
    fsync: bool = True

    def open(self, runtime: Runtime) -> Store:
        """The store with the compactor's role; the sender has already checked that it is conformant."""
        address = Address(self.scheme, self.place, self.prefix, self.options)
        backend = open_backend(address, runtime, fsync=self.fsync)
        scope = Scope(tenant=self.tenant, workspace=self.workspace)
        return Store(backend, runtime, scope=scope, role=Role.COMPACTOR)


def make_store_spec(address: Address, scope: Scope, *, fsync: bool = True) -> StoreSpec:
    """The spec of a store; `Unsupported` for one that other processes cannot open."""
    if address.scheme == "memory":
        raise Unsupported(
            "other processes cannot open a store in memory: use another store for Spark"
        )
    return StoreSpec(
        scheme=address.scheme,
        place=address.location,
        prefix=address.prefix,
        options=address.options,
        tenant=scope.tenant,
        workspace=scope.workspace,
        fsync=fsync,
    )


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
