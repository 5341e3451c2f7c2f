"""Snapshots: the newest, any that is kept, and none that is not whole (law 14)."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from arco.catalog.ddl import DropTable, SchemaName, UpdateTable
from arco.catalog.manifest import FileRef, Ref, manifests_of, read_commit, read_index
from arco.catalog.model import ObjectKind
from arco.catalog.reader import SnapshotReader, parse_as_of
from arco.catalog.snapshot import Snapshot
from arco.catalog.state_file import read_rows
from arco.core.errors import Corrupt, Invalid, NotFound
from arco.core.ids import new_ulid
from arco.fold.tier1 import CATALOGS, OBJECTS, PLACES, SCHEMAS, TABLES, TIER1
from arco.storage.roles import Role
from tests.catalog.catalog_setup import (
    SCOPE,
    CatalogSetup,
    all_rows,
    names_in,
    new_table,
    open_setup,
    started,
    t,
)


async def history() -> CatalogSetup:
    """Versions 0 default, 1 s, 2 to 4 tables a, b, c, 5 a merge, 6 a renamed, 7 b dropped."""
    setup = await started()
    for name in "abc":
        await setup.table(name, "id bigint")
    await setup.compactor.merge()
    await setup.do(UpdateTable(target=t("a"), name="z"))
    await setup.do(DropTable(target=t("b")))
    return setup


NAMES = {1: [], 2: ["a"], 3: ["a", "b"], 4: ["a", "b", "c"], 5: ["a", "b", "c"]}
NAMES |= {6: ["b", "c", "z"], 7: ["c", "z"]}


async def test_an_empty_store_is_an_empty_catalog() -> None:
    setup = open_setup()
    snapshot = await setup.cold().head()
    assert (snapshot.number, snapshot.manifest, snapshot.created_at) == (-1, None, None)
    assert await snapshot.catalogs() == []
    with pytest.raises(NotFound):
        await snapshot.find("01a1e036-0049-7abc-afba-e9743e0ba3e7")
    with pytest.raises(NotFound):
        await setup.cold().at("0")
    await setup.close()


@pytest.mark.parametrize("warm", [True, False])
async def test_every_version_is_read_by_its_number_commit_and_time(*, warm: bool) -> None:
    setup = await history()
    reader = setup.api.reader if warm else setup.cold()
    entries = await manifests_of(setup.store(Role.READER), "catalog").history(0, 7)
    manifests = await setup.manifests()
    for number, names in NAMES.items():
        at = entries[number].record.created_at
        spellings = [
            str(number),
            manifests[number].commit_ulid,
            at.isoformat(),
            (at + timedelta(microseconds=999)).isoformat(),
        ]
        for as_of in spellings:
            snapshot = await reader.at(as_of)
            assert (snapshot.number, await names_in(snapshot)) == (number, names), as_of
    assert (await reader.at(None)).number == 7
    assert (await reader.at("2999-01-01T00:00:00Z")).number == 7
    await setup.close()


async def test_a_collected_or_future_version_is_not_found() -> None:
    setup = await history()
    reader = setup.cold()
    before = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    for as_of in ("8", "999999999999999999", new_ulid(setup.runtime), before, "7" + "Z" * 25):
        with pytest.raises(NotFound):
            await reader.at(as_of)
    await setup.close()


async def test_below_the_floor_nothing_is_kept() -> None:
    setup = await history()
    manifests = await setup.manifests()
    await manifests_of(setup.store(Role.JANITOR), "catalog").raise_floor(5)
    reader = setup.cold()
    for as_of in ("4", manifests[4].commit_ulid, "2020-01-01T00:00:00Z"):
        with pytest.raises(NotFound):
            await reader.at(as_of)
    for number in (5, 6, 7):
        assert (await reader.at(manifests[number].commit_ulid)).number == number
    await setup.close()


async def test_a_commit_id_is_resolved_though_clocks_disagree() -> None:
    setup = await started()
    setup.clock.set_forward(timedelta(hours=-5))
    for n in range(3):
        await setup.table(f"early{n}")
    setup.clock.set_forward(timedelta(hours=10))
    for n in range(40):
        await setup.table(f"t{n}")
    manifests = await setup.manifests()
    reader = setup.cold()
    for number in (0, 2, 3, 4, 5, 20, len(manifests) - 1):
        assert (await reader.at(manifests[number].commit_ulid)).number == number
    await setup.close()


@pytest.mark.parametrize(
    "text",
    ["", "-1", "x", "2026-01-31", "2026-01-31T12:00:00", "1" * 19, "01arz3ndektsv4rrffq69g5fav"],
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_as_of(text)


def test_a_moment_outside_of_all_years_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_as_of("0001-01-01T00:00:00+23:59")
    assert parse_as_of("2026-01-31T13:00:00+01:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_as_of("17") == 17


async def test_a_snapshot_never_changes() -> None:
    setup = await started()
    old = await setup.head()
    await setup.table("a")
    await setup.compactor.merge()
    assert await names_in(old) == []
    assert await names_in(await setup.head()) == ["a"]
    await setup.close()


async def test_every_object_is_looked_up_by_its_id() -> None:
    setup = await history()
    snapshot = await setup.cold().head()
    catalog = await snapshot.catalog("default")
    schema = await snapshot.schema(SchemaName("default", ("s",)))
    table = await snapshot.table(t("z"))
    for is_same in (
        await snapshot.find(catalog.row.catalog_id) == catalog,
        await snapshot.find(schema.row.schema_id) == schema,
        await snapshot.find(table.row.table_id) == table,
    ):
        assert is_same
    assert table.row.kind is ObjectKind.TABLE
    await setup.close()


async def damaged(setup: CatalogSetup, path: str, damage: str) -> SnapshotReader:
    """A reader that knows nothing of a store in which one object is gone, or another."""
    key = SCOPE.prefix + path
    raw = await setup.backend.get(key)
    await setup.backend.delete(key)
    if damage == "changed":
        await setup.backend.create(key, raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:])
    if damage == "emptied":
        await setup.backend.create(key, b"")
    return setup.cold()


async def files(setup: CatalogSetup) -> dict[str, FileRef | Ref]:
    """One file of each sort that the head names."""
    snapshot = await setup.head()
    manifest = snapshot.manifest
    assert manifest is not None
    assert manifest.base.index is not None
    index = await read_index(setup.store(Role.READER), manifest.base.index)
    [bucket] = index.tables["tables"].values()
    return {
        "tail": manifest.tail["tables"][0],
        "whole": manifest.base.unbucketed["schemas"],
        "bucket": bucket,
        "index": manifest.base.index,
    }


@pytest.mark.parametrize("damage", ["missing", "changed", "emptied"])
@pytest.mark.parametrize("which", ["tail", "whole", "bucket", "index"])
async def test_a_file_that_is_missing_or_changed_is_corrupt_and_never_an_empty_table(
    which: str, damage: str
) -> None:
    setup = await history()
    assert await names_in(await setup.cold().head()) == ["c", "z"]
    reader = await damaged(setup, (await files(setup))[which].path, damage)
    with pytest.raises(Corrupt):
        await names_in(await reader.head())
    await setup.close()


@pytest.mark.parametrize("damage", ["missing", "changed"])
async def test_a_commit_record_that_is_missing_or_changed_is_corrupt(damage: str) -> None:
    setup = await history()
    snapshot = await setup.head()
    assert snapshot.manifest is not None
    await damaged(setup, snapshot.manifest.commit.path, damage)
    with pytest.raises(Corrupt):
        await read_commit(setup.store(Role.READER), snapshot.manifest.commit)
    await setup.close()


async def test_a_file_with_other_rows_than_its_manifest_says_is_corrupt() -> None:
    setup = await history()
    ref = (await files(setup))["tail"]
    assert isinstance(ref, FileRef)
    with pytest.raises(Corrupt, match="rows"):
        await read_rows(setup.store(Role.READER), TABLES, replace(ref, rows=ref.rows + 1))
    await setup.close()


async def test_a_damaged_file_is_read_once_it_is_repaired() -> None:
    setup = await history()
    path = (await files(setup))["bucket"].path
    raw = await setup.backend.get(SCOPE.prefix + path)
    reader = await damaged(setup, path, "missing")
    with pytest.raises(Corrupt):
        await names_in(await reader.head())
    await setup.backend.create(SCOPE.prefix + path, raw)
    assert await names_in(await reader.head()) == ["c", "z"]
    await setup.close()


async def test_a_small_cache_evicts_files_and_rereads_them() -> None:
    setup = await history()
    cramped = SnapshotReader(setup.store(Role.READER), cache_bytes=1)
    for number in (7, 2, 5, 7, 3):
        assert await names_in(await cramped.at(str(number))) == NAMES[number]
    await setup.close()


async def test_all_rows_are_in_the_files_of_a_snapshot() -> None:
    setup = await history()
    rows = await all_rows(setup.store(Role.READER), await setup.cold().head())
    assert {name: len(table_rows) for name, table_rows in rows.items()} == {
        CATALOGS.name: 1,
        SCHEMAS.name: 1,
        TABLES.name: 3,
        "columns": 3,
        "schema_versions": 3,
        OBJECTS.name: 5,
        PLACES.name: 0,
    }
    assert rows.keys() == TIER1.keys()
    await setup.close()


async def test_lists_continue_after_a_name_and_show_dropped_objects_on_request() -> None:
    setup = await history()
    snapshot: Snapshot = await setup.cold().head()
    schema = (await snapshot.schema(SchemaName("default", ("s",)))).row
    assert [f.row.name for f in await snapshot.tables(schema.schema_id, after="c")] == ["z"]
    assert [f.row.name for f in await snapshot.tables(schema.schema_id, limit=1)] == ["c"]
    dropped = await snapshot.tables(schema.schema_id, dropped=True)
    assert [f.row.name for f in dropped] == ["b"]
    assert [f.commit for f in dropped] == [7]
    assert await snapshot.schemas(schema.catalog_id, None, after="s") == []
    assert [f.row.name for f in await snapshot.catalogs(limit=5)] == ["default"]
    with pytest.raises(NotFound):
        await snapshot.schema_in(schema.catalog_id, ())
    await setup.close()


async def test_a_manifest_of_a_newer_format_is_refused() -> None:
    setup = await started()
    chain = manifests_of(setup.store(Role.COMPACTOR), "catalog")
    head = await chain.head()
    assert head.entry is not None
    newer = (await setup.manifests())[-1]
    await chain.append(head, replace(newer, format=3))
    with pytest.raises(Corrupt, match="upgrade Arco"):
        await setup.cold().head()
    with pytest.raises(Corrupt):
        await setup.api.do(new_table("a"))
    await setup.close()
