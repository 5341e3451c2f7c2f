"""The local disk as a store (P4).

A create writes a file without a name, syncs it, links it to its key, and syncs the directory and every
ancestor not yet known to be durable; the link decides between processes that race. A file whose sync failed
is dropped and never synced again, because the kernel forgets what it could not write. Small and missing
objects are read in place: a thread would cost more than the read.
"""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import NoReturn

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Denied,
    Invalid,
    NotFound,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)
from arco.core.runtime import Runtime
from arco.storage.backend import Meta
from arco.storage.directory_tree import (
    Descriptor,
    Directory,
    DirectoryTree,
    Parts,
    SharedDirectoryTree,
    path_error,
    sync_ancestors,
)
from arco.storage.mounts import require_local
from arco.storage.scratch import (
    PRIVATE,
    SCRATCH,
    open_named,
    open_unnamed,
    remove_named,
    scratch_name,
    sweep,
    write_all,
)
from arco.storage.signing import UrlSigner

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY = "the disk of the store is read-only"

_READ_IN_PLACE_BYTES = 256 * 1024
_MAX_SPLIT_KEYS = 4_096  # the heads of chains are read repeatedly
# Without O_NONBLOCK, a named pipe in the directory would block the reader.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LocalBackend:
    """Objects as files below one directory; in a `shared` one other programs work too."""

    def __init__(
        self,
        root: Path,
        runtime: Runtime,
        *,
        fsync: bool = True,
        signer: UrlSigner | None = None,
        shared: bool = False,
    ) -> None:
        try:
            require_local(root)
            self._tree = (
                SharedDirectoryTree(root, fsync=fsync) if shared else _open_own(root, fsync=fsync)
            )
            scratch = self._tree.find(SCRATCH)
            self.swept = sweep(scratch.fd) if scratch is not None else 0
        except OSError as problem:
            _refuse_root(problem)
        self._runtime = runtime
        self._fsync = fsync
        self._signer = signer

    async def get(self, key: str) -> bytes:
        file, stat = self._open(key)
        return await self._read(file, 0, stat.st_size, key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        file, stat = self._open(key)
        return await self._read(file, start, max(0, min(length, stat.st_size - start)), key)

    async def head(self, key: str) -> Meta:
        _, stat = self._open(key)
        return Meta(key, stat.st_size, stat.st_mtime_ns // 1_000_000)

    async def create(self, key: str, body: bytes) -> None:
        await self._runtime.tasks.in_thread(lambda: self._create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._runtime.tasks.in_thread(lambda: self._replace(key, body))

    async def delete(self, key: str) -> None:
        await self._runtime.tasks.in_thread(lambda: self._delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        parts, _ = _split(prefix)
        try:
            async for meta in self._walk(parts, after.encode()):
                yield meta
        except OSError as problem:
            _translate(problem, prefix)

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

    def _open(self, key: str) -> tuple[Descriptor, os.stat_result]:
        parts, name = _split(key)
        try:
            directory = self._tree.find(parts)
            if directory is None:
                raise NotFound(f"the object {key} does not exist")
            file = Descriptor(os.open(name, _OPEN, dir_fd=directory.fd))
        except FileNotFoundError as missing:
            raise NotFound(f"the object {key} does not exist") from missing
        except OSError as problem:
            _translate(problem, key)
        stat = os.fstat(file.fd)
        if not S_ISREG(stat.st_mode):
            raise NotFound(f"the object {key} does not exist")
        return file, stat

    async def _read(self, file: Descriptor, start: int, length: int, key: str) -> bytes:
        try:
            if length <= _READ_IN_PLACE_BYTES:
                return _read(file, start, length)
            return await self._runtime.tasks.in_thread(lambda: _read(file, start, length))
        except OSError as problem:
            _translate(problem, key)

    def _create(self, key: str, body: bytes) -> None:
        parts, name = _split(key)
        try:
            directory = self._tree.make(parts)
            self._link(directory, name, body)
        except FileExistsError as problem:
            if _is_taken_by_other(directory, name):
                raise Invalid(
                    f"{key} cannot be an object: the path is a directory or a link"
                ) from problem
            raise AlreadyExists(f"{key} exists") from problem
        except OSError as problem:
            _refuse_full(problem)  # the link comes last: nothing was created
            _translate(problem, key)
        try:
            self._tree.sync(parts)
        except OSError as problem:
            _translate(problem, key)

    def _link(self, directory: Directory, name: str, body: bytes) -> None:
        fd = open_unnamed(directory.fd)
        if fd is not None:
            try:
                self._fill(fd, body)
                os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=directory.fd)
            finally:
                os.close(fd)
            return
        scratch, source = self._tree.make(SCRATCH), scratch_name()
        fd = open_named(source, scratch.fd)
        try:
            self._fill(fd, body)
            os.link(
                source,
                name,
                src_dir_fd=scratch.fd,
                dst_dir_fd=directory.fd,
                follow_symlinks=False,
            )
        finally:
            os.close(fd)
            remove_named(source, scratch.fd)

    def _fill(self, fd: int, body: bytes) -> None:
        write_all(fd, body)
        if self._fsync:
            os.fsync(fd)

    def _replace(self, key: str, body: bytes) -> None:
        parts, name = _split(key)
        try:
            directory, scratch = self._tree.make(parts), self._tree.make(SCRATCH)
            source = scratch_name()
            fd = open_named(source, scratch.fd)
            try:
                write_all(fd, body)
                os.rename(source, name, src_dir_fd=scratch.fd, dst_dir_fd=directory.fd)
            except OSError:
                remove_named(source, scratch.fd)
                raise
            finally:
                os.close(fd)
        except OSError as problem:
            _translate(problem, key)

    def _delete(self, key: str) -> None:
        parts, name = _split(key)
        try:
            directory = self._tree.find(parts)
            if directory is None:
                return
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory.fd)
            # Garbage collection deletes in an order that matters (P14), so each step is made durable,
            # also if an earlier attempt has deleted the file and its sync failed.
            self._tree.sync(parts)
        except IsADirectoryError:
            return
        except OSError as problem:
            _translate(problem, key)

    async def _walk(self, parts: Parts, after: bytes) -> AsyncIterator[Meta]:
        # A directory at a time, off the event loop: a collection must not block other requests.
        for path, meta in await self._runtime.tasks.in_thread(lambda: _scan(self._tree, parts)):
            if meta is None:
                # Skip a subtree only if every key in it sorts at or below `after`.
                if not _all_below(path, after):
                    async for below in self._walk(tuple(path.split("/")), after):
                        yield below
            elif path.encode() > after:
                yield meta


def _open_own(root: Path, *, fsync: bool) -> DirectoryTree:
    root.mkdir(parents=True, exist_ok=True)
    tree = DirectoryTree(str(root), fsync=fsync)
    tree.make(SCRATCH)
    if fsync:
        sync_ancestors(root)
    return tree


def _scan(tree: DirectoryTree | SharedDirectoryTree, parts: Parts) -> list[tuple[str, Meta | None]]:
    """The keys in a directory, in order; a directory below it has no Meta."""
    directory = tree.find(parts)
    if directory is None:
        return []
    entries: list[tuple[str, Meta | None]] = []
    for entry, is_directory in _entries(directory, at_root=not parts):
        path = "/".join((*parts, entry))
        if is_directory:
            entries.append((path, None))
            continue
        with suppress(FileNotFoundError):  # deleted since we began
            stat = os.stat(entry, dir_fd=directory.fd, follow_symlinks=False)
            entries.append((path, Meta(path, stat.st_size, stat.st_mtime_ns // 1_000_000)))
    return entries


@lru_cache(_MAX_SPLIT_KEYS)
def _split(key: str) -> tuple[Parts, str]:
    *parts, name = key.split("/")
    if (parts or [name])[0] == PRIVATE:
        raise Invalid(f"{PRIVATE} is the store's own directory")
    return tuple(parts), name


def _is_taken_by_other(directory: Directory, name: str) -> bool:
    """Whether a name is taken by something that is not an object, which no read would find."""
    try:
        return not S_ISREG(os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _read(file: Descriptor, start: int, length: int) -> bytes:
    chunks = []
    while length > 0:
        chunk = os.pread(file.fd, length, start)
        if not chunk:
            break
        chunks.append(chunk)
        start += len(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def _entries(directory: Directory, *, at_root: bool) -> list[tuple[str, bool]]:
    """Names in the order in which their keys sort: a directory sorts as its name with a slash."""
    with os.scandir(directory.fd) as scan:
        entries = [
            (each.name, each.is_dir(follow_symlinks=False))
            for each in scan
            if _is_object_or_directory(each) and not (at_root and each.name == PRIVATE)
        ]
    return sorted(entries, key=lambda each: each[0].encode() + (b"/" if each[1] else b""))


def _is_object_or_directory(entry: "os.DirEntry[str]") -> bool:
    """Whether a name in a directory can be an object or lead to one."""
    is_utf8 = all(not "\ud800" <= letter <= "\udfff" for letter in entry.name)  # else not UTF-8
    return is_utf8 and (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))


def _all_below(directory: str, after: bytes) -> bool:
    prefix = directory.encode() + b"/"
    return prefix <= after and not after.startswith(prefix)


def _refuse_full(problem: OSError) -> None:
    """Raise `StoreFull` or `StoreReadOnly` if that is why something was not written."""
    if problem.errno == errno.EROFS:
        raise StoreReadOnly(READ_ONLY) from problem
    if problem.errno in FULL_DISK:
        raise StoreFull(
            f"the disk of the store is full: {os.strerror(problem.errno).lower()}"
        ) from problem


def _refuse_root(problem: OSError) -> NoReturn:
    _refuse_full(problem)
    message = f"the store's directory cannot be used: {os.strerror(problem.errno or 0).lower()}"
    if isinstance(problem, PermissionError):
        raise Denied(message) from problem
    if isinstance(problem, FileExistsError | NotADirectoryError):
        raise Invalid(message) from problem
    raise Unavailable(message) from problem


def _translate(problem: OSError, key: str) -> NoReturn:
    error = path_error(problem, tuple(key.split("/")))
    if isinstance(error, ArcoError):
        raise error from problem
    if isinstance(problem, PermissionError):
        raise Denied(f"the file system does not allow this on {key}") from problem
    raise Unavailable(f"the disk answered with error {problem.errno} on {key}") from problem
