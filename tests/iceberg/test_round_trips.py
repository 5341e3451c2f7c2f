"""What it costs, in round trips to the store one after the other, in a process that knows the catalog."""

import pytest

from arco.core.errors import AlreadyExists
from tests.catalog.test_cost import Far
from tests.iceberg.iceberg_setup import Api, IcebergSetup, begun, marks_of
from tests.storage.interposed import Interposed


async def far_away(setup: IcebergSetup, recorder: Far, *, loaded_name: str = "known") -> Api:
    """An API process far from the store, which has loaded one table."""
    backend = setup.inner.backend
    setup.inner.backend = Interposed(backend, before=recorder.begin, after=recorder.end)
    try:
        api = setup.api()
    finally:
        setup.inner.backend = backend
    await api.load(loaded_name)
    recorder.clear()
    return api


async def with_tables() -> IcebergSetup:
    """Two tables, left behind by a process that has ended."""
    setup = await begun()
    for name in ("known", "other"):
        await setup.a.create(name)
        for number in range(3):
            await setup.a.mark(name, f"before-{number}")
    await setup.a.settle()
    await setup.a.iceberg.close()
    return setup


async def test_a_load_takes_one_round_trip_warm() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    await api.load("known")
    assert recorder.round_trips == 1


async def test_a_load_of_a_table_that_was_never_looked_at_takes_three() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    loaded = await api.load("other")
    assert recorder.round_trips <= 3
    assert marks_of(loaded) == {"before-0", "before-1", "before-2"}


async def test_a_new_table_takes_five_round_trips_and_one_look_at_the_catalog() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    await api.create("first")
    await api.settle()
    for number in range(3):
        recorder.clear()
        before = api.connection.count_requests("get", "/manifests/")
        await api.create(f"new-{number}")
        assert recorder.round_trips <= 5
        assert api.connection.count_requests("get", "/manifests/") == before + 1
        await api.settle()


async def test_a_name_that_another_process_has_taken_meanwhile_is_refused() -> None:
    setup, recorder = await with_tables(), Far()
    api, other = await far_away(setup, recorder), setup.api()
    created_table = await other.create("taken")
    with pytest.raises(AlreadyExists, match="already exists"):
        await api.create("taken")
    assert (await api.load("taken")).metadata["table-uuid"] == created_table.metadata["table-uuid"]
    await other.settle()
    await api.settle()


async def test_a_commit_takes_three_round_trips() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    for number in range(3):
        recorder.clear()
        await api.mark("known", f"mark-{number}")
        assert recorder.round_trips == 3
        await api.settle()


async def test_a_commit_with_a_key_takes_five() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    for number in range(3):
        recorder.clear()
        await api.mark("known", f"mark-{number}", key=f"key-{number}")
        assert recorder.round_trips == 5
        await api.settle()


async def test_a_commit_that_was_made_once_is_answered_again_in_four_and_writes_nothing() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    await api.mark("known", "mark", key="key")
    await api.settle()
    recorder.clear()
    before = api.connection.count_requests("create", "")
    await api.mark("known", "mark", key="key")
    assert recorder.round_trips <= 4
    assert (
        api.connection.count_requests("create", "") == before + 1
    )  # the claim that was there already


async def test_a_commit_to_a_table_that_was_never_looked_at_takes_five() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    done = await api.mark("other", "mark")
    assert recorder.round_trips <= 5
    assert marks_of(done) == {"before-0", "before-1", "before-2", "mark"}


async def test_many_who_want_the_same_file_at_once_read_it_once() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    await api.exists("other")
    recorder.clear()
    loads = await setup.inner.runtime.tasks.gather(*(api.load("other") for _ in range(5)))
    assert (
        api.connection.count_requests("get", ".metadata.json") == 2
    )  # of `known`, and of this one
    assert {id(each) for each in loads} == {id(loads[0])}


async def test_whether_a_table_is_there_takes_one() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    assert await api.exists("known")
    assert recorder.round_trips == 1


def folders(api: Api, since: int, verb: str) -> list[str]:
    """What was asked for since then, by the first two folders in the workspace."""
    keys = [key for each, key in api.connection.seen[since:] if each.startswith(verb)]
    return sorted("/".join(key.split("/")[2:4]) for key in keys)


async def test_every_object_that_a_load_a_commit_and_a_new_table_touch_is_known() -> None:
    setup, recorder = await with_tables(), Far()
    api = await far_away(setup, recorder)
    await api.create("first")
    await api.settle()

    before = len(api.connection.seen)
    await api.load("known")
    assert folders(api, before, "get") == ["_catalog/iceberg_pointers", "manifests/catalog"]
    assert folders(api, before, "create") == []

    before = len(api.connection.seen)
    committed = await api.mark("known", "mark")
    await api.settle()
    assert folders(api, before, "get") == ["_catalog/iceberg_pointers", "manifests/catalog"]
    events = [each for each in folders(api, before, "create") if each.startswith("events/")]
    assert len(events) == 2, "the pending receipt, and after the answer the committed one"
    assert [each for each in folders(api, before, "create") if each not in events] == [
        "_catalog/iceberg_pointers",
        "ledger/executions",
        f"warehouse/{committed.metadata['table-uuid']}",
    ]

    before = len(api.connection.seen)
    created = await api.create("second")
    await api.settle()
    # Besides those of the compactor, which `tests/catalog/test_cost.py` counts.
    assert [each for each in folders(api, before, "create") if not each.startswith("events/")] == [
        "_catalog/iceberg_pointers",
        "ledger/catalog",
        "ledger/executions",
        f"warehouse/{created.metadata['table-uuid']}",
    ]
