"""The history of one object: every version that is kept, newest first, page by page."""

import pytest

from arco.catalog.ddl import AddColumns, DropTable, Undrop, UpdateSchema, UpdateTable
from arco.catalog.history import Version, history
from arco.catalog.manifest import manifests_of
from arco.catalog.model import TableRow
from arco.core.errors import NotFound
from arco.storage.roles import Role
from tests.catalog.catalog_setup import CatalogSetup, S, spec, started, t

ALL = 10_000


async def lived() -> tuple[CatalogSetup, TableRow]:
    """A table that was made, described, widened, dropped and brought back, with others in between."""
    setup = await started()
    row = await setup.table("a", "id bigint", "x int")
    await setup.table("other")
    await setup.do(UpdateTable(target=t("a"), comment="new"))
    await setup.do(AddColumns(target=t("a"), columns=(spec("y int"),)))
    await setup.compactor.merge()
    await setup.do(DropTable(target=t("a")), Undrop(id=row.table_id, name="b"))
    await setup.do(UpdateSchema(target=S, comment="no matter of the table"))
    return setup, row


async def walk(
    setup: CatalogSetup, object_id: str, *, limit: int, most_columns: int = ALL
) -> list[list[Version]]:
    """Every page."""
    reader, pages = setup.cold(), []
    start = await reader.head()
    while True:
        page = await history(reader, object_id, start=start, limit=limit, most_columns=most_columns)
        pages.append(page.items)
        if page.rest is None:
            return pages
        start = await reader.at_number(page.rest)


async def test_every_version_is_shown_with_its_author_and_its_columns() -> None:
    setup, row = await lived()
    [versions] = await walk(setup, row.table_id, limit=ALL)
    operations = [(each.operation, each.object.name, len(each.columns)) for each in versions]
    assert operations == [
        ("undrop", "b", 3),
        ("drop_table", "a", 3),
        ("add_column", "a", 3),
        ("update_table", "a", 2),
        ("create_table", "a", 2),
    ]
    assert {each.actor for each in versions} == {"user:ann"}
    await setup.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
async def test_pages_of_any_size_are_the_whole_history(limit: int) -> None:
    setup, row = await lived()
    [all_versions] = await walk(setup, row.table_id, limit=ALL)
    pages = await walk(setup, row.table_id, limit=limit)
    assert [each for page in pages for each in page] == all_versions
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert pages[-1]  # a page that is the last says so itself
    await setup.close()


async def test_a_page_ends_with_the_version_that_makes_its_columns_too_many() -> None:
    setup, row = await lived()
    pages = await walk(setup, row.table_id, limit=ALL, most_columns=5)
    assert [len(page) for page in pages] == [2, 2, 1]
    await setup.close()


async def test_versions_below_the_floor_are_not_listed_nor_linked() -> None:
    setup, row = await lived()
    [all_versions] = await walk(setup, row.table_id, limit=ALL)
    floor = all_versions[2].number
    await manifests_of(setup.store(Role.JANITOR), "catalog").raise_floor(floor)
    pages = await walk(setup, row.table_id, limit=2)
    assert [each.number for page in pages for each in page] == [
        each.number for each in all_versions[:3]
    ]
    await setup.close()


async def test_an_unknown_object_has_no_history() -> None:
    setup = await started()
    with pytest.raises(NotFound):
        await walk(setup, "01a1e036-0049-7abc-afba-e9743e0ba3e7", limit=1)
    await setup.close()
