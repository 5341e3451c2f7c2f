"""One book of runs in a workspace: two of them would give the same task to two workers.

On a local disk the operating system keeps watch, and lets go of the lock with the process, however that
ends. Elsewhere the store does: whoever keeps the book says so every few seconds.
"""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from arco.cli.place import Place
from arco.core.errors import ArcoError, Denied, StoreFull, Unavailable
from arco.core.tasks import Event
from arco.flow.coordinator.coordinator_lease import CoordinatorLease
from arco.storage.local import FULL_DISK
from arco.storage.store import Store

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_BRIEFLY = ", for a moment"


class BookTaken(Unavailable):
    """Another process keeps the book. `is_brief`: for a moment, so waiting is a help."""

    is_brief = False


class BookLock(Protocol):
    """The right to keep the book of a place. `lost` is set if somebody else may have it by now."""

    lost: Event

    async def take(self) -> None:
        """`BookTaken` if another process has it."""

    async def release(self) -> None:
        """Let others have it."""


def lock_of(place: Place, store: Store, *, briefly: bool = False) -> BookLock:
    """The lock of a place; `store` is a handle of role api on it. Who takes it `briefly` says so."""
    address, scope = place.address(), place.scope()
    process = f"process {os.getpid()}{_BRIEFLY if briefly else ''}"
    if address.scheme == "file":
        name = f"runs-{scope.tenant}-{scope.workspace}.lock"
        file = Path(address.place) / ".arco" / name
        return FileLock(file, place.describe(), store.runtime.tasks.event(), process)
    if address.scheme == "memory":
        return NoLock(store.runtime.tasks.event())
    tenure = CoordinatorLease(store, f"{socket.gethostname()}, {process}")
    return StoreLock(tenure, place.describe())


class NoLock:
    """For a store that nobody else can reach."""

    def __init__(self, lost: Event) -> None:
        self.lost = lost

    async def take(self) -> None:
        """There is nobody to take it from."""

    async def release(self) -> None:
        """There is nobody to have it."""


class FileLock:
    """A file of this machine, which says to others who has it."""

    def __init__(self, file: Path, place: str, lost: Event, process: str) -> None:
        self.lost = lost  # never: the system takes it from nobody
        self._process = process
        self._file = file
        self._place = place
        self._held: int | None = None

    async def take(self) -> None:
        if self._held is not None:
            return
        opened = self._open()
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            with os.fdopen(opened) as other:
                who = other.read(100).strip()
            raise taken(self._place, who) from held
        self._held = opened
        with suppress(OSError):  # of a full disk: others are kept out all the same
            os.ftruncate(opened, 0)
            os.write(opened, f"{self._process}\n".encode())

    def _open(self) -> int:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise not_writable(self._place, problem) from problem

    async def release(self) -> None:
        if self._held is not None:
            with suppress(OSError):
                os.ftruncate(self._held, 0)
            os.close(self._held)
            self._held = None


class StoreLock:
    """An epoch in the store, with the words for people."""

    def __init__(self, tenure: CoordinatorLease, place: str) -> None:
        self.lost = tenure.lost
        self._tenure = tenure
        self._place = place

    async def take(self) -> None:
        who = await self._tenure.take()
        if who is not None:
            raise taken(self._place, who)

    async def release(self) -> None:
        await self._tenure.release()


def not_writable(place: str, problem: OSError) -> ArcoError:
    """That nothing can be written there, why, and what to do."""
    said = f"{place} cannot be written: {os.strerror(problem.errno or 0).lower()}"
    if problem.errno in FULL_DISK:
        return StoreFull(said)
    refused: ArcoError = Denied(said) if problem.errno in _REFUSED else Unavailable(said)
    refused.add_note(
        "Runs are kept there: make it writable, or name another directory with --root."
    )
    return refused


def taken(place: str, who: str) -> BookTaken:
    """That somebody else has it, and what to do."""
    which = f" ({who})" if who else ""
    problem = BookTaken(f"another Arco{which} keeps the book of runs at {place}")
    problem.is_brief = not who or who.endswith(_BRIEFLY)  # nameless: it is about to write who it is
    problem.add_note(
        "Wait for its end, or stop it; if it is an `arco up`, give its --url instead of a place."
    )
    return problem
