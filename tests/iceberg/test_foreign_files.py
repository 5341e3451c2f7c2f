"""Whose files are removed, and where any are written: a table's own, whatever its metadata say."""

from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro

from arco.core import json
from arco.core.json import Json
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.files import TableFiles
from arco.iceberg.garbage_collection import TableGarbageCollector, TableGcReport
from arco.iceberg.location import METADATA_PATH, Locations
from arco.iceberg.service import open_iceberg
from arco.iceberg.transaction_record import TransactionRecords
from arco.storage.backend import Backend, Meta
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.external_location import ExternalLocation
from arco.storage.retry import RetryingBackend
from arco.storage.roles import Role
from tests.catalog.catalog_setup import IMPATIENT
from tests.iceberg.engine.sample_metadata import ORDERS, OTHER_UUID
from tests.iceberg.engine.sample_metadata import request as create_request
from tests.iceberg.iceberg_setup import (
    ELSEWHERE,
    Api,
    IcebergSetup,
    StoreConnection,
    begun,
    id_of,
    making,
    refusal,
    set_unreserved,
    with_table,
)
from tests.storage.interposed import Interposed

DELETES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "1",
}


class _Aged(Interposed):
    """A store in which everything was made long ago."""

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in super().list(prefix, after):
            yield replace(meta, modified_ms=meta.modified_ms - 2 * SHORTEST_RETENTION_MS)


def _cleaner(setup: IcebergSetup, outside: Backend | None = None) -> Api:
    """A process that may remove files, too."""
    connection, runtime = StoreConnection(setup.inner.backend), setup.inner.runtime
    api_process = setup._open_api_process(connection)
    beyond = ExternalLocation(
        RetryingBackend(outside or setup.outside, runtime, retry=IMPATIENT), role=Role.API
    )
    janitor = setup.inner.store(Role.JANITOR, connection.backend)
    files = TableFiles(api_process.store, setup.root_url, {ELSEWHERE: beyond}, janitor=janitor)
    locations = Locations(setup.root_url, (ELSEWHERE,))
    iceberg = open_iceberg(api_process.committer, api_process.idempotency, files, locations)
    return Api(connection, api_process, iceberg, setup.inner.clock)


async def _collect(setup: IcebergSetup) -> TableGcReport:
    """A collection to which everything in the declared place is old."""
    api = _cleaner(setup, _Aged(setup.outside))
    janitor, transactions = setup.inner.store(Role.JANITOR), TransactionRecords(api.context.store)
    return await TableGarbageCollector(
        api.context, transactions, janitor, retention_ms=SHORTEST_RETENTION_MS
    ).collect()


async def _put(setup: IcebergSetup, key: str, **more: Any) -> str:
    """A metadata file from another catalog in the declared location."""
    metadata = new_table(
        create_request(ORDERS), table_uuid=OTHER_UUID, location=f"{ELSEWHERE}theirs", now_ms=1
    )
    properties = {**DELETES, "theirs": "1"}
    body = json.encode({**metadata, "properties": properties, **more})
    await setup.outside.create(key, body)
    return ELSEWHERE + key


async def _outside(setup: IcebergSetup) -> list[str]:
    return sorted([meta.key async for meta in setup.outside.list("")])


async def test_a_log_that_names_the_file_of_another_table_has_it_removed_never() -> None:
    setup, _ = await with_table("victim")
    [victim] = await setup.files("metadata/")
    log: Json = [{"timestamp-ms": 1, "metadata-file": setup.root_url + victim}]
    theirs = await _put(setup, "theirs/metadata/v1.metadata.json", **{"metadata-log": log})
    api = _cleaner(setup)
    await api.register("t", theirs)
    for mark in "xyz":
        await api.mark("t", mark)
        await api.settle()
    assert victim in await setup.files("metadata/")
    # Its own files do go.
    assert "theirs/metadata/v1.metadata.json" not in await _outside(setup)


async def test_tables_that_share_a_folder_for_their_metadata_lose_nothing() -> None:
    """They can only be older than the reservation of paths."""
    setup, _ = await with_table("t", "u")
    for name in ("t", "u"):
        await set_unreserved(setup, name, {METADATA_PATH: f"{ELSEWHERE}shared"})
    for name in ("t", "t", "u", "t"):
        await setup.a.mark(name, name + "x")
        await setup.a.mark(name, name + "y")
    before = await _outside(setup)
    done = await _collect(setup)
    assert (done.metadata, done.problems) == (0, 0)
    assert await _outside(setup) == before
    fresh = setup.api()
    assert {(await fresh.load(name)).location for name in ("t", "u")}


