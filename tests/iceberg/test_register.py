"""Registering metadata that are there: whose they are, where they lie, and what they overwrite (P30)."""

from typing import Any

import pytest

from arco.catalog.ddl import TableName
from arco.catalog.model import TableRow
from arco.core import json
from arco.core.hashing import sha256_hex
from arco.core.json import Json
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.wire import RegisterTableRequest
from tests.iceberg.engine.sample_metadata import ORDERS, OTHER_UUID
from tests.iceberg.engine.sample_metadata import request as create_request
from tests.iceberg.iceberg_setup import (
    ELSEWHERE,
    Api,
    IcebergSetup,
    bad_request,
    begun,
    dies,
    dies_at_the_compactor,
    id_of,
    marks_of,
    refusal,
    with_table,
)

HOME = f"{ELSEWHERE}theirs"


def _metadata(uuid: str = OTHER_UUID, location: str = HOME, **more: Any) -> dict[str, Json]:
    metadata = new_table(create_request(ORDERS), table_uuid=uuid, location=location, now_ms=1)
    return {**metadata, **more}


async def _put(setup: IcebergSetup, name: str = "00007-x", **more: Any) -> str:
    """A metadata file from another catalog in a declared location."""
    return await _put_raw(setup, f"theirs/metadata/{name}.metadata.json", _metadata(**more))


async def _put_raw(setup: IcebergSetup, key: str, body: object) -> str:
    raw = body if isinstance(body, bytes) else json.encode(body)
    await setup.outside.create(key, raw)
    return ELSEWHERE + key


async def test_a_registered_table_has_an_id_of_its_own_and_its_uuid() -> None:
    setup = await begun()
    location = await _put(setup, **{"x-theirs": "kept"})
    registered_table = await setup.a.register("t", location)
    assert (registered_table.location, registered_table.metadata["x-theirs"]) == (location, "kept")
    assert (await setup.b.load("t")).raw == registered_table.raw
    row = await _row(setup, "t")
    assert (row.table_uuid, row.location) == (OTHER_UUID, f"{HOME}/")
    assert row.table_id != OTHER_UUID
    [first] = await setup.pointers(row.table_id)
    assert (first.operation, first.metadata_location) == ("register", location)
    assert first.metadata_sha256 == sha256_hex(registered_table.raw)  # so that an edit is found


async def _row(setup: IcebergSetup, name: str) -> TableRow:
    return (await (await setup.inner.head()).table(TableName("default", ("s",), name))).row


async def test_a_registered_table_goes_on_where_it_lies() -> None:
    setup = await begun()
    await setup.a.register("t", await _put(setup))
    committed_table = await setup.b.mark("t", "x")
    assert str(committed_table.location).startswith(f"{HOME}/metadata/00001-")
    assert marks_of(await setup.a.load("t")) == {"x"}


async def test_a_name_that_is_taken_is_refused() -> None:
    setup, [table_id] = await with_table("t")
    conflict = await refusal(setup.a.register("t", await _put(setup)))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert conflict.message == "Table already exists: s.t"
    assert id_of(await setup.b.load("t")) == table_id


async def test_a_uuid_that_is_live_under_another_name_is_refused() -> None:
    setup, [table_id] = await with_table("t")
    location = await _put(setup, uuid=table_id)
    conflict = await refusal(setup.a.register("u", location))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert await setup.b.names() == ["t"]
    await setup.a.drop("t")
    await setup.a.register("u", location)
    assert await setup.b.names() == ["u"]


async def test_the_same_metadata_have_one_name() -> None:
    setup = await begun()
    location = await _put(setup)
    await setup.a.register("t", location)
    conflict = await refusal(setup.b.register("u", location))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")


async def test_metadata_in_the_folder_of_a_live_table_are_refused() -> None:
    setup, _ = await with_table("t")
    loaded_table = await setup.a.load("t")
    for name in ("t2", "u"):
        conflict = await refusal(setup.b.register(name, str(loaded_table.location)))
        assert conflict.status == 409


@pytest.mark.parametrize(
    "location",
    [
        "s3://nowhere/t/metadata/00000-x.metadata.json",
        "{root}_catalog/iceberg_pointers/x.json",
        "{root}manifests/catalog/00000000000000000000.json",
        f"{ELSEWHERE}../secret.metadata.json",
        "file:///etc/passwd",
    ],
)
async def test_files_that_are_no_tables_are_never_read(location: str) -> None:
    setup = await begun()
    await bad_request(setup.a.register("t", location.replace("{root}", setup.root_url)))
    assert await setup.b.names() == []


