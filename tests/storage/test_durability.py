"""The order in which the local disk makes things durable (P4), by a journal of its system calls."""

import os
from pathlib import Path

import pytest

from arco.core.errors import NotFound, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.storage.local import LocalBackend
from tests.storage.journal import Journal
from tests.stores import Bench


@pytest.fixture(params=["O_TMPFILE", "scratch names"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test here holds with unnamed files and with named ones."""
    if request.param == "scratch names":
        monkeypatch.delattr(os, "O_TMPFILE")
    return tmp_path / "store"


@pytest.fixture
def journal(root: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    return Journal(root, monkeypatch)


@pytest.fixture
def backend(root: Path, runtime: Runtime, journal: Journal) -> LocalBackend:
    backend = LocalBackend(root, runtime)
    journal.clear()
    return backend


async def test_the_file_is_synced_before_it_has_a_name_and_every_new_directory_after(
    backend: LocalBackend, journal: Journal
) -> None:
    await backend.create("a/b/x", b"1")
    assert journal.entries == ["sync file", "link a/b/x", "sync a/b", "sync a", "sync ."]


async def test_a_directory_that_is_known_to_be_durable_costs_one_sync(
    backend: LocalBackend, journal: Journal
) -> None:
    await backend.create("a/b/x", b"1")
    journal.clear()
    await backend.create("a/b/y", b"2")
    assert journal.entries == ["sync file", "link a/b/y", "sync a/b"]
    journal.clear()
    await backend.create("a/c/x", b"3")
    assert journal.entries == ["sync file", "link a/c/x", "sync a/c", "sync a"]


async def test_directories_that_another_process_made_are_synced_too(
    backend: LocalBackend, journal: Journal, root: Path, runtime: Runtime
) -> None:
    (root / "a/b").mkdir(parents=True)
    with pytest.raises(NotFound):
        await backend.get("a/b/x")  # that it was seen does not make it durable
    await backend.create("a/b/x", b"1")
    assert journal.entries[2:] == ["sync a/b", "sync a", "sync ."]
    other = LocalBackend(root, runtime)
    journal.clear()
    await other.create("a/b/y", b"2")
    assert journal.entries[2:] == ["sync a/b", "sync a", "sync ."]


async def test_a_root_that_is_made_is_durable_with_all_the_directories_that_lead_to_it(
    tmp_path: Path, runtime: Runtime, journal: Journal
) -> None:
    journal.root = tmp_path
    LocalBackend(tmp_path / "one/two/three", runtime)
    assert {"sync one/two", "sync one", "sync ."} <= set(journal.entries)


async def test_a_deletion_is_made_to_last(backend: LocalBackend, journal: Journal) -> None:
    await backend.create("a/x", b"1")
    journal.clear()
    await backend.delete("a/x")
    assert journal.entries == ["unlink a/x", "sync a"]


async def test_without_fsync_nothing_is_synced(
    root: Path, runtime: Runtime, journal: Journal
) -> None:
    backend = LocalBackend(root, runtime, fsync=False)
    await backend.create("a/b/x", b"1")
    await backend.put("a/b/h", b"2")
    await backend.settle("a/b/x")
    await backend.delete("a/b/x")
    assert [entry for entry in journal.entries if entry.startswith("sync")] == []


async def test_a_file_whose_sync_failed_is_thrown_away_unseen(
    backend: LocalBackend, journal: Journal, root: Path
) -> None:
    journal.failing["sync file"] = 1
    with pytest.raises(Unavailable):
        await backend.create("a/x", b"1")
    assert journal.entries == ["sync file failed"]
    assert [path for path in root.rglob("*") if path.is_file()] == []


async def test_after_a_failed_sync_the_next_attempt_writes_a_new_file(
    backend: LocalBackend, journal: Journal, runtime: Runtime
) -> None:
    journal.failing["sync file"] = 3
    store = Bench(backend, runtime, is_flat=False).store()
    await store.create("locks/x", b"1")
    files = [entry for entry in journal.entries if "file" in entry or "link" in entry]
    linked = f"link {store.scope.prefix}locks/x"
    assert files == ["sync file failed"] * 3 + ["sync file", linked]
    assert journal.synced_twice == []


async def test_a_directory_whose_sync_failed_is_resynced_before_the_look_says_created(
    backend: LocalBackend, journal: Journal, runtime: Runtime
) -> None:
    store = Bench(backend, runtime, is_flat=False).store()
    await store.create("locks/first", b"1")
    journal.clear()
    locks = f"sync {store.scope.prefix}locks"
    journal.failing[locks] = 1
    await store.create("locks/x", b"1")
    assert journal.entries[2:] == [f"{locks} failed", locks]


async def test_a_look_that_cannot_sync_does_not_say_created(
    backend: LocalBackend, journal: Journal, runtime: Runtime
) -> None:
    store = Bench(backend, runtime, is_flat=False).store()
    await store.create("locks/first", b"1")
    journal.failing[f"sync {store.scope.prefix}locks"] = 1_000
    with pytest.raises(Unknown):
        await store.create("locks/x", b"1")
    assert await store.get("locks/x") == b"1"  # it is there, and yet not known to stay


async def test_an_ancestor_whose_sync_failed_is_not_taken_for_durable(
    backend: LocalBackend, journal: Journal
) -> None:
    journal.failing["sync a"] = 1
    with pytest.raises(Unavailable):
        await backend.create("a/b/x", b"1")
    journal.clear()
    await backend.create("a/b/y", b"1")
    assert journal.entries[2:] == ["sync a/b", "sync a", "sync ."]
