"""Directories of the local store, held open (P4).

Every part of a path is opened below its parent's descriptor with O_NOFOLLOW, so that no symbolic link,
present or created later, leads out of the root. Open directories are cached, so that a missing object costs
one system call. A directory is durable once the directory above it was synced; a directory that this
process has not synced itself is not known to be durable.
"""

import errno
import os
import threading
from pathlib import Path

from arco.core.errors import Denied, Invalid, Unavailable, Unsupported
from arco.core.lru_cache import LruCache

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_OPEN = 512
_MAX_DURABLE = 16_384
# Above the root there may be what we cannot read or what cannot be synced; it was there before us.
_NOT_OURS_TO_SYNC = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS)

Parts = tuple[str, ...]


class Descriptor:
    """An open file, closed when the last reference to it is gone."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Directory(Descriptor):
    """An open directory."""

    __slots__ = ()

    def removed(self) -> bool:
        """Whether the directory was deleted since it was opened."""
        return os.fstat(self.fd).st_nlink == 0


class DirectoryTree:
    """All directories below one root."""

    def __init__(self, root: str, *, fsync: bool) -> None:
        self._root = Directory(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        self._device = os.fstat(self._root.fd).st_dev
        self._open = LruCache[Parts, Directory](_MAX_OPEN)
        self._durable = LruCache[Parts, bool](_MAX_DURABLE)
        self._fsync = fsync
        self._lock = threading.Lock()

    def find(self, parts: Parts) -> Directory | None:
        """The directory at `parts`, or None if it does not exist."""
        if not parts:
            return self._root
        remembered = self._recall(parts)
        if remembered is not None and not remembered.removed():
            return remembered
        if remembered is not None:
            self.forget()
        parent = self.find(parts[:-1])
        return None if parent is None else self._enter(parent, parts)

    def make(self, parts: Parts) -> Directory:
        """The directory at `parts`, created with its ancestors where missing."""
        directory = self.find(parts)
        if directory is not None:
            return directory
        parent = self.make(parts[:-1])
        try:
            os.mkdir(parts[-1], dir_fd=parent.fd)
        except FileExistsError:
            pass
        except OSError as problem:
            raise path_error(problem, parts) from problem
        created = self._enter(parent, parts)
        if created is None:
            raise Unavailable(f"{'/'.join(parts)} vanished while it was created; retry")
        return created

    def sync(self, parts: Parts) -> None:
        """Make the entries of `parts` durable, and those that lead to it."""
        if not self._fsync:
            return
        durable = self._durable  # if `forget` replaces it, what is added here is dropped too
        directory = self.make(parts)  # held, or its descriptor may be closed and reused
        os.fsync(directory.fd)
        while parts and parts not in durable:
            directory = self.make(parts[:-1])
            os.fsync(directory.fd)
            with self._lock:
                durable.put(parts, True)
            parts = parts[:-1]

    def forget(self) -> None:
        """Clear the caches: another process has changed the tree."""
        with self._lock:
            self._open.clear()
            self._durable = LruCache[Parts, bool](_MAX_DURABLE)

    def _enter(self, parent: Directory, parts: Parts) -> Directory | None:
        try:
            fd = os.open(parts[-1], _FLAGS, dir_fd=parent.fd)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise path_error(problem, parts) from problem
        entered = Directory(fd)
        if os.fstat(fd).st_dev != self._device:
            # The file system was checked for the root only (law 13).
            raise Unsupported(f"{'/'.join(parts)} is another mount, which Arco does not enter")
        with self._lock:
            self._open.put(parts, entered)
        return entered

    def _recall(self, parts: Parts) -> Directory | None:
        with self._lock:
            return self._open.get(parts)


class SharedDirectoryTree:
    """All directories below one root that other programs use as well.

    They create, move and delete directories, so nothing is cached between two calls. The root is created
    when a file is to be written, and not before. No symbolic link below it is followed.
    """

    def __init__(self, root: Path, *, fsync: bool) -> None:
        self._root = root
        self._fsync = fsync
        if root.exists():
            self._walk()  # refuses a root that is no directory at once

    def find(self, parts: Parts) -> Directory | None:
        """The directory at `parts`, or None if it does not exist."""
        try:
            return self._walk().find(parts)
        except FileNotFoundError:
            return None

    def make(self, parts: Parts) -> Directory:
        """The directory at `parts`, created with its ancestors where missing."""
        if not self._root.exists():
            self._root.mkdir(parents=True, exist_ok=True)
            if self._fsync:
                sync_ancestors(self._root)
        return self._walk().make(parts)

    def sync(self, parts: Parts) -> None:
        """Make the entries of `parts` durable, and those that lead to it."""
        self._walk().sync(parts)

    def _walk(self) -> DirectoryTree:
        return DirectoryTree(str(self._root), fsync=self._fsync)


def sync_directory(path: Path) -> None:
    """Make the entries of a directory outside a tree durable."""
    directory = Directory(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    os.fsync(directory.fd)


def sync_ancestors(root: Path) -> None:
    """Make the root itself durable: its parents may have been created just now."""
    for directory in root.resolve().parents:
        try:
            sync_directory(directory)
        except OSError as problem:
            if problem.errno not in _NOT_OURS_TO_SYNC:
                raise


def path_error(problem: OSError, parts: Parts) -> Exception:
    """The error for a failed access to a path, without the path of the root."""
    path = "/".join(parts)
    if problem.errno == errno.ELOOP:
        return Denied(f"{path} is a symbolic link, which is never followed")
    if problem.errno in (errno.ENOTDIR, errno.EISDIR):
        # O_NOFOLLOW on a link with O_DIRECTORY says ENOTDIR: both mean that the path is not ours.
        return Invalid(f"{path} does not match the key: the path is a file, a directory or a link")
    if problem.errno == errno.ENAMETOOLONG:
        return Invalid(f"{path[:80]}… is too long for this file system")
    return problem
