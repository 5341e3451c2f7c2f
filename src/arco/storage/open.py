"""Opening: from an address to a handle that a process may use."""

from pathlib import Path

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import Address
from arco.storage.backend import Backend
from arco.storage.probe import prove_put_if_absent
from arco.storage.retry import Retry
from arco.storage.roles import Role, Verb, patterns
from arco.storage.signing import UrlSigner
from arco.storage.store import Store


def open_backend(
    address: Address,
    runtime: Runtime,
    *,
    fsync: bool = True,
    signer: UrlSigner | None = None,
    shared: bool = False,
) -> Backend:
    """The backend behind an address. Its libraries are imported here, when they are needed.

    A `shared` place is not ours: on a local disk others make, move and delete its directories too.
    """
    if address.scheme == "file":
        from arco.storage.local import LocalBackend

        return LocalBackend(Path(address.place), runtime, fsync=fsync, signer=signer, shared=shared)
    from arco.storage.cloud import CloudBackend, connect

    own = signer if address.scheme == "memory" else None
    return CloudBackend(connect(address), runtime, root=address.prefix, signer=own)


async def open_store(
    backend: Backend,
    runtime: Runtime,
    *,
    role: Role,
    scope: Scope | None = None,
    retry: Retry | None = None,
) -> Store:
    """A handle for one role in one scope, on a store that was proven sound."""
    store = Store(backend, runtime, scope=scope or Scope(), role=role, retry=retry)
    if patterns(role, Verb.CREATE):
        await prove_put_if_absent(store)
    return store
