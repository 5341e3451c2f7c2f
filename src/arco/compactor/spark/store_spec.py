"""How another process opens the store: everything but secrets.

Secrets come from the environment of that process, or from the identity of its machine.
"""

import msgspec

from arco.core.errors import Unsupported
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import Address
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store


class StoreSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A store and a workspace in it."""

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
