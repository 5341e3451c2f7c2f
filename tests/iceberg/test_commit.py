"""Commits to one table: races, lost answers, and what may not be asked for."""

import asyncio
import gzip

import pytest

from arco.core import json
from arco.core.errors import AlreadyExists, Denied, Unavailable, Unknown
from arco.core.json import Json
from arco.iceberg.commit import COMMIT_DEADLINE_MS
from tests.catalog.catalog_setup import until
from tests.iceberg.engine.sample_metadata import ORDERS, column, snapshot, update
from tests.iceberg.iceberg_setup import (
    ELSEWHERE,
    POINTERS,
    Api,
    marks_of,
    pointer_key,
    refusal,
    with_table,
)


async def test_a_commit_makes_the_next_number_and_names_its_file() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    first, second = await setup.pointers(table_id)
    assert second.metadata_location == committed_table.location != first.metadata_location
    assert second.previous_location == first.metadata_location
    assert (second.operation, second.changed) == ("commit", ("set-properties",))
    assert (second.actor, second.engine, second.table_uuid) == ("user:ann", "test/1", table_id)
    assert marks_of(await setup.b.load("t")) == {"x"}


async def test_a_metadata_file_is_named_by_its_number_and_by_nothing_that_comes_back() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    folder, _, name = str(committed_table.location).rpartition("/")
    assert folder.endswith(f"/warehouse/{table_id}/metadata")
    assert name.startswith("00001-")
    assert name.endswith(".metadata.json")
    assert len(set(await setup.files())) == 2


async def test_metadata_are_stored_compressed_if_the_table_asks_for_it() -> None:
    setup, _ = await with_table("t")
    body = {"write.metadata.compression-codec": "gzip"}
    committed_table = await setup.a.commit("t", update("set-properties", updates=body))
    assert str(committed_table.location).endswith(".gz.metadata.json")
    [key] = await setup.files("00001-")
    stored = await setup.inner.store(setup.a.api_process.store.role).get(key)
    assert json.decode(gzip.decompress(stored), dict) == committed_table.metadata
    assert (await setup.b.load("t")).raw == committed_table.raw


async def test_a_commit_that_changes_nothing_writes_nothing() -> None:
    setup, [table_id] = await with_table("t")
    before = await setup.a.mark("t", "x")
    keys = await setup.inner.keys("warehouse/")
    repeated_result = await setup.b.mark("t", "x")
    assert repeated_result.location == before.location
    assert len(await setup.chain(table_id)) == 2
    assert await setup.inner.keys("warehouse/") == keys


async def test_a_commit_to_a_table_that_is_not_there_is_refused() -> None:
    setup, _ = await with_table("t")
    missing = await refusal(setup.a.mark("u", "x"))
    assert (missing.status, missing.kind) == (404, "NoSuchTableException")
    assert missing.message == "Table does not exist: s.u"


async def test_who_loses_a_race_applies_again_and_nothing_is_lost() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.before("create", pointer_key(table_id, 1), lambda: setup.b.mark("t", "b"))
    committed_table = await setup.a.mark("t", "a")
    assert marks_of(committed_table) == {"a", "b"}
    assert [each.operation for each in await setup.pointers(table_id)] == [
        "create",
        *["commit"] * 2,
    ]
    assert committed_table.metadata["metadata-log"] == [
        {"metadata-file": each.metadata_location, "timestamp-ms": stamp}
        for each, stamp in zip(
            await setup.pointers(table_id), _stamps(committed_table.metadata), strict=False
        )
    ]


def _stamps(metadata: dict[str, Json]) -> list[Json]:
    log = metadata["metadata-log"]
    assert isinstance(log, list)
    return [each["timestamp-ms"] for each in log if isinstance(each, dict)]


async def test_a_lost_race_is_a_conflict_only_if_a_requirement_fails_then() -> None:
    setup, [table_id] = await with_table("t")
    grown = update("add-schema", schema=_wider("more"))
    use = update("set-current-schema", schema_id=-1)
    same: list[dict[str, Json]] = [{"type": "assert-current-schema-id", "current-schema-id": 0}]
    setup.a.connection.before(
        "create", pointer_key(table_id, 1), lambda: setup.b.commit("t", grown, use, require=same)
    )
    lost = await refusal(setup.a.commit("t", *_adding("other"), require=same))
    assert (lost.status, lost.kind) == (409, "CommitFailedException")
    assert lost.message.startswith("Requirement failed: current schema changed")
    assert len(await setup.chain(table_id)) == 2


