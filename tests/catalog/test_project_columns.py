"""Columns that are projected from the chain of a table into the catalog."""

import asyncio
from datetime import timedelta

import pytest

from arco.catalog.ddl import AttachedColumn, ProjectColumns, ReleaseTable, UpdateColumn
from arco.catalog.model import ColumnRow, Sensitivity
from arco.core.errors import Invalid
from tests.catalog.attach_requests import attach, column, refuses, routed_setup, row_of, table_id
from tests.catalog.catalog_setup import CatalogSetup, as_table, t


async def columns_of(setup: CatalogSetup, number: int) -> list[ColumnRow]:
    snapshot = await setup.cold().head()
    return [each.row for each in await snapshot.columns(table_id(number))]


def project(pointer: int, *columns: AttachedColumn) -> ProjectColumns:
    return ProjectColumns(table_id=table_id(1), pointer=pointer, columns=columns)


async def test_a_projection_replaces_the_columns_and_keeps_what_we_know_of_them() -> None:
    setup = await routed_setup()
    first = as_table(await setup.do(attach(1)))
    await setup.do(
        UpdateColumn(
            target=t("t1"), column="v", pii_type="email", sensitivity=Sensitivity.RESTRICTED
        )
    )
    old = {each.field_id: each for each in await columns_of(setup, 1)}
    setup.clock.set_forward(timedelta(minutes=1))
    done = await setup.do(project(5, column(7, "new", "string"), column(2, "mail", "string")))
    assert done.operation == "project_columns"
    row = await row_of(setup, 1)
    assert (row.projected, row.schema_version, row.last_field_id) == (5, 3, 7)
    assert (row.pii_columns, row.born) == (("mail",), 0)
    assert row.updated_at > first.updated_at
    new, mail = await columns_of(setup, 1)
    assert (new.name, new.field_id, new.position, new.pii_type) == ("new", 7, 0, None)
    assert (mail.name, mail.data_type, mail.position) == ("mail", "string", 1)
    assert (mail.pii_type, mail.sensitivity) == ("email", Sensitivity.RESTRICTED)
    assert mail.column_id == old[2].column_id
    assert (mail.created_at, mail.created_by) == (old[2].created_at, old[2].created_by)
    assert mail.updated_at > old[2].updated_at
    snapshot = await setup.cold().head()
    dropped_column = await snapshot.column(table_id(1), old[1].column_id)
    assert dropped_column is not None
    assert dropped_column.row.dropped_at is not None
    assert [v.version for v in await snapshot.schema_versions(table_id(1))] == [1, 2, 3]
    await setup.close()


async def test_a_column_that_comes_back_is_the_one_that_went() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    await setup.do(UpdateColumn(target=t("t1"), column="v", pii_type="email"))
    await setup.do(project(1, column(1, "id")))
    assert (await row_of(setup, 1)).pii_columns == ()
    await setup.do(project(2, column(1, "id"), column(2, "v")))
    _, back = await columns_of(setup, 1)
    assert (back.pii_type, back.dropped_at) == ("email", None)
    assert (await row_of(setup, 1)).last_field_id == 2
    await setup.close()


async def test_an_older_projection_changes_nothing() -> None:
    setup = await routed_setup()
    await setup.do(attach(1), project(5, column(1, "five")))
    before = await row_of(setup, 1)
    for pointer in (0, 4, 5):
        done = await setup.do(project(pointer, column(1, "late")))
        assert as_table(done) == before
        assert [each.name for each in done.columns] == ["five"]
    assert await row_of(setup, 1) == before
    assert [each.name for each in await columns_of(setup, 1)] == ["five"]
    await setup.close()


async def test_the_same_columns_at_a_later_number_are_no_new_version() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    before = await columns_of(setup, 1)
    await setup.do(project(3, column(1, "id"), column(2, "v")))
    row = await row_of(setup, 1)
    assert (row.projected, row.schema_version) == (3, 1)
    assert await columns_of(setup, 1) == before
    await setup.close()


async def test_the_columns_of_a_released_table_stay_as_they_were() -> None:
    setup = await routed_setup()
    await setup.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=2))
    before = await row_of(setup, 1)
    await setup.do(project(1, column(1, "x")))
    assert await row_of(setup, 1) == before
    assert [each.name for each in await columns_of(setup, 1)] == ["id", "v"]
    await setup.close()


@pytest.mark.parametrize(
    "projection",
    [
        project(-1),
        project(1, column(1, "a"), column(1, "b")),
        project(1, column(1, "a"), column(2, "a")),
        project(1, column(2**31, "a")),
        project(1, column(1, "")),
    ],
)
async def test_columns_that_cannot_be_are_refused(projection: ProjectColumns) -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    await refuses(setup, projection, Invalid)
    await setup.close()


async def test_projections_in_any_order_end_with_the_newest() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    api_processes = [setup.api, setup.api_process()]
    pointers = [3, 1, 4, 2]
    await asyncio.gather(
        *(
            api_processes[at % 2].do(project(pointer, column(pointer, f"c{pointer}")))
            for at, pointer in enumerate(pointers)
        )
    )
    assert [each.name for each in await columns_of(setup, 1)] == ["c4"]
    assert (await row_of(setup, 1)).projected == 4
    await setup.close()
