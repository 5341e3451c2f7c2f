"""What expires with a table that had its own location or was known by a uuid."""

from datetime import timedelta

import msgspec
import pytest

from arco.catalog.ddl import DropSchema, DropTable, MoveTable, ReleaseTable, SchemaName
from arco.catalog.decision import DEFAULT_RETENTION
from arco.compactor.verification import verify
from arco.fold.tier1 import DOMAIN
from arco.storage.roles import Role
from tests.catalog.attach_requests import FOREIGN, attach, table_id
from tests.catalog.catalog_setup import CatalogSetup, S, all_rows, started, t

LONG_AGO = DEFAULT_RETENTION + timedelta(days=2)
S2 = SchemaName("default", ("s2",))


async def places_and_uuids(setup: CatalogSetup) -> tuple[set[object], set[object]]:
    """The ids of the tables that have places, and the names of uuids."""
    rows = await all_rows(setup.store(Role.READER), await setup.cold().head())
    names = {row["id"] for row in rows["objects"] if str(row["id"]).startswith("uuid:")}
    return {row["table_id"] for row in rows["places"]}, names


async def assert_sound(setup: CatalogSetup) -> None:
    report = await verify(setup.store(Role.API), DOMAIN, everything=True)
    assert report.ok, report.problem


@pytest.mark.parametrize("merged_before", [True, False])
async def test_places_and_uuids_are_forgotten_with_their_table(*, merged_before: bool) -> None:
    setup = await started()
    await setup.do(
        attach(1, location="s3://lake/a", uuid=FOREIGN),
        attach(2, location="s3://lake/b", uuid=FOREIGN.replace("c0ffee", "decade")),
        ReleaseTable(table_id=table_id(1), tombstone=1),
    )
    await setup.table("csv", location="s3://lake/c")
    await setup.do(DropTable(target=t("csv")))
    if merged_before:
        await setup.compactor.merge()
    await assert_sound(setup)
    setup.clock.set_forward(LONG_AGO)
    assert len((await places_and_uuids(setup))[0]) == 3
    assert await setup.compactor.merge() is not None
    lying, names = await places_and_uuids(setup)
    assert lying == {table_id(2)}
    assert names == {"uuid:" + FOREIGN.replace("c0ffee", "decade")}
    assert await setup.compactor.merge() is None, "there is nothing left to forget"
    await assert_sound(setup)
    await setup.do(attach(1, location="s3://lake/a", uuid=FOREIGN))
    await setup.close()


async def test_a_uuid_that_stands_for_another_table_now_outlives_the_first() -> None:
    setup = await started()
    await setup.do(
        attach(1, location="s3://lake/a", uuid=FOREIGN),
        ReleaseTable(table_id=table_id(1), tombstone=1),
        attach(2, location="s3://lake/a", uuid=FOREIGN),
    )
    setup.clock.set_forward(LONG_AGO)
    assert await setup.compactor.merge() is not None
    assert await places_and_uuids(setup) == ({table_id(2)}, {f"uuid:{FOREIGN}"})
    table_row = await (await setup.cold().head()).table_by_uuid(FOREIGN)
    assert table_row is not None
    assert table_row.row.table_id == table_id(2)
    await assert_sound(setup)
    await setup.close()


@pytest.mark.parametrize("merged_before", [True, False])
async def test_a_schema_takes_the_places_and_uuids_in_it_along(*, merged_before: bool) -> None:
    setup = await started()
    await setup.schema("s2")
    attach_elsewhere = msgspec.structs.replace(
        attach(1, location="s3://lake/a", uuid=FOREIGN), schema=S2
    )
    moved = attach(2, location="s3://lake/b", uuid=FOREIGN.replace("c0ffee", "decade"))
    await setup.do(
        attach_elsewhere,
        msgspec.structs.replace(moved, schema=S2),
        MoveTable(table_id=table_id(2), schema=S, name="moved"),
        DropSchema(target=S2, force=True),
    )
    if merged_before:
        await setup.compactor.merge()
    setup.clock.set_forward(LONG_AGO)
    assert await setup.compactor.merge() is not None
    lying, names = await places_and_uuids(setup)
    assert lying == {table_id(2)}
    assert names == {"uuid:" + FOREIGN.replace("c0ffee", "decade")}
    await assert_sound(setup)
    await setup.close()