BAD: dict[str, object] = {
    "no JSON": b"metadata",
    "a list": b"[]",
    "no metadata": {"x": 1},
    "a view": {"view-uuid": OTHER_UUID, "format-version": 1, "location": HOME},
    "an undeclared location": _metadata(location="s3://nowhere/t"),
    "data elsewhere": _metadata(properties={"write.data.path": "s3://nowhere/x"}),
    "a large property": _metadata(properties={"x": "y" * 65_537}),
    "statistics elsewhere": _metadata(
        statistics=[
            {
                "snapshot-id": 1,
                "statistics-path": "s3://nowhere/x.puffin",
                "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            }
        ]
    ),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
async def test_metadata_that_are_wrong_are_a_bad_request(body: object) -> None:
    setup = await begun()
    location = await _put_raw(setup, "theirs/metadata/00000-x.metadata.json", body)
    await bad_request(setup.a.register("t", location))
    assert await setup.b.names() == []
    assert await setup.inner.keys("_catalog/iceberg_pointers/") == []


async def test_a_metadata_file_that_is_not_there_is_named() -> None:
    setup = await begun()
    location = f"{HOME}/metadata/00000-x.metadata.json"
    missing = await refusal(setup.a.register("t", location))
    assert (missing.status, missing.kind) == (404, "NotFoundException")
    assert location in missing.message


async def test_a_namespace_that_is_not_there_is_refused() -> None:
    setup = await begun()
    request = RegisterTableRequest(name="t", metadata_location=await _put(setup))
    caller = setup.a.caller("registerTable")
    missing = await refusal(setup.a.iceberg.tables.register("default", ("no",), request, caller))
    assert (missing.status, missing.kind) == (404, "NoSuchNamespaceException")


async def test_a_dropped_table_can_be_registered_again() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    await setup.a.drop("t")
    registered_table = await setup.b.register("t", str(committed_table.location))
    assert id_of(registered_table) == table_id
    row = await _row(setup, "t")
    assert row.table_id != table_id
    assert row.location == f"warehouse/{table_id}/"
    assert marks_of(await setup.b.mark("t", "y")) == {"x", "y"}
    assert len(await setup.chain(table_id)) == 3


async def test_overwriting_is_the_next_number_of_the_same_table() -> None:
    setup = await begun()
    await setup.a.register("t", await _put(setup))
    newer = await _put(setup, "00008-y", properties={"x": "made"})
    registered_table = await setup.b.register("t", newer, overwrite=True)
    assert registered_table.location == newer
    assert marks_of(await setup.a.load("t")) == {"x"}
    first, second = await setup.pointers((await _row(setup, "t")).table_id)
    assert second.metadata_sha256 == sha256_hex((await setup.b.load("t")).raw)
    assert (second.operation, second.previous_location) == ("register", first.metadata_location)


async def test_overwriting_what_is_not_there_makes_it() -> None:
    setup = await begun()
    await setup.a.register("t", await _put(setup), overwrite=True)
    assert await setup.b.names() == ["t"]


async def test_overwriting_with_the_same_metadata_changes_nothing() -> None:
    setup = await begun()
    location = await _put(setup)
    await setup.a.register("t", location)
    await setup.b.register("t", location, overwrite=True)
    assert len(await setup.chain((await _row(setup, "t")).table_id)) == 1


async def test_overwriting_with_metadata_of_another_place_is_refused() -> None:
    setup, [table_id] = await with_table("t")
    invalid = await refusal(setup.a.register("t", await _put(setup), overwrite=True))
    assert (invalid.status, invalid.kind) == (400, "BadRequestException")
    assert len(await setup.chain(table_id)) == 1


async def test_overwriting_with_the_uuid_of_another_table_is_refused() -> None:
    setup, [other] = await with_table("other")
    await setup.a.register("t", await _put(setup))
    location = await _put(setup, "00008-y", uuid=other)
    conflict = await refusal(setup.b.register("t", location, overwrite=True))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert len(await setup.chain((await _row(setup, "t")).table_id)) == 1


async def test_a_commit_that_comes_between_is_overwritten_with_the_rest() -> None:
    setup = await begun()
    await setup.a.register("t", await _put(setup))
    newer = await _put(setup, "00008-y")
    setup.a.connection.before("create", "iceberg_pointers/", lambda: setup.b.mark("t", "x"))
    await setup.a.register("t", newer, overwrite=True)
    loaded_table = await setup.b.load("t")
    assert loaded_table.location == newer
    assert len(await setup.chain((await _row(setup, "t")).table_id)) == 3


async def _retried(setup: IcebergSetup, api: Api, location: str) -> None:
    registered_table = await api.register("t", location, overwrite=True, key="k")
    assert registered_table.location == location


async def test_a_registration_that_made_its_table_is_not_taken_for_one_to_overwrite() -> None:
    setup = await begun()
    location = await _put(setup)
    work = setup.a.register("t", location, overwrite=True, key="k")
    await dies_at_the_compactor(setup, setup.a, work, arrives=True)
    await _retried(setup, setup.b, location)
    assert len(await setup.chain((await _row(setup, "t")).table_id)) == 1


async def test_a_registration_that_overwrote_is_a_success_though_the_table_is_gone() -> None:
    setup = await begun()
    await setup.a.register("t", await _put(setup))
    newer = await _put(setup, "00008-y")
    setup.a.connection.die("create", "iceberg_pointers/", after=True)
    await dies(setup.a, setup.a.register("t", newer, overwrite=True, key="k"))
    await setup.b.drop("t")
    await _retried(setup, setup.b, newer)
    assert await setup.b.names() == []


async def test_a_registration_that_landed_is_a_success_though_the_table_has_another_name() -> None:
    setup = await begun()
    location = await _put(setup)
    await setup.a.register("t", location, overwrite=True, key="k")
    await setup.a.settle()
    await setup.b.rename("t", "u")
    await _retried(setup, setup.b, location)
    assert await setup.b.names() == ["u"]


async def test_a_registration_that_landed_is_a_success_though_its_file_is_gone() -> None:
    setup = await begun()
    location = await _put(setup)
    await setup.a.register("t", location, key="k")
    await setup.a.settle()
    await setup.b.mark("t", "x")
    await setup.outside.delete(location.removeprefix(ELSEWHERE))
    repeated_result = await setup.api().register("t", location, key="k")
    assert marks_of(repeated_result) == {"x"}, "what is in effect instead"
