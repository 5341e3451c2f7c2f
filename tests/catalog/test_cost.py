"""What it costs, in round trips to the store one after the other."""

import asyncio
from datetime import timedelta

import pytest

from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.errors import Unknown
from arco.core.scope import Scope
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.catalog_setup import (
    CatalogSetup,
    CompactorChannel,
    _open_api_process,
    is_lost,
    new_table,
    open_setup,
    started,
    t,
)
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder


class Far(Recorder):
    """A store far away: what is asked for together is under way together."""

    async def begin(self, verb: str, key: str) -> None:
        await super().begin(verb, key)
        await asyncio.sleep(0.01)


def watched(setup: CatalogSetup, recorder: Recorder, role: Role) -> Store:
    backend = Interposed(setup.backend, before=recorder.begin, after=recorder.end)
    return Store(backend, setup.runtime, scope=Scope(), role=role)


def counted(setup: CatalogSetup, recorder: Recorder, role: Role) -> Store:
    backend = ObservedBackend(setup.backend, recorder, setup.runtime.clock)
    return Store(backend, setup.runtime, scope=Scope(), role=role)


async def merged(tables: int = 12) -> CatalogSetup:
    """A catalog with a base below its tail, and a fresh hint."""
    setup = await started(open_setup())
    for n in range(tables):
        await setup.table(f"t{n}", "id bigint", "v string")
    assert await setup.compactor.merge() is not None
    await setup.table("newest", "id bigint")
    await setup.close()
    return setup


async def cold(setup: CatalogSetup, recorder: Recorder) -> SnapshotReader:
    recorder.clear()
    return SnapshotReader(watched(setup, recorder, Role.READER))


@pytest.mark.parametrize("name", ["t3", "newest"])
async def test_a_table_by_its_name_takes_four_round_trips_from_nothing_and_one_warm(
    name: str,
) -> None:
    setup, recorder = await merged(), Far()
    reader = await cold(setup, recorder)
    committed = await (await reader.head()).table(t(name))
    assert recorder.round_trips <= 4
    assert await (await reader.head()).columns(committed.row.table_id)
    recorder.clear()
    snapshot = await reader.head()
    assert (await snapshot.table(t(name))).row == committed.row
    assert len(await snapshot.columns(committed.row.table_id)) >= 1
    assert recorder.round_trips == 1


@pytest.mark.parametrize("name", ["t3", "newest"])
async def test_a_table_with_its_columns_takes_five_round_trips_from_nothing(name: str) -> None:
    setup, recorder = await merged(), Far()
    snapshot = await (await cold(setup, recorder)).head()
    assert await snapshot.columns((await snapshot.table(t(name))).row.table_id)
    assert recorder.round_trips <= 5


@pytest.mark.parametrize("name", ["t3", "newest"])
async def test_a_table_by_its_id_with_its_columns_takes_five_round_trips_from_nothing(
    name: str,
) -> None:
    setup, recorder = await merged(), Far()
    table_id = (await (await setup.cold().head()).table(t(name))).row.table_id
    snapshot = await (await cold(setup, recorder)).head()
    committed, columns = await setup.runtime.tasks.gather(
        snapshot.find(table_id),
        snapshot.columns(table_id),
    )
    assert committed
    assert columns
    assert recorder.round_trips <= 5


async def test_a_change_takes_three_round_trips_and_five_with_a_key() -> None:
    setup, recorder = await started(), Far()
    compactor = CatalogCompactor(watched(setup, recorder, Role.COMPACTOR))
    channel = CompactorChannel(compactor, setup.runtime)
    api_process = _open_api_process(watched(setup, recorder, Role.API), channel, setup.rules)
    setup.api.lease.lost()
    await api_process.do(new_table("warm"))
    recorder.clear()
    await api_process.do(new_table("a", "id bigint"))
    assert recorder.round_trips <= 3
    recorder.clear()
    await api_process.do_once(new_table("b", "id bigint"), "k")
    assert recorder.round_trips <= 5
    channel.is_local = False  # a compactor in another process gets the call after the append
    recorder.clear()
    await api_process.do(new_table("c", "id bigint"))
    assert recorder.round_trips <= 4
    await api_process.idempotency.close()
    await api_process.committer.close()
    await compactor.close()
    await setup.close()


