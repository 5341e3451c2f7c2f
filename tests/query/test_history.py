from collections import Counter

from arco.catalog.manifest import manifests_of
from arco.catalog.reader import SnapshotReader
from arco.core.scope import Scope
from arco.query.engine import SqlEngine
from arco.query.history import ChainHistory
from arco.query.limits import QueryLimits
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.query.workspace import Workspace, workspace
from tests.storage.recorder import Recorder

NUMBERS = "SELECT number FROM system.{} ORDER BY number"


async def _grow(space: Workspace, count: int) -> None:
    for _ in range(count):
        await space.catalog(f"c{(await space.reader().head()).number}")


def _watched(space: Workspace, recorder: Recorder, limits: QueryLimits | None = None) -> SqlEngine:
    """Another engine over the same workspace, whose requests are taken down."""
    backend = ObservedBackend(space.backend, recorder, space.runtime.clock)
    store = Store(backend, space.runtime, scope=Scope(), role=Role.READER)
    return SqlEngine(SnapshotReader(store), limits=limits)


async def test_the_chain_is_walked_back_so_far_and_older_numbers_by_as_of() -> None:
    async with workspace(limits=QueryLimits(history=4)) as space:
        await _grow(space, 7)
        for name in ("commits", "audit", "manifests"):
            sql = NUMBERS.format(name)
            assert await space.column(sql) == [4, 5, 6, 7]
            if name == "manifests":  # of all domains, of which each has its own numbers
                sql = sql.replace(" ORDER", " WHERE domain = 'catalog' ORDER")
            assert await space.column(sql, as_of="3") == [0, 1, 2, 3]
            assert await space.column(sql, as_of="5") == [2, 3, 4, 5]


async def test_what_was_collected_is_not_missed() -> None:
    async with workspace() as space:
        await _grow(space, 6)
        assert await space.column(NUMBERS.format("commits")) == list(range(7))
        janitor = manifests_of(space.store(Role.JANITOR), "catalog")
        await janitor.raise_floor(4)
        for number in range(4):
            await janitor.store.delete(janitor.key(number))
        for name in ("commits", "audit", "manifests"):
            fresh = SqlEngine(space.reader())
            assert (await fresh.query(NUMBERS.format(name))).column(0).to_pylist() == [4, 5, 6]
            await fresh.close()


async def test_manifests_and_commits_are_read_once() -> None:
    async with workspace() as space:
        await _grow(space, 6)
        recorder = Recorder()
        engine = _watched(space, recorder)
        await engine.query("SELECT * FROM system.commits")
        await _grow(space, 1)
        recorder.clear()
        result = await engine.query("SELECT * FROM system.commits")
        assert result.num_rows == 8
        commits = [key for _, key in recorder.requests if "/commits/" in key]
        assert len(commits) == 1
        await engine.close()


async def test_only_what_a_query_names_is_read_and_only_once() -> None:
    async with workspace() as space:
        await space.schema("s")
        await space.table("s", "t", id="int")
        recorder = Recorder()
        engine = _watched(space, recorder)
        await engine.query("SELECT * FROM system.schemas WHERE name IN (SELECT name FROM catalogs)")
        read = [key for _, key in recorder.requests if "/all/" in key]
        # A combined file is read once for both tables: for look-ups, and for the worker.
        assert max(Counter(read).values()) <= 2
        assert {key.split("/all/")[1].split("/")[0] for key in read} == {"combined"}
        recorder.clear()
        await engine.query("SELECT * FROM system.schemas")
        await engine.query("SELECT 1")
        await engine.query("SHOW TABLES")
        assert [key for _, key in recorder.requests if "/all/" in key] == []
        await engine.query("SELECT count(*) FROM system.tables")
        read = [key for _, key in recorder.requests if "/all/" in key]
        assert len(read) == 1
        await engine.close()


async def test_a_new_commit_costs_its_own_files_alone() -> None:
    async with workspace() as space:
        await space.schema("s")
        for at in range(5):
            await space.table("s", f"t{at}")
        recorder = Recorder()
        engine = _watched(space, recorder)
        await engine.query("SELECT * FROM system.tables")
        await space.table("s", "new")
        recorder.clear()
        assert (await engine.query("SELECT * FROM system.tables")).num_rows == 6
        files = [key for _, key in recorder.requests if "/all/combined/" in key]
        assert len(files) == 1
        await engine.close()


async def test_a_remembered_chain_that_was_replaced_is_not_returned_again() -> None:
    """A bucket that is restored from a backup may have other manifests under the same numbers."""
    async with workspace() as before, workspace() as after:
        await _grow(before, 4)
        await _grow(after, 4)
        reader = after.reader()
        history = ChainHistory(reader, depth=100)
        old = ChainHistory(before.reader(), depth=100)
        await old.table("manifests", await before.reader().head())
        history._entries = old._entries
        snapshot = await reader.head()
        manifests = await history.table("manifests", snapshot)
        kept = [entry.sha256() for entry in await reader.chain.history(0, snapshot.number)]
        assert manifests.column("sha256").to_pylist() == kept
