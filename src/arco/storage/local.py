"""The local disk as a first-class store (P4).

A create writes a file without a name, syncs it, links it to its key, and syncs the directory and every
ancestor not yet known to be durable; the link decides between racers, in any number of processes. A
file whose sync failed is thrown away and never synced again, because the kernel forgets what it could
not write. Small and missing objects are read in place: a thread would cost more than the read.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NoReturn

from arco.core.errors import AlreadyExists, ArcoError, Denied, Invalid, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.storage.backend import Meta
from arco.storage.directory import Directory, Parts, Tree, path_error
from arco.storage.mounts import require_local
from arco.storage.scratch import (
    PRIVATE,
    open_named,
    open_unnamed,
    scratch_directory,
    scratch_name,
    sweep,
    write_all,
)
from arco.storage.signing import UrlSigner

_READ_IN_PLACE_BYTES = 256 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)


class LocalBackend:
    """Objects as files below one directory."""

    def __init__(
        self,
        root: Path,
        runtime: Runtime,
        *,
        fsync: bool = True,
        signer: UrlSigner | None = None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        require_local(root)
        self._scratch = scratch_directory(root)
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.swept = sweep(root)
        self._tree = Tree(str(root), fsync=fsync)
        self._runtime = runtime
        self._fsync = fsync
        self._signer = signer
        if fsync:
            _sync_path(root.parent)

    async def get(self, key: str) -> bytes:
        fd, size = self._open(key)
        if size <= _READ_IN_PLACE_BYTES:
            return _read(fd, 0, size)
        return await self._runtime.tasks.in_thread(lambda: _read(fd, 0, size))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        fd, size = self._open(key)
        wanted = max(0, min(length, size - start))
        if wanted <= _READ_IN_PLACE_BYTES:
            return _read(fd, start, wanted)
        return await self._runtime.tasks.in_thread(lambda: _read(fd, start, wanted))

    async def head(self, key: str) -> Meta:
        fd, size = self._open(key)
        try:
            return Meta(key, size, os.fstat(fd).st_mtime_ns // 1_000_000)
        finally:
            os.close(fd)

    async def create(self, key: str, body: bytes) -> None:
        await self._runtime.tasks.in_thread(lambda: self._create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._runtime.tasks.in_thread(lambda: self._replace(key, body))

    async def delete(self, key: str) -> None:
        await self._runtime.tasks.in_thread(lambda: self._delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        parts = tuple(prefix.split("/")[:-1])
        for meta in self._walk(parts, after.encode()):
            yield meta

    async def settle(self, key: str) -> None:
        parts, _ = _split(key)
        try:
            await self._runtime.tasks.in_thread(lambda: self._tree.sync(parts))
        except OSError as problem:
            _translate(problem, key)

    async def sign(self, key: str, expires_s: int) -> str:
        if self._signer is None:
            raise Invalid("this local store has no address to sign URLs for; start a server")
        return self._signer.sign(key, self._runtime.clock.now_ms() // 1000 + expires_s)

    def _open(self, key: str) -> tuple[int, int]:
        parts, name = _split(key)
        directory = self._directory(parts)
        if directory is None:
            raise NotFound(f"there is no object {key}")
        try:
            fd = os.open(name, _OPEN, dir_fd=directory.fd)
        except FileNotFoundError as missing:
            raise NotFound(f"there is no object {key}") from missing
        except OSError as problem:
            _translate(problem, key)
        stat = os.fstat(fd)
        if not _is_file(stat):
            os.close(fd)
            raise NotFound(f"there is no object {key}")
        return fd, stat.st_size

    def _directory(self, parts: Parts) -> Directory | None:
        found = self._tree.find(parts)
        if found is not None and found.removed():
            self._tree.forget()
            return self._tree.find(parts)
        return found

    def _create(self, key: str, body: bytes) -> None:
        parts, name = _split(key)
        try:
            directory = self._directory(parts) or self._tree.make(parts)
            self._link(directory, name, body)
            self._tree.sync(parts)
        except FileExistsError as taken:
            raise AlreadyExists(f"{key} exists") from taken
        except OSError as problem:
            _translate(problem, key)

    def _link(self, directory: Directory, name: str, body: bytes) -> None:
        fd = open_unnamed(directory.fd)
        scratch = None
        if fd is None:
            scratch = self._scratch / scratch_name()
            fd = open_named(scratch)
        try:
            write_all(fd, body)
            if self._fsync:
                os.fsync(fd)
            source = str(scratch) if scratch else f"/proc/self/fd/{fd}"
            os.link(source, name, dst_dir_fd=directory.fd, follow_symlinks=scratch is None)
        finally:
            os.close(fd)
            if scratch:
                scratch.unlink(missing_ok=True)

    def _replace(self, key: str, body: bytes) -> None:
        parts, name = _split(key)
        scratch = self._scratch / scratch_name()
        try:
            directory = self._tree.make(parts)
            fd = open_named(scratch)
            try:
                write_all(fd, body)
            finally:
                os.close(fd)
            os.rename(scratch, name, dst_dir_fd=directory.fd)
        except OSError as problem:
            scratch.unlink(missing_ok=True)
            _translate(problem, key)

    def _delete(self, key: str) -> None:
        parts, name = _split(key)
        directory = self._directory(parts)
        if directory is None:
            return
        try:
            os.unlink(name, dir_fd=directory.fd)
            # Collectors delete in an order that matters (P14), so each step is made to last.
            self._tree.sync(parts)
        except (FileNotFoundError, IsADirectoryError):
            return
        except OSError as problem:
            _translate(problem, key)

    def _walk(self, parts: Parts, after: bytes) -> Iterator[Meta]:
        directory = self._tree.find(parts)
        if directory is None:
            return
        for entry, is_directory in _entries(directory, at_root=not parts):
            below = (*parts, entry)
            path = "/".join(below)
            if is_directory:
                # Skip a subtree only if every key in it sorts at or below `after`.
                if not _all_below(path, after):
                    yield from self._walk(below, after)
            elif path.encode() > after:
                stat = os.stat(entry, dir_fd=directory.fd, follow_symlinks=False)
                yield Meta(path, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _split(key: str) -> tuple[Parts, str]:
    *parts, name = key.split("/")
    if (parts or [name])[0] == PRIVATE:
        raise Invalid(f"{PRIVATE} is the store's own directory")
    return tuple(parts), name


def _read(fd: int, start: int, length: int) -> bytes:
    try:
        chunks = []
        while length > 0:
            chunk = os.pread(fd, length, start)
            if not chunk:
                break
            chunks.append(chunk)
            start += len(chunk)
            length -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def _entries(directory: Directory, *, at_root: bool) -> list[tuple[str, bool]]:
    """Names in the order in which their keys sort: a directory sorts as its name with a slash."""
    with os.scandir(directory.fd) as scan:
        found = [
            (each.name, each.is_dir(follow_symlinks=False))
            for each in scan
            if not each.is_symlink() and not (at_root and each.name == PRIVATE)
        ]
    return sorted(found, key=lambda each: os.fsencode(each[0]) + (b"/" if each[1] else b""))


def _all_below(directory: str, after: bytes) -> bool:
    prefix = directory.encode() + b"/"
    return prefix <= after and not after.startswith(prefix)


def _is_file(stat: os.stat_result) -> bool:
    return stat.st_mode & 0o170000 == 0o100000


def _sync_path(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _translate(problem: OSError, key: str) -> NoReturn:
    meant = path_error(problem, tuple(key.split("/")))
    if isinstance(meant, ArcoError):
        raise meant from problem
    if isinstance(problem, PermissionError):
        raise Denied(f"the file system does not allow this on {key}") from problem
    raise Unavailable(f"the disk answered with error {problem.errno} on {key}") from problem