async def test_a_snapshot_with_a_stale_sequence_number_is_a_conflict_and_not_a_bad_request() -> (
    None
):
    setup, _ = await with_table("t")
    location = str((await setup.a.load("t")).metadata["location"])
    lists = {"manifest-list": f"{location}/metadata/snap.avro"}
    first = update("add-snapshot", snapshot=snapshot(1, **lists))
    await setup.a.commit("t", first)
    stale = update("add-snapshot", snapshot=snapshot(2, 1, **lists | {"sequence-number": 1}))
    lost = await refusal(setup.a.commit("t", stale))
    assert (lost.status, lost.kind) == (409, "CommitFailedException")


async def test_many_writers_in_two_processes_lose_nothing() -> None:
    setup, [table_id] = await with_table("t")
    marks = [f"m{n}" for n in range(12)]
    apis = [setup.a, setup.b]
    await asyncio.gather(*(apis[n % 2].mark("t", mark) for n, mark in enumerate(marks)))
    assert marks_of(await setup.api().load("t")) == set(marks)
    assert len(await setup.chain(table_id)) == 1 + len(marks)


async def test_a_commit_whose_answer_was_lost_is_found_by_its_own_number() -> None:
    setup, [table_id] = await with_table("t")

    async def lose() -> None:
        raise Unavailable("the answer was lost")

    setup.a.connection.after("create", pointer_key(table_id, 1), lose)
    await setup.a.mark("t", "x")
    assert len(await setup.chain(table_id)) == 2


async def test_a_commit_with_an_unclear_result_is_unknown_and_no_refusal() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.hide(pointer_key(table_id, 1))
    with pytest.raises(Unknown):
        await setup.a.mark("t", "x")
    assert marks_of(await setup.b.load("t")) == {"x"}, "it had landed"


async def test_a_commit_that_may_still_arrive_is_unknown() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.fail("create", pointer_key(table_id, 1), Unavailable("cut"))
    with pytest.raises(Unknown):
        await setup.a.mark("t", "x")


@pytest.mark.parametrize("times", [1, 100])
async def test_a_conflict_that_the_store_only_claims_is_none(times: int) -> None:
    """Stores answer 409 and 412 in passing, too: without another's object that is no lost race."""
    setup, [table_id] = await with_table("t")
    setup.a.connection.fail("create", pointer_key(table_id, 1), AlreadyExists("412"), times=times)
    if times == 1:
        await setup.a.mark("t", "x")
    else:
        with pytest.raises(Unknown):
            await setup.a.mark("t", "x")
    setup.a.connection.mend()
    assert marks_of(await setup.a.mark("t", "y")) >= {"y"}


@pytest.mark.parametrize("problem", [Unavailable("cut"), AlreadyExists("412"), Denied("403")])
async def test_a_metadata_file_that_cannot_be_stored_is_trouble_and_no_verdict(
    problem: Exception,
) -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.fail("create", f"warehouse/{table_id}/metadata/00001-", problem)
    with pytest.raises(Unavailable):
        await setup.a.mark("t", "x")
    assert len(await setup.chain(table_id)) == 1


async def test_an_unreadable_head_is_trouble_and_not_a_missing_table() -> None:
    setup, _ = await with_table("t")
    setup.b.connection.fail("get", POINTERS, Unavailable("cut"))
    with pytest.raises(Unavailable):
        await setup.b.load("t")
    with pytest.raises(Unavailable):
        await setup.b.mark("t", "x")


async def test_a_commit_that_loses_races_for_too_long_is_answered_as_not_done() -> None:
    setup, _ = await with_table("t")
    count = 0

    async def another() -> None:
        nonlocal count
        count += 1
        setup.pass_by(COMMIT_DEADLINE_MS / 3_000)
        await setup.b.mark("t", f"b{count}")

    setup.a.connection.before("create", POINTERS, another, times=100)
    with pytest.raises(Unavailable) as busy:
        await setup.a.mark("t", "a")
    assert busy.value.retry_after_ms is not None
    assert count == 3
    assert "a" not in marks_of(await setup.b.load("t"))


async def test_a_missing_metadata_file_is_named_to_who_asks() -> None:
    setup, _ = await with_table("t")
    [key] = await setup.files()
    await setup.inner.backend.delete(
        setup.inner.store(setup.a.api_process.store.role).scope.prefix + key
    )
    lost = await refusal(setup.b.load("t"))
    assert (lost.status, lost.kind) == (404, "NotFoundException")
    assert lost.message == f"Failed to open input stream for file: {_location(setup.a, key)}"
    assert (await refusal(setup.b.mark("t", "x"))).kind == "NotFoundException"