async def test_a_change_makes_four_objects_and_looks_for_two() -> None:
    setup, recorder = await started(), Recorder()
    compactor = CatalogCompactor(counted(setup, recorder, Role.COMPACTOR))
    channel = CompactorChannel(compactor, setup.runtime)
    api_process = _open_api_process(counted(setup, recorder, Role.API), channel, setup.rules)
    setup.api.lease.lost()
    await api_process.do(new_table("warm"))
    recorder.clear()
    columns = [f"column_{n} bigint" for n in range(10)]
    await api_process.do(new_table("a", *columns))
    folders = [(verb, key.split("/")[2]) for verb, key in recorder.requests]
    assert [folder for verb, folder in folders if verb == "get"] == ["manifests", "locks"]
    created = [key for verb, key in recorder.requests if verb == "create"]
    assert sorted(key.split("/")[2] for key in created) == [
        "commits",
        "ledger",
        "manifests",
        "snapshots",
    ]
    assert sum(verb != "put" for verb, _ in recorder.requests) == 6  # puts are hints
    sizes = [len(await setup.backend.get(key)) for key in created]
    assert sum(sizes) < 24 * 1024
    await api_process.committer.close()
    await compactor.close()
    await setup.close()


async def test_the_compactor_does_not_read_back_what_it_has_written() -> None:
    setup, recorder = await started(), Recorder()
    assert await setup.compactor.merge() is not None
    compactor = CatalogCompactor(counted(setup, recorder, Role.COMPACTOR))
    api_process = _open_api_process(
        setup.store(Role.API), CompactorChannel(compactor, setup.runtime), setup.rules
    )
    for n in range(6):
        await api_process.do(new_table(f"t{n}", "id bigint"))
        if n % 3 == 2:
            assert await compactor.merge() is not None
    files = [(verb, key) for verb, key in recorder.requests if "/all/" in key]
    written = {key for verb, key in files if verb == "create"}
    read = {key for verb, key in files if verb == "get"}
    assert len(written) >= 6
    assert not read & written  # only the base that another process has written
    await api_process.idempotency.close()
    await api_process.committer.close()
    await compactor.close()
    await setup.close()


async def test_a_token_is_looked_up_once_and_its_successor_for_every_commit() -> None:
    setup, recorder = await started(), Recorder()
    compactor = CatalogCompactor(counted(setup, recorder, Role.COMPACTOR))
    api_process = _open_api_process(
        setup.store(Role.API), CompactorChannel(compactor, setup.runtime), setup.rules
    )
    setup.api.lease.lost()
    looks = []
    for n in range(3):
        recorder.clear()
        await api_process.do(new_table(f"t{n}", "id bigint"))
        looks.append([verb for verb, key in recorder.requests if "/locks/" in key])
    assert looks == [["get", "get"], ["get"], ["get"]]
    await api_process.idempotency.close()
    await api_process.committer.close()
    await compactor.close()
    await setup.close()


async def test_a_takeover_takes_a_new_epoch() -> None:
    setup, recorder = await started(), Recorder()
    api_process = _open_api_process(counted(setup, recorder, Role.API), setup.channel, setup.rules)
    setup.api.lease.lost()
    await api_process.do(new_table("first", "id bigint"))
    await asyncio.sleep(0.4)

    async def epochs_taken() -> int:
        recorder.clear()
        await api_process.do_once(new_table("a", "id bigint"), "k")
        verbs = [verb for verb, key in recorder.requests if "/locks/" in key]
        return verbs.count("create")

    setup.channel.next(is_lost)
    with pytest.raises(Unknown):
        await epochs_taken()
    await asyncio.sleep(0.4)
    setup.clock.pass_by(timedelta(seconds=3))
    assert await epochs_taken() == 1
    await api_process.idempotency.close()
    await api_process.committer.close()
    await setup.close()


async def test_single_changes_take_no_epoch_and_still_yield_to_another_process() -> None:
    setup, recorder = await started(), Recorder()
    api_process = _open_api_process(counted(setup, recorder, Role.API), setup.channel, setup.rules)
    setup.api.lease.lost()
    await api_process.do(new_table("first", "id bigint"))
    for name in ("a", "b"):
        await asyncio.sleep(0.4)
        recorder.clear()
        await api_process.do(new_table(name, "id bigint"))
        assert not [verb for verb, key in recorder.requests if "/locks/" in key]
    await setup.table("of_another_process")
    await asyncio.sleep(0.4)
    recorder.clear()
    await api_process.do(new_table("c", "id bigint"))
    assert "create" in [verb for verb, key in recorder.requests if "/locks/" in key]
    tokens = [each.fencing_token for each in await setup.manifests()]
    assert tokens[-4] == tokens[-3] < tokens[-2] < tokens[-1]
    await api_process.idempotency.close()
    await api_process.committer.close()
    await setup.close()
