"""Files that were not created through the store, and listings that change while they run."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from arco.core.errors import NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.storage.local import LocalBackend


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def backend(root: Path, runtime: Runtime) -> LocalBackend:
    return LocalBackend(root, runtime)


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory"])
async def test_what_is_not_a_file_is_no_object(
    backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    await backend.create("a/x", b"x")
    monkeypatch.chdir(root / "a")  # the path of a socket may have 107 characters
    if kind == "fifo":
        os.mkfifo("odd")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind("odd")
    else:
        Path("odd").mkdir()
    looks = (backend.get("a/odd"), backend.get_range("a/odd", 0, 1), backend.head("a/odd"))
    for look in looks:
        with pytest.raises((NotFound, Unavailable)):
            await asyncio.wait_for(look, 5)  # a pipe must not hold us up
    assert [meta.key async for meta in backend.list("a/")] == ["a/x"]


async def test_a_file_with_a_name_that_no_key_can_have_is_not_listed(
    backend: LocalBackend, root: Path
) -> None:
    await backend.create("a/x", b"x")
    (root / "a" / os.fsdecode(b"\xff\xfe")).write_bytes(b"foreign")
    assert [meta.key async for meta in backend.list("a/")] == ["a/x"]


async def test_a_listing_goes_on_when_objects_and_directories_vanish_under_it(
    backend: LocalBackend, root: Path
) -> None:
    for name in ("x", "y/1", "z/1"):
        await backend.create(f"a/{name}", b"x")
    listing = backend.list("a/")
    first = await anext(listing)
    (root / "a/y/1").unlink()
    (root / "a/y").rmdir()
    assert [first.key, *[meta.key async for meta in listing]] == ["a/x", "a/z/1"]