async def test_a_path_that_is_older_than_reservations_is_reserved_by_the_next_commit() -> None:
    setup, _ = await with_table("t", "u")
    await set_unreserved(setup, "t", {METADATA_PATH: f"{ELSEWHERE}old"})
    await setup.b.mark("t", "x")
    no = await refusal(setup.a.create("v", location=f"{ELSEWHERE}old"))
    assert no.status == 409


async def test_what_a_table_itself_has_left_in_a_shared_folder_goes() -> None:
    setup = await begun()
    shared = {METADATA_PATH: f"{ELSEWHERE}shared"}
    created_table = await setup.a.create("t", properties=shared)
    await setup.a.mark("t", "x")
    # An attempt for number 1 that came too late.
    lost = "shared/00001-0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11.metadata.json"
    await setup.outside.create(lost, created_table.raw)
    assert (await _collect(setup)).metadata == 1
    assert lost not in await _outside(setup)


async def test_a_table_whose_file_is_gone_does_not_end_the_collection() -> None:
    setup = await begun()
    for name in ("t", "u"):
        await setup.a.create(name, location=f"{ELSEWHERE}{name}")
    [lost] = [key for key in await _outside(setup) if key.startswith("t/")]
    await setup.outside.delete(lost)
    done = await _collect(setup)
    assert done.problems == 1
    assert len(done.failed) == 1


async def test_a_damaged_manifest_does_not_end_the_collection() -> None:
    setup, kinds = await begun(), _damaged()
    assert len(kinds) > 2
    for number, damaged in enumerate(kinds):
        name = f"t{number}"
        home = f"{ELSEWHERE}{name}"
        await setup.outside.create(f"{name}/metadata/list.avro", damaged)
        await setup.a.create(name, location=home)
        await setup.a.commit(name, _snapshot(f"{home}/metadata/list.avro"))
        await setup.a.drop(name, purge=True)
    await setup.a.settle()
    done = await _collect(setup)
    assert done.problems == len(done.failed) == len(kinds)


async def test_nothing_is_written_into_the_place_of_another_table() -> None:
    setup = await begun()
    await setup.a.create("t", location=f"{ELSEWHERE}a/b")
    before = await _outside(setup)
    for path in ("a/b", "a/b/c", "a", "a/b/"):
        location = ELSEWHERE + path
        for staged in (False, True):
            no = await refusal(setup.b.create("u", location=location, stage_create=staged))
            assert (no.status, no.kind) == (409, "AlreadyExistsException")
        placing: dict[str, Json] = {"action": "set-location", "location": location}
        body = making("u")
        other_updates = tuple(each for each in body.updates if each["action"] != "set-location")
        no = await refusal(setup.b.commit("u", *other_updates, placing, require=body.requirements))
        assert no.status == 409
    assert await _outside(setup) == before
    assert await setup.b.names() == ["t"]
    assert (await setup.b.create("u", location=f"{ELSEWHERE}a/b2")).location is not None


async def test_a_missing_namespace_is_reported_before_a_place_that_is_taken() -> None:
    setup = await begun()
    await setup.a.create("t", location=f"{ELSEWHERE}a")
    for staged in (False, True):
        no = await refusal(
            setup.a.create("t", ns=["nope"], location=f"{ELSEWHERE}a", stage_create=staged)
        )
        assert (no.status, no.kind) == (404, "NoSuchNamespaceException")


async def test_a_place_is_free_again_once_its_table_is_dropped() -> None:
    setup = await begun()
    await setup.a.create("t", location=f"{ELSEWHERE}a")
    no = await refusal(setup.a.create("u", key="k", location=f"{ELSEWHERE}a"))
    assert (no.status, no.kind) == (409, "AlreadyExistsException")
    await setup.a.drop("t")
    assert id_of(await setup.b.create("u", key="l", location=f"{ELSEWHERE}a"))


def _snapshot(manifest_list: str) -> dict[str, Json]:
    return {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": 1,
            "manifest-list": manifest_list,
            "summary": {"operation": "append"},
        },
    }


def _manifest() -> bytes:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "manifest_path", "type": "string"}],
    }
    written = BytesIO()
    records = [{"manifest_path": f"{ELSEWHERE}m{number}"} for number in range(9)]
    fastavro.writer(written, schema, records, codec="deflate")
    return written.getvalue()


def _damaged() -> list[bytes]:
    """A file for each kind of error that the library raises; there are many, and no list of them."""
    raw, damaged_files = _manifest(), dict[type[Exception], bytes]()
    for at in range(len(raw)):
        broken = raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]
        try:
            list(fastavro.reader(BytesIO(broken)))
        except Exception as problem:
            damaged_files.setdefault(type(problem), broken)
    return list(damaged_files.values())
