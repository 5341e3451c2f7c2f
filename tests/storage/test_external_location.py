"""External locations: Arco reads and creates files there, and changes no other file."""

import os
import shutil
from pathlib import Path

import boto3
import pytest

from arco.core.errors import ArcoError, Conflict, Denied, Invalid, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.storage.address import parse_address
from arco.storage.backend import Backend
from arco.storage.external_location import ExternalLocation, make_folders, open_external_location
from arco.storage.roles import Role
from tests.storage.interposed import Interposed, Step, nothing
from tests.storage.journal import Journal
from tests.stores import HASTY, KINDS, store_url

KEY = "ns/t/metadata/00000-x.metadata.json"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "ext"


def opened(
    url: str | Path, runtime: Runtime, role: Role = Role.API, *, after: Step = nothing
) -> ExternalLocation:
    def watched(backend: Backend) -> Backend:
        return Interposed(backend, after=after)

    address = parse_address(str(url))
    return open_external_location(
        address, runtime, role=role, fsync=False, retry=HASTY, watched=watched
    )


@pytest.fixture
def outside(directory: Path, runtime: Runtime) -> ExternalLocation:
    return opened(directory, runtime)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "memory"])
async def test_every_kind_of_store_can_be_outside(
    kind: str, request: pytest.FixtureRequest, runtime: Runtime
) -> None:
    url = store_url(kind, request)
    api, janitor = opened(url, runtime), opened(url, runtime, Role.JANITOR)
    assert await api.find(KEY) is None
    assert not await api.exists(KEY)
    with pytest.raises(NotFound):
        await api.get(KEY)
    await api.create(KEY, b"mine")
    await api.create(KEY, b"mine")  # the same bytes are ours
    with pytest.raises(Conflict):
        await api.create(KEY, b"another's")
    assert (await api.get(KEY), await api.find(KEY), await api.exists(KEY)) == (
        b"mine",
        b"mine",
        True,
    )
    assert [meta.key async for meta in janitor.list("ns/t/")] == [KEY]
    assert [meta.key async for meta in janitor.list("ns/t2/")] == []
    await janitor.delete(KEY)
    await janitor.delete(KEY)
    assert [meta.key async for meta in janitor.list("")] == []


@pytest.mark.parametrize("kind", ["local", "moto"])
async def test_a_key_is_taken_as_it_stands(
    kind: str, request: pytest.FixtureRequest, runtime: Runtime, moto_url: str, tmp_path: Path
) -> None:
    url = store_url(kind, request)
    outside = opened(url, runtime)
    names = ("a b/x", "a%20b/x", "ü/x", "100%/x")
    for name in names:
        await outside.create(name, name.encode())
    for name in names:
        assert await outside.get(name) == name.encode()
        if kind == "local":
            assert (tmp_path / "store" / name).read_bytes() == name.encode()
        else:
            prefix = parse_address(url).prefix
            client = boto3.client("s3", endpoint_url=moto_url, region_name="us-east-1")
            body = client.get_object(Bucket="arco", Key=prefix + name)["Body"].read()
            assert body == name.encode()


async def test_a_create_whose_answer_was_lost_succeeds(directory: Path, runtime: Runtime) -> None:
    lost: list[str] = []

    async def lose(verb: str, key: str) -> None:
        if verb == "create" and not lost:
            lost.append(key)
            raise Unavailable("the answer was lost")

    await opened(directory, runtime, after=lose).create(KEY, b"mine")
    assert lost == [KEY]
    assert (directory / KEY).read_bytes() == b"mine"


async def test_a_role_does_there_only_what_the_table_says(
    outside: ExternalLocation, directory: Path, runtime: Runtime
) -> None:
    await outside.create(KEY, b"1")
    with pytest.raises(Denied):
        await outside.delete(KEY)
    with pytest.raises(Denied):
        await anext(outside.list("ns/"))
    janitor = outside.as_role(Role.JANITOR)
    assert await janitor.get(KEY) == b"1"
    with pytest.raises(Denied):
        await janitor.create("y", b"2")
    for role in (Role.COMPACTOR, Role.FLOW, Role.READER):
        other = opened(directory, runtime, role)
        for request in (
            other.get(KEY),
            other.exists(KEY),
            other.create("y", b""),
            other.delete(KEY),
        ):
            with pytest.raises(Denied):
                await request
    assert await outside.as_role(Role.API).get(KEY) == b"1"


@pytest.mark.parametrize(
    "key", ["", "../x", "a/../../x", "/x", "a//x", "a\\x", "a\0", ".arco/x", "."]
)
async def test_no_key_leads_out_of_the_location(
    outside: ExternalLocation, directory: Path, key: str
) -> None:
    for request in (outside.get(key), outside.exists(key), outside.create(key, b"1")):
        with pytest.raises(Invalid):
            await request
    janitor = outside.as_role(Role.JANITOR)
    with pytest.raises(Invalid):
        await janitor.delete(key)
    assert not directory.exists()


async def test_a_location_that_is_only_read_is_not_created(
    outside: ExternalLocation, directory: Path
) -> None:
    assert await outside.find(KEY) is None
    assert [meta async for meta in outside.as_role(Role.JANITOR).list("")] == []
    await outside.as_role(Role.JANITOR).delete(KEY)
    assert not directory.exists()


async def test_a_location_contains_nothing_but_the_files(
    outside: ExternalLocation, directory: Path
) -> None:
    await outside.create(KEY, b"1")
    files = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert files == {KEY}
    assert {path.name for path in directory.iterdir()} == {"ns"}


