"""External locations: declared locations outside the store, where tables of other programs may be.

They have no scope and no chains. Arco reads there and creates files, and never overwrites one; only the
janitor lists and deletes (`roles`). Other programs use the location too and may create and delete it: a
local directory is created only when a file is written to it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from arco.core.errors import ArcoError, Denied, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.storage.address import Address
from arco.storage.backend import Backend, Meta
from arco.storage.directory_tree import SharedDirectoryTree
from arco.storage.key import check_key, check_prefix
from arco.storage.open import open_backend
from arco.storage.retry import RetryingBackend, StoreRetryPolicy
from arco.storage.roles import Role, Verb, may_in_external_location


class ExternalLocation:
    """Files below one declared location, with the permissions of one role."""

    def __init__(self, requests: RetryingBackend, *, role: Role) -> None:
        self._requests = requests
        self.role = role

    async def get(self, key: str, *, size_bytes: int = 0) -> bytes:
        """All bytes of a file, or `NotFound`; `size_bytes` extends the time limit for a large file."""
        self._admit(Verb.GET, key)
        return await self._requests.get(key, size_bytes)

    async def find(self, key: str) -> bytes | None:
        """All bytes of a file, or None if it does not exist."""
        try:
            return await self.get(key)
        except NotFound:
            return None

    async def exists(self, key: str) -> bool:
        """Whether the file exists."""
        self._admit(Verb.GET, key)
        try:
            await self._requests.head(key)
        except NotFound:
            return False
        return True

    async def create(self, key: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if another file exists, `Unknown` if unclear."""
        self._admit(Verb.CREATE, key)
        await self._requests.create(key, body)

    async def delete(self, key: str) -> None:
        """Remove a file; a missing file is no error."""
        self._admit(Verb.DELETE, key)
        await self._requests.delete(key)

    async def list(self, prefix: str) -> AsyncIterator[Meta]:
        """Files below `prefix`, in byte order: only for a purge (law 6)."""
        self._check_role(Verb.LIST)
        check_prefix(prefix)
        async for meta in self._requests.list(prefix):
            yield meta

    def as_role(self, role: Role) -> "ExternalLocation":
        """The same location with the permissions of another role of this process."""
        return ExternalLocation(self._requests, role=role)

    def _admit(self, verb: Verb, key: str) -> None:
        check_key(key)
        self._check_role(verb)

    def _check_role(self, verb: Verb) -> None:
        if not may_in_external_location(self.role, verb):
            raise Denied(f"role {self.role} may not {verb} in an external location")


def open_external_location(
    address: Address,
    runtime: Runtime,
    *,
    role: Role,
    fsync: bool = True,
    retry: StoreRetryPolicy | None = None,
    watched: Callable[[Backend], Backend] | None = None,
) -> ExternalLocation:
    """A handle for one role on a declared location.

    Put-if-absent is not checked there, as it is for a store: every file name is used once, and correctness
    does not depend on such a location.
    """
    backend = open_backend(address, runtime, fsync=fsync, shared=True)
    requests = RetryingBackend(watched(backend) if watched else backend, runtime, retry=retry)
    return ExternalLocation(requests, role=role)


def make_folders(root: Path, folders: Sequence[str]) -> None:
    """Create missing directories below `root`, following no symbolic link."""
    try:
        tree = SharedDirectoryTree(root, fsync=False)
        for each in folders:
            tree.make(tuple(check_key(each).split("/")))
    except ArcoError:
        raise
    except PermissionError as problem:
        raise Denied("the file system does not allow making the folders of a table") from problem
    except OSError as problem:
        raise Unavailable(
            f"the disk answered with error {problem.errno} when the folders of a table were made"
        ) from problem
