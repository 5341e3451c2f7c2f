"""Changes of columns: each makes a numbered version, and no field id is ever used twice (law 11)."""

from typing import Any
from uuid import UUID, uuid5

import msgspec
import pytest

from arco.catalog.column_change import MAX_COLUMNS
from arco.catalog.ddl import AddColumns, ColumnSpec, CreateTable, DropColumn, UpdateColumn
from arco.catalog.model import ColumnRow, Sensitivity, TableRow
from arco.core import json
from arco.core.errors import Invalid, NotFound, PreconditionFailed
from tests.catalog.catalog_setup import CatalogSetup, as_table, new_table, spec, started, t
from tests.catalog.test_decide import refuses

A = t("a")


async def table(setup: CatalogSetup) -> TableRow:
    return await setup.table("a", "x bigint", "y string", "z int")


async def columns(setup: CatalogSetup) -> list[ColumnRow]:
    """The columns as another process reads them; positions are always 0, 1, 2 ..."""
    snapshot = await setup.cold().head()
    committed_columns = await snapshot.columns((await snapshot.table(A)).row.table_id)
    assert [each.row.position for each in committed_columns] == list(range(len(committed_columns)))
    return [each.row for each in committed_columns]


async def names(setup: CatalogSetup) -> list[str]:
    return [column.name for column in await columns(setup)]


async def last_changes(setup: CatalogSetup) -> list[dict[str, Any]]:
    """What the newest version says has changed."""
    snapshot = await setup.cold().head()
    row = (await snapshot.table(A)).row
    versions = await snapshot.schema_versions(row.table_id)
    assert [each.version for each in versions] == list(range(1, row.schema_version + 1))
    recorded = json.decode(versions[-1].columns.encode(), list[dict[str, Any]])
    assert [each["name"] for each in recorded] == await names(setup)
    return json.decode(versions[-1].changes.encode(), list[dict[str, Any]])


async def test_the_first_version_is_what_the_table_was_made_with() -> None:
    setup = await started()
    row = await table(setup)
    assert (row.schema_version, row.last_field_id) == (1, 3)
    column_rows = await columns(setup)
    assert [(c.name, c.data_type, c.field_id) for c in column_rows] == [
        *(("x", "bigint", 1), ("y", "string", 2), ("z", "int", 3))
    ]
    assert column_rows[0].column_id == str(uuid5(UUID(row.table_id), "1"))
    assert [each["change"] for each in await last_changes(setup)] == ["added"] * 3
    await setup.close()


async def test_columns_are_added_at_the_end_or_anywhere() -> None:
    setup = await started()
    await table(setup)
    done = await setup.do(AddColumns(target=A, columns=(spec("end int"),)))
    assert done.operation == "add_column"
    assert as_table(done).schema_version == 2
    await setup.do(AddColumns(target=A, columns=(spec("p int"), spec("q int")), position=1))
    assert await names(setup) == ["x", "p", "q", "y", "z", "end"]
    changes = {each["column"]: each["change"] for each in await last_changes(setup)}
    assert changes == {"p": "added", "q": "added", "y": "changed", "z": "changed", "end": "changed"}
    for position in (-1, 7):
        bad = AddColumns(target=A, columns=(spec("n int"),), position=position)
        await refuses(setup, bad, Invalid)
    await refuses(setup, AddColumns(target=A, columns=()), Invalid)
    await refuses(setup, AddColumns(target=A, columns=(spec("x int"),)), Invalid)
    await refuses(setup, AddColumns(target=A, columns=(spec("n int"), spec("n int"))), Invalid)
    await refuses(setup, AddColumns(target=A, columns=(spec("n nonsense"),)), Invalid)
    await refuses(setup, AddColumns(target=t("b"), columns=(spec("n int"),)), NotFound)
    await setup.close()


async def test_a_column_recreated_under_an_old_name_is_another_column() -> None:
    setup = await started()
    await table(setup)
    [_, _, old] = await columns(setup)
    await setup.do(DropColumn(target=A, column="z"))
    assert await names(setup) == ["x", "y"]
    [dropped] = await last_changes(setup)
    assert (dropped["change"], dropped["column"], dropped["before"]["field_id"]) == (
        *("dropped", "z", 3),
    )
    done = await setup.do(AddColumns(target=A, columns=(spec("z int"),)))
    [_, _, new] = await columns(setup)
    assert (new.field_id, as_table(done).last_field_id) == (4, 4)
    assert new.column_id != old.column_id
    await setup.compactor.merge()
    assert await names(setup) == ["x", "y", "z"]
    await setup.close()


