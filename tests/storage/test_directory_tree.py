"""Directories that change under a running process: deleted, recreated by another process, or too many."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from arco.core.errors import ArcoError, Invalid, NotFound, Unsupported
from arco.core.lru_cache import LruCache
from arco.core.runtime import Runtime
from arco.storage.directory_tree import Directory, DirectoryTree, Parts
from arco.storage.local import LocalBackend
from tests.storage.journal import Journal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def backend(root: Path, runtime: Runtime) -> LocalBackend:
    return LocalBackend(root, runtime)


async def test_a_deleted_tree_is_recreated_by_the_next_create(
    backend: LocalBackend, root: Path
) -> None:
    await backend.create("a/b/x", b"1")
    shutil.rmtree(root / "a")
    with pytest.raises(NotFound):
        await backend.get("a/b/x")
    await backend.create("a/b/x", b"2")
    assert (root / "a/b/x").read_bytes() == b"2"


async def test_a_create_is_the_first_to_notice_that_the_tree_is_gone(
    backend: LocalBackend, root: Path
) -> None:
    await backend.create("a/b/x", b"1")
    shutil.rmtree(root / "a")
    await backend.create("a/b/x", b"2")
    assert (root / "a/b/x").read_bytes() == b"2"


async def test_a_hint_is_the_first_to_notice_that_the_tree_is_gone(
    backend: LocalBackend, root: Path
) -> None:
    await backend.create("a/b/x", b"1")
    shutil.rmtree(root / "a")
    await backend.put("a/b/head.json", b"2")
    assert (root / "a/b/head.json").read_bytes() == b"2"


async def test_a_tree_that_was_restored_by_another_is_seen(
    backend: LocalBackend, root: Path, tmp_path: Path
) -> None:
    await backend.create("a/b/x", b"1")
    await backend.create("a/b/c/x", b"1")
    shutil.copytree(root / "a", tmp_path / "copy")
    shutil.rmtree(root / "a")
    shutil.copytree(tmp_path / "copy", root / "a")
    assert [meta.key async for meta in backend.list("a/")] == ["a/b/c/x", "a/b/x"]
    assert await backend.get("a/b/x") == b"1"
    assert (await backend.head("a/b/c/x")).size_bytes == 1
    await backend.delete("a/b/x")
    assert not (root / "a/b/x").exists()


@pytest.mark.parametrize("verb", ["get", "create", "put", "delete", "list"])
async def test_a_child_of_a_recreated_directory_is_reached(
    backend: LocalBackend, root: Path, verb: str
) -> None:
    await backend.create("a/x", b"1")  # `a` is remembered, `a/new` never was
    shutil.rmtree(root / "a")
    (root / "a/new").mkdir(parents=True)
    (root / "a/new/x").write_bytes(b"2")
    if verb == "get":
        assert await backend.get("a/new/x") == b"2"
    elif verb == "create":
        await backend.create("a/new/y", b"3")
        assert (root / "a/new/y").read_bytes() == b"3"
    elif verb == "put":
        await backend.put("a/new/y", b"3")
        assert (root / "a/new/y").read_bytes() == b"3"
    elif verb == "delete":
        await backend.delete("a/new/x")
        assert not (root / "a/new/x").exists()
    else:
        assert [meta.key async for meta in backend.list("a/new/")] == ["a/new/x"]


async def test_a_recreated_directory_is_made_durable(
    backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.create("a/b/x", b"1")
    shutil.rmtree(root / "a")
    journal = Journal(root, monkeypatch)
    await backend.create("a/b/x", b"2")
    assert journal.entries[2:] == ["sync a/b", "sync a", "sync ."]


async def test_without_its_root_a_store_acknowledges_nothing(
    backend: LocalBackend, root: Path
) -> None:
    await backend.create("a/x", b"1")
    shutil.rmtree(root)
    with pytest.raises(ArcoError):
        await backend.create("a/y", b"2")
    with pytest.raises(NotFound):
        await backend.get("a/x")


async def test_a_file_where_a_directory_should_be_is_invalid(
    backend: LocalBackend, root: Path
) -> None:
    await backend.create("a/x", b"1")
    for attempt in (backend.get("a/x/y"), backend.create("a/x/y", b""), backend.put("a/x/y", b"")):
        with pytest.raises(Invalid, match="a/x"):
            await attempt


async def test_more_directories_than_are_kept_open_cost_no_more_descriptors(
    backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend._tree, "_open", LruCache[Parts, Directory](20))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(200):
        (root / f"d{n}/e").mkdir(parents=True)
        (root / f"d{n}/e/x").write_bytes(b"%d" % n)
        assert await backend.get(f"d{n}/e/x") == b"%d" % n
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 25
    assert await backend.get("d0/e/x") == b"0"


@pytest.mark.parametrize("kind", ["directory", "link"])
async def test_a_create_where_something_else_stands_is_refused_at_once(
    backend: LocalBackend, root: Path, kind: str
) -> None:
    await backend.create("a/x", b"1")
    if kind == "directory":
        (root / "a/odd").mkdir()
    else:
        (root / "a/odd").symlink_to("x")
    with pytest.raises(Invalid, match="a/odd"):
        await backend.create("a/odd", b"2")


@pytest.mark.parametrize("call", ["find", "make", "sync"])
def test_a_mount_below_the_root_is_not_entered(call: str) -> None:
    """Every machine has a mount: /dev below /. The file system of a root is not that of its mounts."""
    if Path("/").stat().st_dev == Path("/dev").stat().st_dev:
        pytest.skip("/dev is no separate mount on this machine")
    tree = DirectoryTree("/", fsync=True)
    with pytest.raises(Unsupported, match="dev is another mount"):
        getattr(tree, call)(("dev", "arco"))
    with pytest.raises(Unsupported):  # and it was not remembered as one that may be entered
        tree.find(("dev",))


_ON_A_MOUNT = """
import sys
from pathlib import Path
from arco.core.errors import Unsupported
from arco.core.runtime import system_runtime
from arco.core.tasks import run
from arco.storage.local import LocalBackend

async def main(root):
    backend = LocalBackend(root, system_runtime())
    for work in (backend.get("a/m/x"), backend.create("a/m/y", b"1"), backend.put("a/m/z", b"1")):
        try:
            await work
        except Unsupported as refused:
            print(refused)
        else:
            sys.exit("entered a mount")

run(main(Path(sys.argv[1])))
"""


@pytest.mark.process
def test_objects_on_a_mount_below_the_root_are_neither_read_nor_written(root: Path) -> None:
    mount = root / "a/m"
    mount.mkdir(parents=True)
    apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mounted = f'mount -t tmpfs none "{mount}"; echo x > "{mount}/x"; '
    if shutil.which("unshare") is None or subprocess.run([*apart, mounted], check=False).returncode:
        pytest.skip("this machine does not allow mounts: there are no user namespaces")
    look = f'"{sys.executable}" -c "$0" "{root}"; ls "{mount}"'
    ran = subprocess.run(
        [*apart, mounted + look, _ON_A_MOUNT], check=True, capture_output=True, text=True
    )
    assert ran.stdout == "a/m is another mount, which Arco does not enter\n" * 3 + "x\n"
