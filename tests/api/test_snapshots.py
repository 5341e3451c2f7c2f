"""Looks at the head that many share, and replies that are kept."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from arco.api.http.reply import Reply
from arco.api.http.snapshots import ReplyCache, SnapshotReads
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.server import Options, served
from tests.api.slow_store import Slow


class Counted(SnapshotReader):
    """A reader that counts its reads, which begin when the test allows."""

    began = 0
    fails = False

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.gate = asyncio.Event()

    async def head(self) -> Snapshot:
        self.began += 1
        await self.gate.wait()
        if self.fails:
            raise Unavailable("down")
        return await super().head()


@pytest.fixture
def store(memory: Backend, runtime: Runtime) -> Store:
    return Store(memory, runtime, scope=Scope(), role=Role.API)


async def test_a_look_is_shared_only_by_those_who_came_before_it_began(store: Store) -> None:
    reader = Counted(store)
    reads = SnapshotReads(reader)
    first = asyncio.ensure_future(reads.head())
    await asyncio.sleep(0)
    later = [asyncio.ensure_future(reads.head()) for _ in range(50)]
    await asyncio.sleep(0.01)
    assert reader.began == 1  # those who came later wait: this look may not see what they must
    reader.gate.set()
    await asyncio.gather(first, *later)
    assert reader.began == 2
    await reads.head()
    assert reader.began == 3


async def test_a_look_is_shared_by_all_who_had_come_when_it_began(store: Store) -> None:
    reader, clock = Counted(store), store.runtime.clock
    reads = SnapshotReads(reader)
    reader.gate.set()
    before_ms = clock.elapsed_ms()
    assert reads.state_since(before_ms, with_unresolved=False) is None
    head = await reads.head()
    after_ms = clock.elapsed_ms()
    assert reads.state_since(before_ms, with_unresolved=False) == head.sha256
    assert reads.state_since(after_ms, with_unresolved=False) is None
    assert reader.began == 1


async def test_a_look_that_fails_or_is_given_up_does_not_spoil_the_next(store: Store) -> None:
    reader = Counted(store)
    reads = SnapshotReads(reader)
    first = asyncio.ensure_future(reads.head())
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(reads.head())
    await asyncio.sleep(0)
    first.cancel()
    reader.gate.set()
    assert (await waiting).number == -1
    reader.fails = True
    with pytest.raises(Unavailable):
        await reads.head()
    reader.fails = False
    assert (await reads.head()).number == -1


def test_replies_are_kept_within_their_room_and_only_successes() -> None:
    cache = ReplyCache(1_000_000)
    good = Reply(200, b"x" * 1_000)
    for number in range(2_000):
        cache.put((str(number), b"/", b""), good)
    assert cache.get(("0", b"/", b"")) is None
    assert cache.get(("1999", b"/", b"")) is good
    assert len(cache._replies) < 500
    cache.put(("large", b"/", b""), Reply(200, b"x" * 100_000))
    cache.put(("missing", b"/", b""), Reply(404, b"x"))
    assert cache.get(("large", b"/", b"")) is None
    assert cache.get(("missing", b"/", b"")) is None


class Recording(Slow):
    """A store that remembers what was read."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.keys: list[str] = []

    async def get(self, key: str) -> bytes:
        self.keys.append(key)
        return await super().get(key)


def test_a_repeated_read_costs_one_look_at_the_head_and_nothing_else(tmp_path: Path) -> None:
    stores: list[Recording] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Recording(inner))
        return stores[0]

    with served(tmp_path / "store", Options(wrap=wrap)) as api, api.client() as http:
        http.get("/api/v1/catalogs/default")
        stores[0].keys.clear()
        for _ in range(10):
            assert http.get("/api/v1/catalogs/default").status_code == 200
        read = [key for key in stores[0].keys if "/locks/" not in key]  # a lease lives its own life
    assert len(read) == 10
    assert all("/manifests/catalog/" in key for key in read)


def test_a_repeated_read_of_a_table_also_asks_what_is_in_doubt(tmp_path: Path) -> None:
    stores: list[Recording] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Recording(inner))
        return stores[0]

    with served(tmp_path / "store", Options(wrap=wrap)) as api, api.client() as http:
        http.post("/api/v1/catalogs/default/schemas", json={"name": "s"})
        tables = "/api/v1/catalogs/default/schemas/s/tables"
        http.post(tables, json={"name": "t", "format": "ICEBERG"})
        http.get(f"{tables}/t")
        stores[0].keys.clear()
        for _ in range(10):
            assert http.get(f"{tables}/t").status_code == 200
        # A create publishes more after its answer.
        read = [key for key in stores[0].keys if "/locks/" not in key and "/executions/" not in key]
    assert len(read) == 20
    assert sum("/manifests/catalog/" in key for key in read) == 10
    assert sum("/iceberg_doubts/" in key for key in read) == 10


def test_what_was_changed_is_seen_by_the_next_read(http: httpx2.Client, table: str) -> None:
    for number in range(20):
        http.patch(table, json={"comment": str(number)})
        assert http.get(table).json()["comment"] == str(number)
