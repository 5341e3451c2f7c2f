"""Behaviour of the local disk alone; the contract tests what all stores share."""

import asyncio
import errno
import os
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Denied,
    Invalid,
    NotFound,
    StoreFull,
    StoreReadOnly,
    Unavailable,
    Unknown,
)
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncioTasks
from arco.storage.local import LocalBackend
from tests.stores import Bench

VERBS: dict[str, Callable[[LocalBackend, str], Any]] = {
    "get": lambda backend, key: backend.get(key),
    "get_range": lambda backend, key: backend.get_range(key, 0, 1),
    "head": lambda backend, key: backend.head(key),
    "create": lambda backend, key: backend.create(key, b"new"),
    "put": lambda backend, key: backend.put(key, b"new"),
    "delete": lambda backend, key: backend.delete(key),
    "settle": lambda backend, key: backend.settle(key),
}
every_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root-of-the-store"


@pytest.fixture
def backend(root: Path, runtime: Runtime) -> LocalBackend:
    return LocalBackend(root, runtime)


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number), "/root-of-the-store/somewhere")

    return fail


def open_files() -> list[str]:
    """What this process holds open, but for the look itself."""
    links = list(Path("/proc/self/fd").iterdir())
    return [str(link.readlink()) for link in links if link.is_symlink()]


@every_verb
@pytest.mark.parametrize("key", [".arco", ".arco/key", ".arco/scratch/x"])
async def test_the_stores_own_directory_is_no_place_for_keys(
    backend: LocalBackend, root: Path, verb: Callable[..., Any], key: str
) -> None:
    (root / ".arco/key").write_bytes(b"secret")
    with pytest.raises(Invalid):
        await verb(backend, key)
    assert (root / ".arco/key").read_bytes() == b"secret"


async def test_the_stores_own_directory_is_never_listed(backend: LocalBackend, root: Path) -> None:
    (root / ".arco/key").write_bytes(b"secret")
    await backend.create("a/.arco/x", b"an object")
    assert [meta.key async for meta in backend.list("")] == ["a/.arco/x"]
    with pytest.raises(Invalid):
        assert [meta.key async for meta in backend.list(".arco/")] == []


@pytest.mark.parametrize(
    ("number", "for_a_store"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EROFS, StoreReadOnly),
        (errno.EIO, Unknown),
    ],
)
async def test_a_failing_disk_is_unavailable_and_for_a_store_unknown_and_a_full_one_says_so(
    backend: LocalBackend,
    root: Path,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    for_a_store: type[ArcoError],
) -> None:
    monkeypatch.setattr(os, "write", failing(number))
    with pytest.raises(Unavailable):
        await backend.create("locks/x", b"body")
    store = Bench(backend, runtime, is_flat=False).store()
    with pytest.raises(for_a_store):
        await store.create("locks/y", b"body")
    assert await store.put_hint("locks/d/head.json", b"body") is False
    monkeypatch.undo()
    assert [meta.key async for meta in backend.list("")] == []
    assert list((root / ".arco/scratch").iterdir()) == []


async def test_an_object_whose_directory_could_not_be_synced_on_a_full_disk_is_unknown(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def full_for_directories(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            failing(errno.ENOSPC)()
        sync(fd)

    monkeypatch.setattr(os, "fsync", full_for_directories)
    with pytest.raises(Unavailable) as raised:
        await backend.create("a/x", b"body")
    assert not isinstance(raised.value, StoreFull)
    assert await backend.get("a/x") == b"body"


async def test_a_disk_that_is_full_half_way_shows_nothing_of_the_object(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    written: list[int] = []

    def fill_up(fd: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(write(fd, bytes(data)[:10]))
        return written[0]

    monkeypatch.setattr(os, "write", fill_up)
    with pytest.raises(Unavailable):
        await backend.create("a/x", b"0123456789 and more")
    with pytest.raises(NotFound):
        await backend.get("a/x")


async def test_a_write_that_takes_only_a_part_is_carried_on(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    await backend.create("a/x", b"0123456789")
    assert await backend.get("a/x") == b"0123456789"


@pytest.mark.parametrize("call", ["open", "pread", "fsync", "link", "rename", "unlink", "mkdir"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE, errno.ENOENT])
async def test_no_error_of_the_disk_leaves_the_tree_of_errors_or_names_the_root(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    await backend.create("a/there", b"x")
    monkeypatch.setattr(os, call, failing(number))
    for key in ("a/there", "a/new", "b/new"):
        for verb in VERBS.values():
            try:
                await verb(backend, key)
            except ArcoError as problem:
                assert "root-of-the-store" not in str(problem)
                assert isinstance(problem, Unavailable | Denied | NotFound | AlreadyExists)


async def test_a_big_object_is_read_in_a_thread_and_a_small_one_in_place(
    root: Path, runtime: Runtime
) -> None:
    class CountingTasks(AsyncioTasks):
        threads = 0

        async def in_thread(self, call: Callable[[], Any]) -> Any:
            self.threads += 1
            return await super().in_thread(call)

    tasks = CountingTasks()
    backend = LocalBackend(root, Runtime(runtime.clock, runtime.rng, tasks), fsync=False)
    await backend.create("a/big", b"b" * 1_000_000)
    await backend.create("a/small", b"s" * 1_000)
    tasks.threads = 0
    assert await backend.get("a/small") == b"s" * 1_000
    assert await backend.get_range("a/big", 999_990, 1_000) == b"b" * 10
    assert tasks.threads == 0
    assert await backend.get("a/big") == b"b" * 1_000_000
    assert await backend.get_range("a/big", 1, 999_999) == b"b" * 999_999
    assert tasks.threads == 2


async def test_a_read_that_is_given_up_before_it_began_leaves_no_file_open(
    backend: LocalBackend, runtime: Runtime
) -> None:
    await backend.create("a/big", b"b" * 1_000_000)
    release = threading.Event()
    busy = [
        runtime.tasks.spawn(runtime.tasks.in_thread(lambda: release.wait(20))) for _ in range(64)
    ]
    await asyncio.sleep(0.05)
    for _ in range(50):
        with pytest.raises(TimeoutError):
            await runtime.tasks.deadline(1, backend.get("a/big"))
    release.set()
    for each in busy:
        await each.wait()
    await asyncio.sleep(0.05)
    assert not [path for path in open_files() if "a/big" in path]


@pytest.mark.parametrize("obstacle", ["a file", "a file above"])
def test_a_root_that_cannot_be_a_directory_is_refused_with_a_sentence(
    tmp_path: Path, runtime: Runtime, obstacle: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    root = tmp_path / "file" if obstacle == "a file" else tmp_path / "file" / "below"
    with pytest.raises(ArcoError, match=re.compile("director", re.IGNORECASE)):
        LocalBackend(root, runtime)
