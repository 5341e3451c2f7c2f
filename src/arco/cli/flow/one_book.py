"""One book of runs in a workspace: two of them would give the same task to two workers.

On a local disk the operating system keeps watch, and lets go of the lock with the process, however that
ends. On a store of a cloud whoever deploys it decides which process keeps the book (`arco api --no-runs`).
"""

import fcntl
import os
from pathlib import Path

from arco.cli.place import Place
from arco.core.errors import Unavailable


class BookLock:
    """The right to keep the book of a place, as far as this machine can tell."""

    def __init__(self, place: Place) -> None:
        address, scope = place.address(), place.scope()
        self._file: Path | None = None
        if address.scheme == "file":
            name = f"runs-{scope.tenant}-{scope.workspace}.lock"
            self._file = Path(address.place) / ".arco" / name
        self._place = place.describe()
        self._held: int | None = None

    def take(self) -> None:
        """`Unavailable` if another process has it."""
        if self._file is None or self._held is not None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            os.close(opened)
            taken = Unavailable(f"another Arco keeps the book of runs at {self._place}")
            taken.add_note("Speak to that one with --url, or stop it first.")
            raise taken from held
        self._held = opened

    def release(self) -> None:
        """Let others have it."""
        if self._held is not None:
            os.close(self._held)
            self._held = None
