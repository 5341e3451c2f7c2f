"""A journal of the system calls that durability depends on, in the order in which they are made."""

import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pytest


def opened_at(fd: int) -> Path:
    """The path of the file of a descriptor."""
    return Path(f"/proc/self/fd/{fd}").readlink()


class Journal:
    """Records syncs, links, unlinks and renames below a root, and fails those that the test names.

    Entries read `sync file`, `link a/x`, `sync a`; the root itself is `.`.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.entries: list[str] = []
        self.failing: Counter[str] = Counter()  # an entry, and how many times it is to fail
        self.synced_twice: list[int] = []
        self._synced: set[int] = set()
        self._real = {name: getattr(os, name) for name in ("fsync", "link", "unlink", "open")}
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(os, "fdatasync", self._fsync)
        monkeypatch.setattr(os, "link", self._link)
        monkeypatch.setattr(os, "unlink", self._unlink)
        monkeypatch.setattr(os, "open", self._open)

    def clear(self) -> None:
        self.entries.clear()

    def _note(self, entry: str) -> None:
        failed = self.failing[entry] > 0
        self.entries.append(f"{entry} failed" if failed else entry)
        if failed:
            self.failing[entry] -= 1
            raise OSError(5, "Input/output error")

    def _open(self, *args: Any, **kwargs: Any) -> int:
        fd: int = self._real["open"](*args, **kwargs)
        self._synced.discard(fd)
        return fd

    def _fsync(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self._note(f"sync {self._name(opened_at(fd))}")
        else:
            if fd in self._synced:
                self.synced_twice.append(fd)
            self._synced.add(fd)
            self._note("sync file")
        self._real["fsync"](fd)

    def _link(self, source: str, name: str, *, dst_dir_fd: int, **others: Any) -> None:
        self._note(f"link {self._name(self._within(dst_dir_fd, name))}")
        self._real["link"](source, name, dst_dir_fd=dst_dir_fd, **others)

    def _unlink(self, path: str, *, dir_fd: int) -> None:
        unlinked = self._name(self._within(dir_fd, path))
        if not unlinked.startswith(".arco/"):
            self._note(f"unlink {unlinked}")
        self._real["unlink"](path, dir_fd=dir_fd)

    def _within(self, dir_fd: int, name: str) -> Path:
        return opened_at(dir_fd) / name

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
