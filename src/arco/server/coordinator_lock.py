"""The lock of a workspace's coordinator: two coordinators would lease the same task to two workers.

On a local disk the operating system holds the lock and releases it when the process ends. On other stores
the lock is an epoch in the store, which its holder renews every few seconds.
"""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from arco.core.errors import ArcoError, Denied, StoreFull, Unavailable
from arco.core.tasks import AsyncEvent
from arco.flow.coordinator.coordinator_lease import CoordinatorLease
from arco.flow.coordinator.ports import CoordinatedElsewhere
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.local import FULL_DISK
from arco.storage.store import Store

_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)
_BRIEFLY = ", for a moment"


class CoordinatorLockTaken(CoordinatedElsewhere):
    """Another process has the lock. `is_brief`: for a moment only, so waiting helps."""

    is_brief = False


class CoordinatorLock(Protocol):
    """The right to coordinate the runs of a workspace. `lost` is set if another process may have it."""

    lost: AsyncEvent

    async def take(self) -> None:
        """Take the lock, or `CoordinatorLockTaken`."""

    async def release(self) -> None:
        """Release the lock."""


def open_coordinator_lock(
    address: WorkspaceAddress, store: Store, *, briefly: bool = False
) -> CoordinatorLock:
    """The lock of a workspace; `store` has the role api. A holder for a moment only passes `briefly`."""
    parsed, scope = address.address(), address.scope()
    process = f"process {os.getpid()}{_BRIEFLY if briefly else ''}"
    if parsed.scheme == "file":
        name = f"runs-{scope.tenant}-{scope.workspace}.lock"
        file = Path(parsed.location) / ".arco" / name
        return FileLock(file, address.describe(), store.runtime.tasks.event(), process)
    if parsed.scheme == "memory":
        return NoLock(store.runtime.tasks.event())
    lease = CoordinatorLease(store, f"{socket.gethostname()}, {process}")
    return StoreLock(lease, address.describe())


class NoLock:
    """For a store in memory, which no other process can reach."""

    def __init__(self, lost: AsyncEvent) -> None:
        self.lost = lost

    async def take(self) -> None:
        """Nothing to do."""

    async def release(self) -> None:
        """Nothing to do."""


class FileLock:
    """A locked file on this machine, which names its holder."""

    def __init__(self, file: Path, store: str, lost: AsyncEvent, process: str) -> None:
        self.lost = lost  # never set: the system does not take a lock away
        self._process = process
        self._file = file
        self._store = store
        self._descriptor: int | None = None

    async def take(self) -> None:
        if self._descriptor is not None:
            return
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            with os.fdopen(descriptor) as file:
                holder = file.read(100).strip()
            raise lock_taken(self._store, holder) from held
        self._descriptor = descriptor
        with suppress(OSError):  # of a full disk: the lock holds all the same
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{self._process}\n".encode())

    def _open(self) -> int:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise _not_writable(self._store, problem) from problem

    async def release(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


class StoreLock:
    """An epoch in the store."""

    def __init__(self, lease: CoordinatorLease, store: str) -> None:
        self.lost = lease.lost
        self._lease = lease
        self._store = store

    async def take(self) -> None:
        holder = await self._lease.take()
        if holder is not None:
            raise lock_taken(self._store, holder)

    async def release(self) -> None:
        await self._lease.release()


def lock_taken(store: str, holder: str) -> CoordinatorLockTaken:
    """The error for a lock of another process: which one, and what to do."""
    which = f" ({holder})" if holder else ""
    problem = CoordinatorLockTaken(f"another Arco{which} coordinates the runs at {store}")
    # A holder without a name is about to write it.
    problem.is_brief = not holder or holder.endswith(_BRIEFLY)
    problem.add_note(
        "Wait for its end, or stop it; if it is an `arco up`, give its --url instead of --root or --store."
    )
    return problem


def _not_writable(store: str, problem: OSError) -> ArcoError:
    message = f"{store} cannot be written: {os.strerror(problem.errno or 0).lower()}"
    if problem.errno in FULL_DISK:
        return StoreFull(message)
    error: ArcoError = Denied(message) if problem.errno in _NOT_WRITABLE else Unavailable(message)
    error.add_note("Runs are kept there: make it writable, or name another directory with --root.")
    return error