def _location(api: Api, key: str) -> str:
    table_id = key.split("/")[1]
    return f"{api.context.locations.managed(table_id)}/{key.split('/', 2)[2]}"


UPDATES_BY_NAME: list[tuple[str, list[dict[str, Json]]]] = [
    ("reserved", [update("set-properties", updates={"arco.owner": "x"})]),
    ("reserved in capitals", [update("set-properties", updates={"ARCO.owner": "x"})]),
    ("reserved removed", [update("remove-properties", removals=["Arco.owner"])]),
    ("moved", [update("set-location", location="s3://bucket/other")]),
    ("moved into the warehouse", [update("set-location", location="{root}warehouse/other")]),
    ("data elsewhere", [update("set-properties", updates={"write.data.path": "s3://evil/x"})]),
    ("metadata elsewhere", [update("set-properties", updates={"write.metadata.path": "s3://e/x"})]),
    (
        "objects elsewhere",
        [update("set-properties", updates={"write.object-storage.path": "{root}_catalog"})],
    ),
    (
        "statistics elsewhere",
        [
            update(
                "set-statistics",
                snapshot_id=1,
                statistics={
                    "snapshot-id": 1,
                    "statistics-path": "{root}warehouse/other/stats.puffin",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                },
            )
        ],
    ),
    ("unknown", [update("set-colour", colour="red")]),
]


@pytest.mark.parametrize(
    "body", [each for _, each in UPDATES_BY_NAME], ids=[name for name, _ in UPDATES_BY_NAME]
)
async def test_what_a_table_must_not_do_is_a_bad_request_and_changes_nothing(
    body: list[dict[str, Json]],
) -> None:
    setup, [table_id] = await with_table("t")
    sent = json.decode(json.encode(body).replace(b"{root}", setup.root_url.encode()), list)
    invalid = await refusal(setup.a.commit("t", *sent))
    assert (invalid.status, invalid.kind) == (400, "BadRequestException")
    assert len(await setup.chain(table_id)) == 1
    assert len(await setup.files()) == 1


async def test_a_location_that_is_already_the_tables_own_may_be_set() -> None:
    setup, _ = await with_table("t")
    location = str((await setup.a.load("t")).metadata["location"])
    await setup.a.commit("t", update("set-location", location=f"{location}/"))
    assert (await setup.a.load("t")).metadata["location"] == location


async def test_a_table_that_moves_keeps_others_out_of_its_new_place() -> None:
    setup, [_, _] = await with_table("t", "u")
    to = update("set-location", location=f"{ELSEWHERE}t")
    moved = await setup.a.commit("t", to)
    assert str(moved.location).startswith(f"{ELSEWHERE}t/metadata/00001-")
    conflict = await refusal(setup.b.commit("u", to))
    assert (conflict.status, conflict.kind) == (409, "CommitFailedException")
    await setup.a.settle()
    row = (await (await setup.b.context.reader.head()).find(str(moved.metadata["table-uuid"]))).row
    assert getattr(row, "location", None) == f"{ELSEWHERE}t/"


async def test_the_catalog_shows_columns_that_a_commit_has_changed() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.commit("t", *_adding("more"))
    await setup.a.settle()
    columns = await (await setup.b.context.reader.head()).columns(table_id)
    assert [each.row.name for each in columns] == ["id", "placed_at", "country", "more"]
    row = (await (await setup.b.context.reader.head()).find(table_id)).row
    assert getattr(row, "projected", None) == 1


async def test_a_commit_by_another_client_is_seen_by_the_next_load() -> None:
    setup, _ = await with_table("t")
    await setup.b.load("t")
    committed_table = await setup.a.mark("t", "x")
    assert (await setup.b.load("t")).location == committed_table.location


async def test_writers_of_one_process_take_turns_and_write_no_file_for_nothing() -> None:
    setup, _ = await with_table("t")
    await asyncio.gather(*(setup.a.mark("t", f"m{n}") for n in range(8)))
    assert len(await setup.files()) == 9
    await until(lambda: not setup.a.context.table_locks._waiting)


def _wider(name: str) -> dict[str, Json]:
    fields = ORDERS["fields"]
    assert isinstance(fields, list)
    return {**ORDERS, "schema-id": 1, "fields": [*fields, column(4, name)]}


def _adding(name: str) -> list[dict[str, Json]]:
    schema = update("add-schema", schema=_wider(name), last_column_id=4)
    return [schema, update("set-current-schema", schema_id=-1)]