async def test_a_column_that_is_changed_stays_the_same_column() -> None:
    setup = await started()
    await table(setup)
    [old, *_] = await columns(setup)
    request = UpdateColumn(
        target=A,
        column="x",
        name="n",
        data_type="DECIMAL(10, 2)",
        nullable=False,
        comment="c",
        default_value="0",
        sensitivity=Sensitivity.RESTRICTED,
    )
    await setup.do(request)
    [new, *_] = await columns(setup)
    assert (new.column_id, new.field_id) == (old.column_id, old.field_id)
    assert (new.name, new.data_type, new.nullable) == ("n", "decimal(10,2)", False)
    assert (new.comment, new.default_value, new.sensitivity) == ("c", "0", Sensitivity.RESTRICTED)
    [change] = await last_changes(setup)
    assert (change["change"], change["column"]) == ("changed", "x")
    assert change["before"]["data_type"] == "bigint"
    assert change["after"]["name"] == "n"
    await setup.do(UpdateColumn(target=A, column="n", comment=None, sensitivity=None))
    [newest, *_] = await columns(setup)
    assert (newest.comment, newest.sensitivity, newest.default_value) == (None, None, "0")
    for bad in (
        UpdateColumn(target=A, column="n", name="y"),
        UpdateColumn(target=A, column="n", name=""),
        UpdateColumn(target=A, column="n", data_type="?"),
        UpdateColumn(target=A, column="n", default_value="\x00"),
        UpdateColumn(target=A, column="n", pii_type="x" * 5_000),
        UpdateColumn(target=A, column="n", position=3),
        UpdateColumn(target=A, column="n", position=-1),
    ):
        await refuses(setup, bad, Invalid)
    await refuses(setup, UpdateColumn(target=A, column="x", comment="c"), NotFound)
    await refuses(setup, DropColumn(target=A, column="x"), NotFound)
    await setup.close()


@pytest.mark.parametrize(
    ("column", "to", "order"), [("x", 2, "yzx"), ("z", 0, "zxy"), ("y", 1, "xyz"), ("x", 1, "yxz")]
)
async def test_moving_a_column_shifts_the_positions_of_the_others(
    column: str, to: int, order: str
) -> None:
    setup = await started()
    await table(setup)
    await setup.do(UpdateColumn(target=A, column=column, position=to))
    assert await names(setup) == list(order)
    assert {c.name: c.field_id for c in await columns(setup)} == {"x": 1, "y": 2, "z": 3}
    await setup.close()


async def test_the_table_lists_its_columns_with_personal_data() -> None:
    setup = await started()
    personal = ColumnSpec(name="email", data_type="string", pii_type="EMAIL")
    request: CreateTable = msgspec.structs.replace(
        new_table("a", "id int"), columns=(spec("id int"), personal)
    )
    assert as_table(await setup.do(request)).pii_columns == ("email",)
    more = UpdateColumn(target=A, column="id", pii_type="ID")
    assert as_table(await setup.do(more)).pii_columns == ("id", "email")
    renamed = UpdateColumn(target=A, column="email", name="mail")
    assert as_table(await setup.do(renamed)).pii_columns == ("id", "mail")
    cleared = UpdateColumn(target=A, column="id", pii_type=None)
    assert as_table(await setup.do(cleared)).pii_columns == ("mail",)
    drop = DropColumn(target=A, column="mail")
    assert as_table(await setup.do(drop)).pii_columns == ()
    await setup.close()


async def test_a_change_of_columns_is_a_change_of_the_table() -> None:
    setup = await started()
    created = await setup.do(new_table("a", "x int"))
    first = created.object.commit
    done = await setup.do(AddColumns(target=A, columns=(spec("y int"),), expected=first))
    for request in (
        AddColumns(target=A, columns=(spec("z int"),), expected=first),
        UpdateColumn(target=A, column="x", comment="c", expected=first),
        DropColumn(target=A, column="x", expected=first),
    ):
        await refuses(setup, request, PreconditionFailed)
    await setup.do(DropColumn(target=A, column="x", expected=done.object.commit))
    await setup.close()


async def test_a_table_has_only_so_many_columns() -> None:
    setup = await started()
    many = tuple(spec(f"c{n} int") for n in range(MAX_COLUMNS + 1))
    request = msgspec.structs.replace(new_table("a"), columns=many)
    assert "10000" in await refuses(setup, request, Invalid)
    await setup.close()
