"""Access to table files: the warehouse and the declared locations, and nothing else."""

import random
from pathlib import Path

import boto3
import duckdb
import pytest

from arco.core.errors import ArcoError, Conflict, Denied, Invalid, NotFound
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.iceberg.files import TableFiles
from arco.iceberg.location import Locations
from arco.storage.address import parse_address
from arco.storage.backend import Backend
from arco.storage.external_location import ExternalLocation, open_external_location
from arco.storage.local import LocalBackend
from arco.storage.retry import RetryingBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.figures import Figure
from tests.iceberg.hostile_locations import ALLOWED, OTHER, OWN, ROOT
from tests.iceberg.hostile_locations import location as hostile
from tests.storage.interposed import Interposed

FILE = "metadata/00000-x.metadata.json"
HOSTILE = 3_000


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A directory with a space and an escape in its name, so that every spelling is tried."""
    return tmp_path / "my disk%20"


@pytest.fixture
def root_url(disk: Path) -> str:
    return f"file://{disk}/arco/tenant=default/workspace=default/"


@pytest.fixture
def table(root_url: str) -> str:
    return Locations(root_url, ()).managed(OWN)


@pytest.fixture
def files(disk: Path, root_url: str, runtime: Runtime) -> TableFiles:
    """A workspace on the disk, in a declared place, beside tables that are not in it."""
    backend = LocalBackend(disk / "arco", runtime, fsync=False)
    return TableFiles(
        Store(backend, runtime, scope=Scope(), role=Role.API),
        root_url,
        {f"file://{disk}/": outside_at(disk, runtime)},
        janitor=Store(backend, runtime, scope=Scope(), role=Role.JANITOR),
    )


def outside_at(url: Path | str, runtime: Runtime) -> ExternalLocation:
    return open_external_location(parse_address(str(url)), runtime, role=Role.API, fsync=False)


async def test_files_in_our_warehouse_are_in_our_store(
    files: TableFiles, disk: Path, table: str
) -> None:
    path = disk / f"arco/tenant=default/workspace=default/warehouse/{OWN}/{FILE}"
    assert not await files.exists(f"{table}/{FILE}")
    with pytest.raises(NotFound, match=FILE):
        await files.read(f"{table}/{FILE}")
    await files.create(f"{table}/{FILE}", b"1")
    assert path.read_bytes() == b"1"
    for normalized in (table, table.replace("file:///", "file:/"), table.replace("file://", "")):
        assert await files.read(f"{normalized}/{FILE}") == b"1"
        assert await files.exists(f"{normalized}/{FILE}")
    with pytest.raises(Conflict):
        await files.create(f"{table}/{FILE}", b"2")


async def test_files_outside_are_where_their_location_says_to_the_letter(
    files: TableFiles, disk: Path
) -> None:
    for folder in ("ns/a b", "ns/a%20b", "ns/ü"):
        await files.create(f"file://{disk}/{folder}/{FILE}", folder.encode())
        assert (disk / folder / FILE).read_bytes() == folder.encode()
        assert await files.read(f"file:{disk}/{folder}/{FILE}") == folder.encode()
        assert await files.read(f"{disk}/{folder}/{FILE}") == folder.encode()
        engine = duckdb.sql(f"SELECT content FROM read_text('file://{disk}/{folder}/{FILE}')")
        assert engine.fetchall() == [(folder,)]
    with pytest.raises(NotFound):
        await files.read(f"file://{disk}/ns/%C3%BC/{FILE}")
    assert not await files.exists(f"file://{disk}/ns/b/{FILE}")


async def test_files_in_a_declared_bucket_are_found_under_every_name_of_its_kind(
    files: TableFiles, root_url: str, moto_url: str, runtime: Runtime, memory: Backend
) -> None:
    outside = outside_at(f"s3://arco/outside/x?endpoint={moto_url}", runtime)
    store = Store(memory, runtime, scope=Scope(), role=Role.API)
    cloud = TableFiles(store, root_url, {"s3://arco/outside/x/": outside})
    await cloud.create(f"s3a://arco/outside/x/t%20/{FILE}", b"1")
    assert await cloud.read(f"s3://arco/outside/x/t%20/{FILE}") == b"1"
    client = boto3.client("s3", endpoint_url=moto_url, region_name="us-east-1")
    listing = client.list_objects_v2(Bucket="arco", Prefix="outside/x/")
    assert [each["Key"] for each in listing["Contents"]] == [f"outside/x/t%20/{FILE}"]
    assert not cloud.is_local("s3://arco/outside/x/t")
    await cloud.make_folders("s3://arco/outside/x/t2")  # a bucket has none to make
    assert client.list_objects_v2(Bucket="arco", Prefix="outside/x/t2")["KeyCount"] == 0


async def test_a_place_in_a_place_is_reached_through_its_own_handle(
    root_url: str, memory: Backend, tmp_path: Path, runtime: Runtime
) -> None:
    wide, narrow = outside_at(tmp_path / "wide", runtime), outside_at(tmp_path / "narrow", runtime)
    store = Store(memory, runtime, scope=Scope(), role=Role.API)
    files = TableFiles(store, root_url, {"s3://b/": wide, "s3://b/in/": narrow})
    await files.create("s3://b/in/x", b"1")
    await files.create("s3://b/inside/x", b"2")
    assert (tmp_path / "narrow/x").read_bytes() == b"1"
    assert (tmp_path / "wide/inside/x").read_bytes() == b"2"


async def test_the_folders_of_a_table_are_made_on_a_disk_alone(
    files: TableFiles, disk: Path, table: str, memory: Backend, runtime: Runtime
) -> None:
    for location in (table, f"file:{disk}/ns/t/"):
        assert files.is_local(location)
        await files.make_folders(location)
        await files.make_folders(location)
    own = disk / f"arco/tenant=default/workspace=default/warehouse/{OWN}"
    for folder in (own, disk / "ns/t"):
        assert sorted(each.name for each in folder.iterdir()) == ["data", "metadata"]
    assert sorted(each.name for each in disk.iterdir()) == ["arco", "ns"]
    store = Store(memory, runtime, scope=Scope(), role=Role.API)
    unseen = TableFiles(store, "memory://tenant=default/workspace=default/", {})
    location = f"memory://tenant=default/workspace=default/warehouse/{OWN}"
    await unseen.make_folders(location)
    assert not unseen.is_local(location)


async def test_files_are_listed_and_deleted_by_the_janitor_alone(
    files: TableFiles, disk: Path, root_url: str, table: str, runtime: Runtime
) -> None:
    other = Locations(root_url, ()).managed(OWN + "2")
    for folder in (table, other, f"file:{disk}/ns/t", f"file:{disk}/ns/t2"):
        for name in ("metadata/1", "metadata/2"):
            await files.create(f"{folder}/{name}", b"x")
    for folder in (table, f"file:{disk}/ns/t"):
        keys = [meta.key async for meta in files.list_below(folder + "/")]
        assert keys == [f"{folder}/metadata/1", f"{folder}/metadata/2"]
        await files.delete(keys[0])
        await files.delete(keys[0])
        assert [meta.key async for meta in files.list_below(folder)] == keys[1:]
    assert await files.exists(f"{other}/metadata/1")
    assert await files.exists(f"file:{disk}/ns/t2/metadata/1")
    assert files.can_delete
    backend = LocalBackend(disk / "arco", runtime, fsync=False)
    api = Store(backend, runtime, scope=Scope(), role=Role.API)
    plain = TableFiles(api, root_url, {f"file://{disk}/": outside_at(disk, runtime)})
    assert not plain.can_delete
    for request in (plain.delete(f"{table}/metadata/2"), anext(plain.list_below(table))):
        with pytest.raises(Denied):
            await request


async def test_a_place_that_is_declared_no_more_is_closed(
    files: TableFiles, disk: Path, root_url: str, memory: Backend, runtime: Runtime
) -> None:
    location = f"file://{disk}/ns/t/{FILE}"
    await files.create(location, b"1")
    store = Store(memory, runtime, scope=Scope(), role=Role.API)
    shrunk = TableFiles(store, root_url, {f"file://{disk}/n/": outside_at(disk / "n", runtime)})
    for request in (
        shrunk.read(location),
        shrunk.exists(location),
        shrunk.create(location + "2", b"2"),
        shrunk.make_folders(f"file://{disk}/ns/t3"),
    ):
        with pytest.raises(Denied, match="--allow-location"):
            await request
    assert not (disk / "ns/t3").exists()


async def test_in_our_root_nothing_but_the_warehouse_is_reached(
    files: TableFiles, disk: Path, root_url: str
) -> None:
    """Although the root lies in a declared place."""
    inside = [
        f"{root_url}_catalog/x.json",
        f"{root_url}warehouse",
        f"file://{disk}/arco/tenant=other/workspace=default/warehouse/{OTHER}/x",
        f"file://{disk}/ARCO/tenant=default/x",
        f"file://{disk}/arco/.arco/key",
        f"{root_url}warehouse/../_catalog/x.json",
        f"{root_url}warehouse/%2e%2e/_catalog/x.json",
    ]
    for location in inside:
        for request in (files.read(location), files.create(location, b"1"), files.delete(location)):
            with pytest.raises(Denied):
                await request


def test_a_place_that_is_not_spelled_as_it_would_be_looked_up_is_refused(
    root_url: str, memory: Backend, tmp_path: Path, runtime: Runtime
) -> None:
    store = Store(memory, runtime, scope=Scope(), role=Role.API)
    for url in ("s3a://b/x/", "s3://b/x", "file:/tmp/"):
        with pytest.raises(Invalid):
            TableFiles(store, root_url, {url: outside_at(tmp_path, runtime)})
    with pytest.raises(Invalid):
        TableFiles(store, root_url.rstrip("/"), {})


async def test_whatever_is_asked_for_no_request_leaves_the_places_it_may_reach(
    memory: Backend, runtime: Runtime, figure: Figure
) -> None:
    """Of figures 21 and 24: counted at the stores, and not by the answers."""
    requested_keys: dict[str, list[str]] = {each: [] for each in ("own", *ALLOWED)}

    def watched(name: str) -> Interposed:
        async def note(_: str, key: str) -> None:
            requested_keys[name].append(key)

        return Interposed(memory, before=note)

    store = Store(watched("own"), runtime, scope=Scope(), role=Role.API)
    outside = {
        url: ExternalLocation(RetryingBackend(watched(url), runtime), role=Role.API)
        for url in ALLOWED
        if not url.startswith("file:")
    }
    files, rng = TableFiles(store, ROOT, outside), random.Random(24)
    for _ in range(HOSTILE):
        text = hostile(rng)
        for request in (files.read(text), files.exists(text), files.create(text, b"1")):
            try:
                await request
            except ArcoError as refused:
                assert refused.code in ("denied", "invalid", "not_found"), text
    assert all(key.startswith(f"{Scope().prefix}warehouse/") for key in requested_keys["own"])
    for key in (key for url in ALLOWED for key in requested_keys[url]):
        assert not key.startswith("arco/"), key
        assert ".." not in key.split("/"), key
    request_count = sum(map(len, requested_keys.values()))
    assert request_count
    figure(
        f"table files: {HOSTILE * 3} calls with hostile locations made {request_count} requests to the "
        "stores, 0 of them beyond the warehouse and the declared places"
    )