async def test_without_unnamed_files_the_scratch_file_is_removed(
    outside: ExternalLocation, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    await outside.create(KEY, b"1")
    assert [path for path in (directory / ".arco").rglob("*") if path.is_file()] == []
    assert [meta.key async for meta in outside.as_role(Role.JANITOR).list("")] == [KEY]


async def test_a_file_in_an_external_location_is_as_durable_as_one_in_the_store(
    directory: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir()
    outside = open_external_location(parse_address(str(directory)), runtime, role=Role.API)
    journal = Journal(directory, monkeypatch)
    await outside.create("a/b/x", b"1")
    assert journal.entries == ["sync file", "link a/b/x", "sync a/b", "sync a", "sync ."]
    journal.clear()
    await outside.create("a/b/y", b"1")  # another process may have recreated `a` meanwhile
    assert journal.entries == ["sync file", "link a/b/y", "sync a/b", "sync a", "sync ."]


@pytest.mark.parametrize("deleted", ["ns/t/metadata", "ns/t", "ns", "."])
async def test_folders_that_others_delete_are_recreated(
    outside: ExternalLocation, directory: Path, deleted: str
) -> None:
    await outside.create(KEY, b"1")
    shutil.rmtree(directory / deleted)
    assert await outside.find(KEY) is None
    await outside.create(KEY, b"2")
    assert (directory / KEY).read_bytes() == b"2"


@pytest.mark.parametrize("moved", ["ns/t/metadata", "ns/t", "ns", "."])
async def test_a_folder_that_others_move_away_takes_its_files_along(
    outside: ExternalLocation, directory: Path, tmp_path: Path, moved: str
) -> None:
    await outside.create(KEY, b"old")
    (directory / moved).rename(tmp_path / "moved")
    assert await outside.find(KEY) is None
    (directory / KEY).parent.mkdir(parents=True)
    (directory / KEY).write_bytes(b"new")
    assert await outside.get(KEY) == b"new"
    with pytest.raises(Conflict):
        await outside.create(KEY, b"old")


async def test_many_who_make_the_same_folders_at_once_all_succeed(
    directory: Path, runtime: Runtime
) -> None:
    locations = [opened(directory, runtime) for _ in range(8)]
    await runtime.tasks.gather(
        *(location.create(f"ns/t/metadata/{n}", b"%d" % n) for n, location in enumerate(locations))
    )
    assert sorted(path.name for path in (directory / "ns/t/metadata").iterdir()) == [*"01234567"]


async def test_of_many_who_create_one_file_one_wins(directory: Path, runtime: Runtime) -> None:
    async def attempt(n: int) -> bool:
        try:
            await opened(directory, runtime).create(KEY, b"%d" % n)
        except Conflict:
            return False
        return True

    won = await runtime.tasks.gather(*(attempt(n) for n in range(8)))
    assert sum(won) == 1
    assert (directory / KEY).read_bytes() == b"%d" % won.index(True)


async def test_no_link_leads_out_of_a_location(
    outside: ExternalLocation, directory: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x").write_bytes(b"secret")
    directory.mkdir()
    (directory / "link").symlink_to(secret)
    (directory / "file").symlink_to(secret / "x")
    for request in (outside.get("link/x"), outside.get("file"), outside.create("link/y", b"1")):
        with pytest.raises(ArcoError):
            await request
    with pytest.raises(ArcoError):
        make_folders(directory, ["link/z"])
    assert {path.name for path in secret.iterdir()} == {"x"}


def test_a_file_in_place_of_the_directory_is_refused_at_once(
    directory: Path, runtime: Runtime
) -> None:
    directory.write_bytes(b"")
    with pytest.raises(Invalid):
        opened(directory, runtime)


async def test_a_location_that_became_a_file_is_an_error_and_no_crash(
    outside: ExternalLocation, directory: Path
) -> None:
    directory.write_bytes(b"")
    for request in (outside.find(KEY), outside.exists(KEY)):
        with pytest.raises(ArcoError):
            await request
    with pytest.raises(ArcoError):
        await outside.create(KEY, b"1")


def test_folders_are_made_where_they_are_missing(directory: Path) -> None:
    make_folders(directory, ["ns/t/metadata", "ns/t/data"])
    make_folders(directory, ["ns/t/metadata", "ns/t/data"])
    assert sorted(path.name for path in (directory / "ns/t").iterdir()) == ["data", "metadata"]
    for bad in ("../x", "", "/x"):
        with pytest.raises(Invalid):
            make_folders(directory, [bad])
    (directory / "file").write_bytes(b"")
    with pytest.raises(Invalid):
        make_folders(directory, ["file/x"])


@pytest.mark.parametrize(
    ("answer", "meant"), [(PermissionError(13, "no"), Denied), (OSError(28, "full"), Unavailable)]
)
def test_folders_that_the_disk_does_not_make_are_an_error_of_ours(
    directory: Path, answer: OSError, meant: type[ArcoError], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir()

    def refuse(*_: object, **__: object) -> None:
        raise answer

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(meant):
        make_folders(directory, ["x"])


async def test_a_directory_where_the_file_should_be_is_refused(
    outside: ExternalLocation, directory: Path
) -> None:
    (directory / KEY).mkdir(parents=True)
    with pytest.raises(Invalid):
        await outside.create(KEY, b"1")
    assert not await outside.exists(KEY)
