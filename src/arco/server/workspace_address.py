"""The address of a workspace: a store by its directory or URL, a tenant and a workspace in it.

`WorkspaceAddress` is both what the flags of a command name and what the processes open. Everything that
follows from the address alone is here: the store's root, the prefix of table locations, the signing key.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.core.errors import Invalid, NotFound
from arco.core.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from arco.api.health_monitor import DiskSpace
    from arco.core.runtime import Rng, Runtime
    from arco.storage.address import Address
    from arco.storage.backend import Backend

KEY_FILE = "ARCO_SIGNING_KEY_FILE"

DEFAULT_ROOT = "./.arco"

_DEFAULT_NAME = "default"

# The URL schemes by which engines name the same bucket.
_SCHEMES = {"s3": ("s3", "s3a", "s3n"), "az": ("az", "abfs", "abfss", "wasb", "wasbs")}


@Parameter(name="*")
@dataclass(frozen=True)
class WorkspaceAddress:
    """The store and the workspace that a command or process works on.

    Parameters
    ----------
    root
        A local directory; by default ./.arco.
    store
        The URL of a store: s3://bucket/prefix, gs://bucket, az://container?account=name, file:///dir
        or memory://. ARCO_STORAGE_BUCKET works too.
    tenant
        The tenant; ARCO_TENANT_ID works too.
    workspace
        The workspace; ARCO_WORKSPACE_ID works too.
    no_fsync
        Do not wait for the disk. Only for tests.
    """

    root: Annotated[str | None, Parameter(metavar="DIR")] = None
    store: Annotated[str | None, Parameter(metavar="URL")] = None
    tenant: Annotated[str, Parameter(metavar="NAME", env_var="ARCO_TENANT_ID")] = _DEFAULT_NAME
    workspace: Annotated[str, Parameter(metavar="NAME", env_var="ARCO_WORKSPACE_ID")] = (
        _DEFAULT_NAME
    )
    no_fsync: Annotated[bool, Parameter(negative="", show_default=False)] = False

    def address(self) -> "Address":
        """The parsed address of the store."""
        return address_of(self.root, self.store)

    def scope(self) -> Scope:
        """The tenant and the workspace, or `Invalid`."""
        return Scope(tenant=self.tenant, workspace=self.workspace)

    def describe(self) -> str:
        """The address of the store for a message."""
        return describe(self.address())

    def backend(self, runtime: "Runtime", *, create: bool = False) -> "Backend":
        """Open the backend of the store.

        Without `create`, a local directory that holds no store is `NotFound`, and nothing is written to it:
        a command that reads must not turn a misspelt directory into an empty store.
        """
        from arco.storage.open import open_backend

        if not create:
            self._check_exists()
        return open_backend(self.address(), runtime, fsync=not self.no_fsync)

    def exists(self) -> bool:
        """Whether a store may exist there; False only for a local directory that holds none."""
        address = self.address()
        return address.scheme != "file" or _holds_a_store(Path(address.location))

    def _check_exists(self) -> None:
        if not self.exists():
            missing = NotFound(f"there is no Arco store at {self.describe()}")
            start = f"arco up {self.flags()}".rstrip()
            missing.add_note(f"Check --root and --store, or make one with `{start}`.")
            raise missing

    def flags(self) -> str:
        """The flags for a shell in any directory; empty for the default address."""
        address, named = self.address(), []
        if address.scheme != "file":
            named += ["--store", self.store or str(address)]
        elif (self.root, self.store) != (None, None):
            named += ["--root", address.location]
        for flag, name in (("--tenant", self.tenant), ("--workspace", self.workspace)):
            if name != _DEFAULT_NAME:
                named += [flag, name]
        return shlex.join(named)

    def arguments(self) -> list[str]:
        """The flags for a child process with the same directory and environment."""
        named = ["--tenant", self.tenant, "--workspace", self.workspace]
        if self.root is not None:
            named += ["--root", self.root]
        if self.store is not None:
            named += ["--store", self.store]
        return [*named, "--no-fsync"] if self.no_fsync else named

    def own_roots(self) -> tuple[str, ...]:
        """The store's root under every scheme: no external table may be located in it."""
        address = self.address()
        if address.scheme == "memory":
            return ()
        if address.scheme == "file":
            return (Path(os.path.normpath(address.location)).as_uri() + "/",)
        schemes = _SCHEMES.get(address.scheme, (address.scheme,))
        return tuple(f"{each}://{address.location}/{address.prefix}" for each in schemes)

    def location_root(self) -> str:
        """The URL prefix of managed tables' locations. Engines use it as written: nothing is escaped."""
        address = self.address()
        if address.scheme == "file":
            root = f"file://{os.path.normpath(address.location)}/"
        elif address.scheme == "az" and "account" in address.options:
            host = f"{address.location}@{address.options['account']}.dfs.core.windows.net"
            root = f"abfss://{host}/{address.prefix}"
        elif address.scheme == "memory":
            root = "memory://"
        else:
            root = f"{address.scheme}://{address.location}/{address.prefix}"
        return root + self.scope().prefix

    def disk(self) -> "Callable[[], DiskSpace] | None":
        """A function that measures the disk of a local store; None for other stores."""
        from arco.api.health_monitor import DiskSpace

        address = self.address()
        if address.scheme != "file":
            return None

        def measure() -> DiskSpace:
            disk = os.statvfs(address.location)
            return DiskSpace(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)

        return measure

    def signing_key(self, rng: "Rng", *, make_named: bool = False) -> bytes:
        """The signing key of this installation, created on first use in a local store's directory.

        If ARCO_SIGNING_KEY_FILE names a file that does not exist, the path is most often wrong or a mount
        has failed, and a new key would invalidate every token: only `make_named` creates it. In a directory
        without a store no key is created either.
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
                f"set {KEY_FILE} to a file with the installation's key: this store cannot hold it"
            )
        self._check_exists()
        return installation_key(Path(address.location) / ".arco" / "key", rng)


def _missing_key(path: str) -> NotFound:
    missing = NotFound(f"{KEY_FILE} names {path!r}, and there is no such file")
    quoted = shlex.quote(path)
    missing.add_note(
        "Check the path; for a new installation make one with "
        f"`(umask 077; openssl rand -out {quoted} 32)`, or start `arco up` once, which makes it."
    )
    return missing


def _holds_a_store(root: Path) -> bool:
    """Whether a store was opened in this directory, or copied to it (a copy may lack `.arco`)."""
    try:
        return (root / ".arco").is_dir() or any(root.glob("tenant=*"))
    except OSError:
        return True  # opening it reports the error


def address_of(root: str | None, store: str | None) -> "Address":
    """The store that the flags name, or `Invalid` with what would be right."""
    from arco.storage.address import parse_address

    if "" in (root, store):
        raise Invalid("--root and --store need a value: leave them out for ./.arco")
    if root is not None and "://" in root:
        raise Invalid("--root takes a directory; a URL goes with --store")
    if store is not None and "/" not in store:
        raise Invalid(
            f"--store takes a URL or a path: for a bucket, name its kind, such as s3://{store}; for a "
            f"directory, pass --root {store}"
        )
    return parse_address(_expand_home(store or root or DEFAULT_ROOT))


def describe(address: "Address") -> str:
    """The address on one printable line, with its endpoint where that is not the cloud's default."""
    endpoint = address.options.get("endpoint")
    text = f"{address} (endpoint {endpoint})" if endpoint else str(address)
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _expand_home(path: str) -> str:
    """`~` as the shell expands it, for a value that was quoted or came from a variable."""
    if not path.startswith("~"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError as problem:
        raise Invalid(f"there is no home directory for {path.partition('/')[0]}") from problem
