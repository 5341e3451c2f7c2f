"""Making tables: the first pointer, then the name, which decides; and what staging leaves behind."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from arco.core.errors import Invalid, Unavailable, Unknown
from arco.core.json import Json
from tests.catalog.catalog_setup import is_down, is_lost, started
from tests.iceberg.engine.sample_metadata import update
from tests.iceberg.iceberg_setup import (
    ELSEWHERE,
    MANIFESTS,
    NS,
    POINTERS,
    Api,
    begun,
    dies,
    dies_at_the_compactor,
    id_of,
    making,
    marking,
    marks_of,
    on,
    open_setup,
    pointer_key,
    refusal,
    with_table,
)

CODEC = "write.parquet.compression-codec"


async def _stage(api: Api, name: str) -> dict[str, Json]:
    staged = await api.create(name, stage_create=True)
    assert staged.location is None
    return staged.metadata


async def _finish(api: Api, name: str, uuid: str | None, **more: str) -> str:
    request = making(name, uuid)
    caller = api.caller("updateTable", more.get("key"))
    return id_of(await api.iceberg.tables.commit("default", NS, name, request, caller))


async def test_a_new_table_is_visible_to_all_processes() -> None:
    setup = await begun()
    created_table = await setup.a.create("t", properties={"owner": "ada"})
    table_id = id_of(created_table)
    assert (await setup.b.load("t")).raw == created_table.raw
    assert created_table.metadata["location"] == setup.a.context.locations.managed(table_id)
    [first] = await setup.pointers(table_id)
    assert (first.operation, first.metadata_location) == ("create", created_table.location)
    assert first.previous_location is None
    assert str(created_table.location).rpartition("/")[2].startswith("00000-")
    assert await setup.b.names() == ["t"]


async def test_the_catalog_shows_the_columns_of_a_new_table() -> None:
    setup, [table_id] = await with_table("t")
    columns = await (await setup.b.context.reader.head()).columns(table_id)
    assert [(each.row.name, each.row.data_type) for each in columns] == [
        ("id", "bigint"),
        ("placed_at", "timestamp"),
        ("country", "string"),
    ]


async def test_a_name_that_is_taken_is_refused_and_the_first_one_stays() -> None:
    setup, [table_id] = await with_table("t")
    conflict = await refusal(setup.b.create("t"))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert conflict.message == "Table already exists: s.t"
    assert id_of(await setup.a.load("t")) == table_id


async def test_a_create_commit_for_a_name_that_is_taken_fails_its_requirement() -> None:
    setup, [table_id] = await with_table("t")
    conflict = await refusal(_finish(setup.b, "t", None))
    assert (conflict.status, conflict.kind) == (409, "CommitFailedException")
    assert conflict.message == "Requirement failed: table already exists"
    assert id_of(await setup.a.load("t")) == table_id


async def test_a_table_in_a_namespace_that_is_not_there_is_refused() -> None:
    setup = await begun()
    for stage in (False, True):
        missing = await refusal(setup.a.create("t", ns=("nowhere",), stage_create=stage))
        assert (missing.status, missing.kind) == (404, "NoSuchNamespaceException")
    with pytest.raises(Invalid):
        await setup.a.create("", ns=NS)


async def test_of_two_who_make_the_same_name_at_once_one_is_refused() -> None:
    setup = await begun()
    setup.a.connection.before("create", POINTERS, lambda: setup.b.create("t"))
    conflict = await refusal(setup.a.create("t"))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert await setup.a.names() == ["t"]
    results = await asyncio.gather(
        *(api.create("u") for api in (setup.a, setup.b, setup.api())), return_exceptions=True
    )
    assert sum(not isinstance(each, BaseException) for each in results) == 1


async def test_a_table_without_a_name_does_not_exist() -> None:
    setup = await begun()
    await dies_at_the_compactor(setup, setup.a, setup.a.create("t"), arrives=False)
    assert not await setup.b.exists("t")
    assert await setup.b.names() == []
    await setup.b.create("t")
    assert await setup.b.names() == ["t"]


async def test_a_first_version_that_cannot_be_stored_is_trouble_and_no_verdict() -> None:
    setup = await begun()
    for part in (POINTERS, "/metadata/00000-"):
        setup.a.connection.fail("create", part, Unavailable("cut"))
        with pytest.raises(Unavailable):
            await setup.a.create("t")
        setup.a.connection.mend()
    assert await setup.b.names() == []
    await setup.a.create("t")


async def test_a_name_that_may_have_been_given_is_unknown_and_no_refusal() -> None:
    setup = await begun()
    setup.inner.channel.always = is_lost
    with pytest.raises((Unknown, Unavailable)):
        await setup.a.create("t")
    setup.inner.channel.always = is_down
    with pytest.raises((Unknown, Unavailable)):
        await setup.a.create("t")


async def test_the_file_of_an_existing_pointer_exists() -> None:
    """A takeover continues from an existing pointer, so its file must exist."""
    setup = await begun()
    setup.a.connection.fail("create", "/metadata/00000-", Unavailable("cut"))
    with pytest.raises(Unavailable):
        await setup.a.create("t", key="k")
    setup.pass_by(2.1)
    created_table = await setup.b.create("t", key="k")
    assert (await setup.api().load("t")).raw == created_table.raw


async def test_who_takes_over_goes_on_under_the_same_id() -> None:
    setup = await begun()
    setup.a.connection.die("create", POINTERS, after=True)
    await dies(setup.a, setup.a.create("t", key="k"))
    setup.pass_by(2.1)
    created_table = await setup.b.create("t", key="k")
    [chain] = {key.split("/")[2] for key in await setup.inner.keys("_catalog/iceberg_pointers/")}
    assert id_of(created_table) == chain
    assert await setup.b.names() == ["t"]


async def test_staging_leaves_nothing_behind() -> None:
    setup = await begun()
    keys = await setup.stored()
    metadata = await _stage(setup.a, "t")
    assert await setup.stored() == keys
    assert not await setup.b.exists("t")
    assert await _finish(setup.b, "t", str(metadata["table-uuid"])) == metadata["table-uuid"]
    loaded_metadata = (await setup.a.load("t")).metadata
    assert loaded_metadata["location"] == metadata["location"]


async def test_on_a_disk_staging_makes_the_folders_that_engines_need(tmp_path: Path) -> None:
    setup = open_setup(f"file://{tmp_path}", f"file://{tmp_path}/")
    await started(setup.inner)
    metadata = await _stage(setup.a, "t")
    directory = Path(str(metadata["location"]).removeprefix("file://"))
    assert {each.name for each in directory.iterdir()} == {"metadata", "data"}
    assert not [each for each in directory.rglob("*") if each.is_file()]


async def test_staging_a_name_that_is_taken_is_refused() -> None:
    setup, _ = await with_table("t")
    conflict = await refusal(setup.b.create("t", stage_create=True))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert conflict.message == "Table already exists: s.t"


async def test_two_commits_that_end_the_same_staging_make_one_table() -> None:
    setup = await begun()
    uuid = str((await _stage(setup.a, "t"))["table-uuid"])
    setup.a.connection.before("create", pointer_key(uuid, 0), lambda: _finish(setup.b, "t", uuid))
    assert (
        await _finish(setup.a, "t", uuid) == uuid
    )  # the same request, indistinguishable from a retry
    assert await setup.a.names() == ["t"]
    assert len(await setup.chain(uuid)) == 1


async def test_a_uuid_of_a_staging_makes_one_table_under_one_name() -> None:
    setup = await begun()
    uuid = str((await _stage(setup.a, "t"))["table-uuid"])
    assert await _finish(setup.a, "t", uuid) == uuid
    lost = await refusal(_finish(setup.b, "u", uuid))
    assert lost.status == 409
    assert await setup.b.names() == ["t"]


async def test_a_staging_that_failed_once_can_be_ended_under_another_name() -> None:
    """The first try has left a chain under its uuid, without a name."""
    setup, _ = await with_table("t")
    uuid = str((await _stage(setup.a, "u"))["table-uuid"])
    await dies_at_the_compactor(setup, setup.a, _finish(setup.a, "u", uuid), arrives=False)
    await _finish(setup.b, "v", uuid)
    loaded_table = await setup.b.load("v")
    assert loaded_table.metadata["table-uuid"] == uuid
    await setup.b.mark("v", "x")
    assert marks_of(await setup.api().load("v")) == {"x"}


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (None, "zstd"),
        ({"action": "set-properties", "updates": {CODEC: "lz4"}}, "lz4"),
        ({"action": "remove-properties", "removals": [CODEC]}, None),
    ],
)
@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_create_commit_sets_the_default_properties(
    update: dict[str, Json] | None, expected: str | None, *, in_transaction: bool
) -> None:
    setup = await begun()
    staged_commit = making("t")
    request = msgspec.structs.replace(
        staged_commit, updates=(*staged_commit.updates, *(() if update is None else (update,)))
    )
    if in_transaction:
        await setup.a.transact(on("t", *request.updates, require=request.requirements))
    else:
        await setup.a.commit("t", *request.updates, require=request.requirements)
    properties = (await setup.b.load("t")).metadata.get("properties", {})
    assert properties == ({} if expected is None else {CODEC: expected})


async def test_a_create_commit_may_require_nothing_else() -> None:
    setup = await begun()
    request = making("t")
    more: dict[str, Json] = {"type": "assert-default-spec-id", "default-spec-id": 0}
    both = [*request.requirements, more]
    with pytest.raises(Invalid):
        await setup.a.commit("t", *request.updates, require=both)


PLACES = {
    "undeclared": "s3://nowhere/t",
    "of another table": "{root}warehouse/00000000-0000-4000-8000-000000000000",
    "of the catalog": "{root}_catalog/t",
    "above the warehouse": "{root}warehouse",
    "with tricks": f"{ELSEWHERE}../t",
}


@pytest.mark.parametrize("template", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("staged", [False, True])
async def test_a_place_that_a_table_must_not_have_is_a_bad_request(
    template: str, *, staged: bool
) -> None:
    setup = await begun()
    keys = await setup.stored()
    location = template.replace("{root}", setup.root_url)
    request = making("t")
    moved = (*request.updates, update("set-location", location=location))
    with pytest.raises(Invalid):
        await (
            setup.a.commit("t", *moved, require=request.requirements)
            if staged
            else setup.a.create("t", location=location)
        )
    assert await setup.stored() == keys


@pytest.mark.parametrize(
    "properties",
    [
        {"arco.x": "1"},
        {"Arco.x": "1"},
        {"write.data.path": "s3://evil/x"},
        {"write.metadata.path": "s3://evil/x"},
    ],
)
async def test_properties_that_a_table_must_not_have_are_a_bad_request(
    properties: dict[str, str],
) -> None:
    setup = await begun()
    with pytest.raises(Invalid):
        await setup.a.create("t", properties=properties)
    assert await setup.b.names() == []


async def test_a_declared_place_is_had_as_it_was_asked_for_and_by_one_table() -> None:
    setup = await begun()
    created_table = await setup.a.create("t", location=f"{ELSEWHERE}here/")
    assert created_table.metadata["location"] == f"{ELSEWHERE}here"
    for other in (f"{ELSEWHERE}here", f"{ELSEWHERE}here/below", ELSEWHERE.rstrip("/")):
        conflict = await refusal(setup.b.create("u", location=other))
        assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException"), other
    await setup.b.create("u", location=f"{ELSEWHERE}here2")
    await setup.a.mark("t", "x")
    assert marks_of(await setup.b.load("t")) == {"x"}


async def test_a_place_is_free_again_when_its_table_is_dropped() -> None:
    setup = await begun()
    await setup.a.create("t", location=f"{ELSEWHERE}here")
    await setup.a.drop("t")
    await setup.b.create("u", location=f"{ELSEWHERE}here")
    assert await setup.b.names() == ["u"]


async def test_a_lost_race_for_a_name_leaves_the_winner_alone() -> None:
    setup = await begun()
    setup.a.connection.before("get", f"{MANIFESTS}", lambda: setup.b.create("t"))
    await refusal(setup.a.create("t", key="k"))
    await setup.b.commit("t", marking("x"))
    repeated_refusal = await refusal(setup.b.create("t", key="k"))
    assert (repeated_refusal.status, repeated_refusal.kind) == (409, "AlreadyExistsException")
    assert marks_of(await setup.a.load("t")) == {"x"}
