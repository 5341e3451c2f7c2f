"""Paths beside its location that a table names: no two tables share one, however they get it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from arco.core import json
from arco.core.errors import LocationTaken
from arco.core.json import Json
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.location import METADATA_PATH
from tests.iceberg.engine.sample_metadata import ORDERS, OTHER_UUID, snapshot, update
from tests.iceberg.engine.sample_metadata import request as create_request
from tests.iceberg.iceberg_setup import (
    ELSEWHERE,
    Api,
    IcebergSetup,
    begun,
    id_of,
    making,
    marks_of,
    on,
    refusal,
    refusal_of,
    with_table,
)

DATA_PATH = "write.data.path"
VICTIM = f"{ELSEWHERE}victim"

Operation = Callable[[Api, str], Awaitable[object]]


def _properties(path: str, key: str = DATA_PATH) -> dict[str, Json]:
    return update("set-properties", updates={key: path})


def _statistics(path: str) -> dict[str, Json]:
    statistics = {
        "snapshot-id": 1,
        "statistics-path": path,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    return update("set-statistics", statistics=statistics)


def _partition_statistics(path: str) -> dict[str, Json]:
    statistics = {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1}
    return update("set-partition-statistics", partition_statistics=statistics)


def _adding(number: int, manifest_list: str) -> dict[str, Json]:
    return update("add-snapshot", snapshot=snapshot(number, **{"manifest-list": manifest_list}))


async def _create(api: Api, path: str) -> object:
    return await api.create("u", properties={DATA_PATH: path})


async def _stage(api: Api, path: str) -> object:
    return await api.create("u", properties={METADATA_PATH: path}, stage_create=True)


async def _create_commit(api: Api, path: str) -> object:
    staged_commit = making("u")
    return await api.commit(
        "u", *staged_commit.updates, _properties(path), require=staged_commit.requirements
    )


async def _create_in_transaction(api: Api, path: str) -> object:
    staged_commit = making("u")
    request = on("u", *staged_commit.updates, _properties(path), require=staged_commit.requirements)
    await api.transact(request, on("t", update("set-properties", updates={"x": "1"})))
    return None


async def _transaction(api: Api, path: str) -> object:
    await api.transact(
        on("t", _properties(path)), on("w", update("set-properties", updates={"x": "1"}))
    )
    return None


def _commits(change: Callable[[str], dict[str, Json]]) -> Operation:
    async def operation(api: Api, path: str) -> object:
        return await api.commit("t", change(path))

    return operation


OPERATIONS: dict[str, Operation] = {
    "create": _create,
    "stage": _stage,
    "create with a key": lambda api, path: api.create("u", properties={DATA_PATH: path}, key="k"),
    "commit that creates": _create_commit,
    "transaction that creates": _create_in_transaction,
    "data path": _commits(_properties),
    "metadata path": _commits(lambda path: _properties(path, METADATA_PATH)),
    "statistics": _commits(lambda path: _statistics(f"{path}/x.puffin")),
    "partition statistics": _commits(lambda path: _partition_statistics(f"{path}/x.parquet")),
    "transaction": _transaction,
}


async def _with_neighbour() -> IcebergSetup:
    """Tables t and w in the warehouse with a snapshot each, and another in a declared place."""
    setup, _ = await with_table("t", "w")
    await setup.a.create("victim", location=VICTIM)
    home = (await setup.a.load("t")).metadata["location"]
    await setup.a.commit("t", _adding(1, f"{home}/metadata/snap-1.avro"))
    return setup


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("path", [VICTIM, f"{VICTIM}/data/x"])
async def test_no_path_leads_into_the_place_of_another_table(
    operation: Operation, path: str
) -> None:
    setup = await _with_neighbour()
    before = (await setup.a.load("t")).location
    no = await refusal(operation(setup.b, path))
    assert no.status == 409
    assert "victim" not in no.message
    assert id_of(await setup.a.load("victim")) not in no.message
    assert await setup.a.names() == ["t", "victim", "w"]
    assert (await setup.api().load("t")).location == before


@pytest.mark.parametrize("operation", [OPERATIONS[name] for name in OPERATIONS if name != "stage"])
async def test_a_path_that_was_named_is_taken_by_no_other_table(operation: Operation) -> None:
    setup = await _with_neighbour()
    path = f"{ELSEWHERE}mine"
    await operation(setup.b, path)
    for location in (path, ELSEWHERE):
        assert (await refusal(setup.a.create("v", location=location))).status == 409
    no = await refusal(setup.a.commit("victim", _properties(path)))
    assert (no.status, no.kind) == (409, "CommitFailedException")


async def test_staging_reserves_nothing() -> None:
    setup = await _with_neighbour()
    await _stage(setup.b, f"{ELSEWHERE}mine")
    await setup.a.create("v", location=f"{ELSEWHERE}mine")


async def test_of_two_commits_at_once_that_name_a_path_one_gets_it() -> None:
    setup, _ = await with_table("t", "u")
    path = f"{ELSEWHERE}both"
    done = await asyncio.gather(
        setup.a.commit("t", _properties(path)),
        setup.b.commit("u", _properties(path)),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, LocationTaken)]
    assert [refusal_of(each).status for each in refused] == [409]
    holders = [
        name
        for name in ("t", "u")
        if DATA_PATH in dict((await setup.api().load(name)).metadata["properties"])  # type: ignore[arg-type]
    ]
    assert len(holders) == 1


async def test_a_refusal_of_a_path_says_what_to_do() -> None:
    shop = await _with_neighbour()
    no = await refusal(shop.b.commit("t", _properties(VICTIM)))
    assert no.message == (
        "the location or path of this table overlaps with that of another table. "
        "Choose another location, or drop that table first."
    )


@pytest.mark.parametrize("operation", [_commits(_properties), _transaction])
async def test_a_table_that_is_dropped_before_its_path_is_reserved_is_not_found(
    operation: Operation,
) -> None:
    setup = await _with_neighbour()
    t = await setup.a.load("t")

    async def drop() -> None:
        await setup.a.drop("t")

    setup.b.connection.after("get", str(t.location).rpartition("/")[2], drop)
    no = await refusal(operation(setup.b, f"{ELSEWHERE}mine"))
    assert (no.status, no.kind) == (404, "NoSuchTableException")
    assert no.message == "Table does not exist: s.t"
    assert setup.b.connection.count_requests("get", str(t.location).rpartition("/")[2]) == 1


async def test_a_dropped_table_gives_its_paths_up_and_gets_them_back_if_they_are_free() -> None:
    setup, [t] = await with_table("t")
    path = f"{ELSEWHERE}mine"
    await setup.a.commit("t", _properties(path))
    await setup.a.drop("t")
    await setup.a.undrop(t)
    assert (await refusal(setup.b.create("u", location=path))).status == 409
    await setup.a.drop("t")
    await setup.b.create("u", location=path)
    assert (await refusal(setup.a.undrop(t))).status == 409
    await setup.b.drop("u")
    await setup.a.undrop(t)
    assert (await refusal(setup.b.create("v", location=path))).status == 409


async def test_a_path_stays_reserved_when_its_property_or_the_name_changes() -> None:
    setup, _ = await with_table("t")
    path = f"{ELSEWHERE}mine"
    await setup.a.commit("t", _properties(path))
    await setup.a.commit("t", update("remove-properties", removals=[DATA_PATH]))
    await setup.a.rename("t", "u")
    assert (await refusal(setup.b.create("v", location=path))).status == 409
    await setup.b.commit("u", _properties(path))


async def test_a_path_below_the_location_needs_no_reservation() -> None:
    setup = await begun()
    created_table = await setup.a.create("t", location=f"{ELSEWHERE}t")
    commits = await setup.inner.manifests()
    await setup.a.commit("t", _properties(f"{ELSEWHERE}t/files"))
    assert len(await setup.inner.manifests()) == len(commits)
    assert id_of(created_table)


async def test_a_manifest_list_lies_in_a_place_of_its_table() -> None:
    setup = await _with_neighbour()
    for stray in (f"{ELSEWHERE}free/snap.avro", f"{VICTIM}/metadata/snap.avro"):
        no = await refusal(setup.a.commit("t", _adding(2, stray)))
        assert (no.status, no.kind) == (400, "BadRequestException")
    staged_commit = making("u")
    stray_update = _adding(2, f"{ELSEWHERE}free/snap.avro")
    with pytest.raises(Exception, match="manifest list"):
        await setup.a.commit(
            "u", *staged_commit.updates, stray_update, require=staged_commit.requirements
        )


async def test_a_manifest_list_may_lie_in_a_path_that_the_table_has_or_had() -> None:
    setup = await _with_neighbour()
    path = f"{ELSEWHERE}mine"
    set_metadata_path = _properties(path, METADATA_PATH)
    done = await setup.a.commit("t", set_metadata_path, _adding(2, f"{path}/snap-2.avro"))
    assert str(done.location).startswith(f"{path}/")
    # An engine that has read the table before the property was removed still writes there.
    await setup.b.commit("t", update("remove-properties", removals=[METADATA_PATH]))
    await setup.a.commit("t", _adding(3, f"{path}/snap-3.avro"))


async def test_a_table_that_has_moved_may_still_get_files_at_its_old_place() -> None:
    setup = await begun()
    await setup.a.create("t", location=f"{ELSEWHERE}old")
    await setup.a.commit("t", update("set-location", location=f"{ELSEWHERE}new"))
    await setup.b.commit("t", _adding(1, f"{ELSEWHERE}old/metadata/snap-1.avro"))
    assert (await refusal(setup.a.create("u", location=f"{ELSEWHERE}old"))).status == 409


async def _put(setup: IcebergSetup, **more: Any) -> str:
    home = f"{ELSEWHERE}theirs"
    metadata = new_table(create_request(ORDERS), table_uuid=OTHER_UUID, location=home, now_ms=1)
    key = f"theirs/metadata/{len(more)}.metadata.json"
    await setup.outside.create(key, json.encode({**metadata, **more}))
    return ELSEWHERE + key


@pytest.mark.parametrize("kind", ["properties", "statistics", "manifest list"])
@pytest.mark.parametrize("path", [VICTIM, f"{ELSEWHERE}mine"])
async def test_what_is_registered_has_its_paths_for_itself(kind: str, path: str) -> None:
    setup = await _with_neighbour()
    stray_snapshot = snapshot(1, **{"manifest-list": f"{path}/snap.avro"})
    more: dict[str, Any] = {
        "properties": {"properties": {DATA_PATH: path}},
        "statistics": {"statistics": [_statistics(f"{path}/x.puffin")["statistics"]]},
        "manifest list": {"snapshots": [stray_snapshot], "last-sequence-number": 1},
    }
    theirs = await _put(setup, **more[kind])
    if path == VICTIM:
        no = await refusal(setup.a.register("u", theirs))
        assert no.status == 409
        assert "victim" not in no.message
        return
    await setup.a.register("u", theirs)
    location = path if kind != "statistics" else f"{path}/x.puffin"
    assert (await refusal(setup.b.create("v", location=location))).status == 409


async def test_metadata_that_replace_those_of_a_table_bring_their_paths() -> None:
    setup = await _with_neighbour()
    await setup.a.register("u", await _put(setup))
    bad = await _put(setup, properties={DATA_PATH: VICTIM})
    assert (await refusal(setup.a.register("u", bad, overwrite=True))).status == 409
    good = await _put(setup, properties={DATA_PATH: f"{ELSEWHERE}mine", "a": "made"}, x=1)
    assert "a" in marks_of(await setup.a.register("u", good, overwrite=True))
    assert (await refusal(setup.b.create("v", location=f"{ELSEWHERE}mine"))).status == 409
