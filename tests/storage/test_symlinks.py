"""No symbolic link leads out of the root, wherever it was planted and whenever (P4, law 10)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.core.errors import ArcoError, Invalid
from arco.core.runtime import Runtime
from arco.storage.local import LocalBackend

KEY = "one/two/x"
SECRET = b"a secret outside"

VERBS: dict[str, Callable[[LocalBackend, str], Any]] = {
    "get": lambda backend, key: backend.get(key),
    "get_range": lambda backend, key: backend.get_range(key, 0, 100),
    "head": lambda backend, key: backend.head(key),
    "create": lambda backend, key: backend.create(key, b"ours"),
    "put": lambda backend, key: backend.put(key, b"ours"),
    "delete": lambda backend, key: backend.delete(key),
    "settle": lambda backend, key: backend.settle(key),
}
every_verb = pytest.mark.parametrize("verb", VERBS.keys())
every_level = pytest.mark.parametrize("level", ["one", "one/two", KEY])


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the root that contains the path of every key."""
    outside = tmp_path / "outside"
    (outside / "two").mkdir(parents=True)
    for path in ("x", "two/x"):
        (outside / path).write_bytes(SECRET)
    return outside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def backend(root: Path, runtime: Runtime) -> LocalBackend:
    return LocalBackend(root, runtime, fsync=False)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def plant(root: Path, level: str, outside: Path) -> None:
    link = root / level
    if link.is_symlink() or link.exists():
        link.rename(root / "moved-away")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "x" if level == KEY else outside)


async def attempt(backend: LocalBackend, verb: str, key: str) -> object:
    try:
        return await VERBS[verb](backend, key)
    except ArcoError as refused:
        return refused.code


@every_verb
@every_level
@pytest.mark.parametrize("remembered", [False, True])
async def test_a_planted_link_is_never_followed(
    backend: LocalBackend, root: Path, outside: Path, verb: str, level: str, remembered: bool
) -> None:
    if remembered:
        await backend.create(KEY, b"ours")
        assert await backend.get(KEY) == b"ours"
    plant(root, level, outside)
    before = contents(outside)
    for key in (KEY, "one/two/y"):
        answer = await attempt(backend, verb, key)
        assert answer != SECRET
        if verb == "head":
            assert getattr(answer, "size_bytes", None) != len(SECRET)
    assert contents(outside) == before


@every_level
@pytest.mark.parametrize("remembered", [False, True])
async def test_a_listing_does_not_go_through_a_link(
    backend: LocalBackend, root: Path, outside: Path, level: str, remembered: bool
) -> None:
    await backend.create("one/z", b"ours")
    if remembered:
        await backend.create(KEY, b"ours")
        assert len([meta async for meta in backend.list("")]) == 2
    (outside / "only-outside").write_bytes(SECRET)
    plant(root, level, outside)
    for prefix in ("", "one/", "one/two/"):
        try:
            metas = [meta async for meta in backend.list(prefix)]
        except ArcoError:
            assert prefix.startswith(level)  # a listing of the link itself is an error
            continue
        assert level not in [meta.key for meta in metas]  # a link is no object
        assert not any("only-outside" in meta.key for meta in metas)
        assert not any(meta.size_bytes == len(SECRET) for meta in metas)


@pytest.mark.parametrize("verb", ["create", "put"])
async def test_a_link_to_nowhere_makes_nothing_there(
    backend: LocalBackend, root: Path, outside: Path, verb: str
) -> None:
    (root / "one/two").mkdir(parents=True)
    (root / KEY).symlink_to(outside / "not-yet")
    (root / "four").symlink_to(outside / "no-directory-yet")
    before = contents(outside)
    await attempt(backend, verb, KEY)
    await attempt(backend, verb, "four/x")
    assert contents(outside) == before
    assert not (outside / "not-yet").exists()


async def test_a_link_is_deleted_or_replaced_itself_and_not_what_it_points_to(
    backend: LocalBackend, root: Path, outside: Path
) -> None:
    (root / "one/two").mkdir(parents=True)
    (root / KEY).symlink_to(outside / "x")
    await backend.put(KEY, b"a hint")
    assert await backend.get(KEY) == b"a hint"
    (root / "one/two/y").symlink_to(outside / "x")
    await backend.delete("one/two/y")
    assert not os.path.lexists(root / "one/two/y")
    assert (outside / "x").read_bytes() == SECRET


@pytest.mark.parametrize("level", [".arco", ".arco/scratch"])
def test_scratch_files_do_not_go_through_a_link_either(
    root: Path, outside: Path, runtime: Runtime, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    (outside / "scratch").mkdir()
    (root / level).parent.mkdir(parents=True)
    (root / level).symlink_to(outside)
    with pytest.raises(Invalid):
        LocalBackend(root, runtime)
    assert list((outside / "scratch").iterdir()) == []


async def test_the_root_itself_may_be_reached_through_a_link(
    tmp_path: Path, root: Path, runtime: Runtime
) -> None:
    root.mkdir()
    (tmp_path / "alias").symlink_to(root)
    await LocalBackend(tmp_path / "alias", runtime).create("a/x", b"1")
    assert (root / "a/x").read_bytes() == b"1"
