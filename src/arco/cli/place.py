"""A place: a store and a workspace in it, as the flags of a command name them."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag, Name, address_of, describe, scope_of
from arco.core.errors import Invalid, NotFound
from arco.core.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from arco.api.health_monitor import DiskSpace
    from arco.core.rng import Rng
    from arco.core.runtime import Runtime
    from arco.storage.address import Address
    from arco.storage.backend import Backend

KEY_FILE = "ARCO_SIGNING_KEY_FILE"

_DEFAULT_NAME = "default"

# How engines spell the same bucket.
_SPELLINGS = {"s3": ("s3", "s3a", "s3n"), "az": ("az", "abfs", "abfss", "wasb", "wasbs")}


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Flags that name a store and a workspace.

    Parameters
    ----------
    root
        A local directory; ./.arco if neither this nor a store is given.
    store
        A store by its URL: s3://bucket/prefix, gs://bucket, az://container?account=name, file:///dir
        or memory://. ARCO_STORAGE_BUCKET works too.
    tenant
        The tenant; ARCO_TENANT_ID works too.
    workspace
        The workspace; ARCO_WORKSPACE_ID works too.
    no_fsync
        Do not wait for the disk: for tests, never for data.
    """

    root: Annotated[str | None, Parameter(metavar="DIR")] = None
    store: Annotated[str | None, Parameter(metavar="URL")] = None
    tenant: Annotated[Name, Parameter(env_var="ARCO_TENANT_ID")] = _DEFAULT_NAME
    workspace: Annotated[Name, Parameter(env_var="ARCO_WORKSPACE_ID")] = _DEFAULT_NAME
    no_fsync: Flag = False

    def address(self) -> "Address":
        """The store."""
        return address_of(self.root, self.store)

    def scope(self) -> Scope:
        """The workspace."""
        return scope_of(self.tenant, self.workspace)

    def describe(self) -> str:
        """The store for people."""
        return describe(self.address())

    def backend(self, runtime: "Runtime") -> "Backend":
        """The store, opened."""
        from arco.storage.open import open_backend

        return open_backend(self.address(), runtime, fsync=not self.no_fsync)

    def is_there(self) -> bool:
        """Whether there may be a store: of a directory that holds none it is known that there is none."""
        address = self.address()
        return address.scheme != "file" or _holds_a_store(Path(address.place))

    def check_there(self) -> None:
        """`NotFound` if there is no such directory: opening would make it, and who looks makes nothing."""
        if not self.is_there():
            missing = NotFound(f"there is no store at {self.describe()}")
            missing.add_note("Check --root and --store.")
            raise missing

    def flags(self) -> str:
        """The flags that name this place, for a shell in any directory; none for the default place."""
        address, named = self.address(), []
        if address.scheme != "file":
            named += ["--store", self.store or str(address)]
        elif (self.root, self.store) != (None, None):
            named += ["--root", address.place]
        for flag, name in (("--tenant", self.tenant), ("--workspace", self.workspace)):
            if name != _DEFAULT_NAME:
                named += [flag, name]
        return shlex.join(named)

    def arguments(self) -> list[str]:
        """The same flags for a process of ours, in the same directory and with the same variables."""
        named = ["--tenant", self.tenant, "--workspace", self.workspace]
        if self.root is not None:
            named += ["--root", self.root]
        if self.store is not None:
            named += ["--store", self.store]
        return [*named, "--no-fsync"] if self.no_fsync else named

    def own_roots(self) -> tuple[str, ...]:
        """The store's root in every spelling: no external table may lie in it."""
        address = self.address()
        if address.scheme == "memory":
            return ()
        if address.scheme == "file":
            return (Path(os.path.normpath(address.place)).as_uri() + "/",)
        schemes = _SPELLINGS.get(address.scheme, (address.scheme,))
        return tuple(f"{each}://{address.place}/{address.prefix}" for each in schemes)

    def location_root(self) -> str:
        """What stands before the location of a managed table to make it a URL for engines.

        They take a location as it is written, so nothing in it is escaped.
        """
        address = self.address()
        if address.scheme == "file":
            root = f"file://{os.path.normpath(address.place)}/"
        elif address.scheme == "az" and "account" in address.options:
            host = f"{address.place}@{address.options['account']}.dfs.core.windows.net"
            root = f"abfss://{host}/{address.prefix}"
        elif address.scheme == "memory":
            root = "memory://"
        else:
            root = f"{address.scheme}://{address.place}/{address.prefix}"
        return root + self.scope().prefix

    def disk(self) -> "Callable[[], DiskSpace] | None":
        """What measures the disk of a local store; None for any other."""
        from arco.api.health_monitor import DiskSpace

        address = self.address()
        if address.scheme != "file":
            return None

        def measure() -> DiskSpace:
            found = os.statvfs(address.place)
            return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

        return measure

    def signing_key(self, rng: "Rng", *, make_named: bool = False) -> bytes:
        """The key of this installation, made on first use where it lies in the store's own directory.

        A file that is named and missing is most often a wrong path or a mount that failed, and a new key
        would refuse every token there is: it is made only on `make_named`.
        """
        from arco.storage.signing import installation_key

        named = os.environ.get(KEY_FILE)
        if named:
            if not make_named and not Path(named).exists():
                raise _missing_key(named)
            return installation_key(Path(named), rng)
        address = self.address()
        if address.scheme != "file":
            raise Invalid(
                f"set {KEY_FILE} to a file with the installation's key: this store has no place for it"
            )
        return installation_key(Path(address.place) / ".arco" / "key", rng)


def _missing_key(path: str) -> NotFound:
    missing = NotFound(f"{KEY_FILE} names {path!r}, and there is no such file")
    quoted = shlex.quote(path)
    missing.add_note(
        "Check the path; for a new installation make one with "
        f"`(umask 077; openssl rand -out {quoted} 32)`, or start `arco up` once, which makes it."
    )
    return missing


def _holds_a_store(root: Path) -> bool:
    """Whether somebody has begun a store here, or has copied one: a copy may lack our own folder."""
    try:
        return (root / ".arco").is_dir() or any(root.glob("tenant=*"))
    except OSError:
        return True  # opening it will tell what is the matter
