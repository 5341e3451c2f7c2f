"""Locations of tables: which may overlap, and when one is free again."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.ddl import (
    CreateTable,
    DropSchema,
    DropTable,
    ProjectColumns,
    ReleaseTable,
    ReservePlace,
    RestoreTable,
    Undrop,
)
from arco.catalog.model import PlaceRow, TableFormat, TableType
from arco.core.errors import AlreadyExists, Conflict, Invalid, NotFound, Unavailable
from tests.catalog.attach_requests import (
    FOREIGN,
    S2,
    attach,
    column,
    places,
    refuses,
    routed_setup,
    row_of,
    table_id,
)
from tests.catalog.catalog_setup import as_table, is_down, names_in, new_table, t


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/a",
        "s3://lake/a/",
        "s3a://lake/a/",
        "s3n://LAKE/a/b/c",
        "s3://lake/",
        "s3://lake/%61/b/",
        "s3://lake/a/b",
    ],
)
async def test_the_location_of_a_table_overlaps_no_other(location: str) -> None:
    setup = await routed_setup()
    await setup.do(attach(1, location="s3://lake/a/"))
    assert (await row_of(setup, 1)).table_type is TableType.EXTERNAL
    await refuses(setup, attach(2, location=location), Conflict)
    await setup.do(attach(3, location="s3://lake/ab/"), attach(4, location="s3://lake/b/"))
    await setup.compactor.merge()
    await refuses(setup, attach(2, location=location), Conflict)
    assert await places(setup, location) != []
    await setup.close()


async def test_a_location_is_free_once_its_table_is_released() -> None:
    setup = await routed_setup()
    await setup.do(attach(1, location="s3://lake/a"))
    assert await places(setup, "s3://lake/a/") == [table_id(1)]
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert await places(setup, "s3://lake/a/") == []
    await setup.do(attach(2, location="s3://lake/a"))
    assert await places(setup, "s3://lake/a/") == [table_id(2)]
    await refuses(setup, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await setup.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await setup.do(RestoreTable(table_id=table_id(1), born=2))
    assert await places(setup, "s3://lake/a/") == [table_id(1)]
    await refuses(setup, attach(3, location="s3://lake/a/x"), Conflict)
    await setup.close()


async def test_the_location_of_a_dropped_managed_table_can_be_reused() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    heir = attach(2, location=f"warehouse/{table_id(1)}/")
    await refuses(setup, heir, Conflict)
    await refuses(setup, attach(2, location=f"warehouse/{table_id(1)}/deep"), Conflict)
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1), heir)
    row = await row_of(setup, 2)
    assert (row.table_type, row.location) == (TableType.MANAGED, f"warehouse/{table_id(1)}/")
    await refuses(setup, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await setup.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await setup.do(RestoreTable(table_id=table_id(1), born=2))
    await refuses(setup, RestoreTable(table_id=table_id(2), born=2), Conflict)
    await setup.close()


async def test_no_table_is_attached_if_another_is_in_its_managed_location() -> None:
    setup = await routed_setup()
    await setup.do(attach(2, location=f"warehouse/{table_id(1)}/x/"))
    await refuses(setup, attach(1), Conflict)
    await setup.close()


async def test_a_table_in_a_dropped_schema_keeps_its_location_and_its_uuid() -> None:
    setup = await routed_setup()
    schema = await setup.schema("s2")
    inside = attach(1, location="s3://lake/a/", uuid=FOREIGN)
    await setup.do(msgspec.structs.replace(inside, schema=S2))
    await setup.do(DropSchema(target=S2, force=True))
    await refuses(setup, attach(2, location="s3://lake/a/"), Conflict)
    await refuses(setup, attach(2, uuid=FOREIGN), AlreadyExists)
    await setup.do(Undrop(id=schema.schema_id))
    assert await names_in(await setup.cold().head(), "s2") == ["t1"]
    await setup.close()


def plain(name: str, location: str, table_format: TableFormat = TableFormat.CSV) -> CreateTable:
    return msgspec.structs.replace(new_table(name), location=location, format=table_format)


async def test_other_formats_share_locations_but_not_with_an_iceberg_table() -> None:
    setup = await routed_setup()
    one = as_table(await setup.do(plain("one", "s3://lake/a/")))
    two = as_table(await setup.do(plain("two", "s3a://lake/a", TableFormat.DELTA)))
    assert await places(setup, "s3://lake/a/") == sorted([one.table_id, two.table_id])
    await refuses(setup, attach(1, location="s3://lake/a/b/"), Conflict)
    await setup.do(DropTable(target=t("one")))
    await refuses(setup, attach(1, location="s3://lake/a/b/"), Conflict)
    await setup.do(DropTable(target=t("two")))
    await setup.do(attach(1, location="s3://lake/a/b/"))
    await refuses(setup, plain("three", "s3://lake/a/"), Conflict)
    await refuses(setup, Undrop(id=one.table_id), Conflict)
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1), Undrop(id=one.table_id))
    assert await places(setup, "s3://lake/a/") == [one.table_id]
    await setup.close()


async def test_many_locations_below_one_are_all_returned() -> None:
    setup = await routed_setup()
    for number in range(70):
        await setup.do(plain(f"p{number}", f"s3://lake/many/{number // 2:03d}/"))
    assert len(await places(setup, "s3://lake/")) == 70
    assert len(await places(setup, "s3://lake/many/000/")) == 2
    assert await places(setup, "s3://lake/more/") == []
    await refuses(setup, attach(1, location="s3://lake/"), Conflict)
    await setup.close()


async def test_a_location_is_reserved_for_a_table_that_is_about_to_move() -> None:
    setup = await routed_setup()
    await setup.do(attach(1, location="s3://lake/a"), attach(2))
    before = await row_of(setup, 1)
    setup.clock.set_forward(timedelta(minutes=1))
    reserve = ReservePlace(table_id=table_id(1), location="s3://lake/b")
    done = await setup.do(reserve, reserve)
    assert done.operation == "reserve_place"
    assert as_table(done) == before == await row_of(setup, 1)
    for location in ("s3://lake/a/x", "s3a://lake/b/x"):
        await refuses(setup, attach(3, location=location), Conflict)
        await refuses(setup, ReservePlace(table_id=table_id(2), location=location), Conflict)
    move = ProjectColumns(
        table_id=table_id(1), pointer=1, columns=(column(1, "id"),), location="s3://lake/b/"
    )
    assert as_table(await setup.do(move)).location == "s3://lake/b/"
    await refuses(setup, attach(3, location="s3://lake/a/x"), Conflict)
    await refuses(setup, ReservePlace(table_id=table_id(9), location="s3://x/"), NotFound)
    await refuses(setup, ReservePlace(table_id=table_id(1), location="nowhere"), Invalid)
    await setup.close()


@pytest.mark.parametrize("location", ["s3://lake/a/x", "s3://lake/b"])
async def test_a_dropped_table_with_several_locations_frees_and_retakes_all_of_them(
    location: str,
) -> None:
    setup = await routed_setup()
    await setup.do(
        attach(1, location="s3://lake/a"),
        ReservePlace(table_id=table_id(1), location="s3://lake/b"),
        ReleaseTable(table_id=table_id(1), tombstone=1),
        attach(2, location=location),
    )
    await refuses(setup, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await setup.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await setup.do(RestoreTable(table_id=table_id(1), born=2))
    await refuses(setup, attach(3, location=location), Conflict)
    await setup.close()


async def test_a_place_row_has_its_creator_and_its_format() -> None:
    setup = await routed_setup()
    await setup.do(attach(1, location="s3a://Lake/a"))
    [committed] = await (await setup.cold().head()).places_around("s3://lake/a/")
    assert isinstance(committed.row, PlaceRow)
    assert (committed.row.location, committed.row.format) == ("s3://lake/a/", TableFormat.ICEBERG)
    assert (await row_of(setup, 1)).location == "s3a://Lake/a/"
    assert committed.row.created_by == "user:ann"
    await setup.close()


@pytest.mark.parametrize("apart", [True, False])
async def test_of_two_concurrent_requests_for_one_location_one_succeeds(*, apart: bool) -> None:
    setup = await routed_setup()
    api_processes = (setup.api, setup.api_process() if apart else setup.api)
    requests = (attach(1, location="s3://lake/a"), attach(2, location="s3a://lake/a/b/"))
    results = await asyncio.gather(
        *(
            api_process.do(request)
            for api_process, request in zip(api_processes, requests, strict=True)
        ),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(Conflict) == 1
    assert len(await places(setup, "s3://lake/a/")) == 1
    await setup.close()


async def test_a_refusal_for_a_location_waits_for_the_grouped_request_that_took_it() -> None:
    setup = await routed_setup()
    setup.channel.next(is_down)
    requests = (attach(1, location="s3://lake/a"), attach(2, location="s3://lake/a/b/"))
    results = await asyncio.gather(
        *(setup.api.do(request) for request in requests), return_exceptions=True
    )
    assert [type(each) for each in results] == [Unavailable, Unavailable], "no verdict yet"
    await setup.do(requests[1])
    await setup.close()
