"""The history of one object: every version that is kept, newest first, page by page."""

import pytest

from arco.catalog.ddl import AddColumns, DropTable, Undrop, UpdateSchema, UpdateTable
from arco.catalog.history import Version, history
from arco.catalog.manifest import manifests_of
from arco.catalog.model import TableRow
from arco.core.errors import NotFound
from arco.storage.roles import Role
from tests.catalog.workshop import S, Workshop, spec, started, t

ALL = 10_000


async def lived() -> tuple[Workshop, TableRow]:
    """A table that was made, described, widened, dropped and brought back, with others in between."""
    workshop = await started()
    row = await workshop.table("a", "id bigint", "x int")
    await workshop.table("other")
    await workshop.do(UpdateTable(target=t("a"), comment="new"))
    await workshop.do(AddColumns(target=t("a"), columns=(spec("y int"),)))
    await workshop.compactor.merge()
    await workshop.do(DropTable(target=t("a")), Undrop(id=row.table_id, name="b"))
    await workshop.do(UpdateSchema(target=S, comment="no matter of the table"))
    return workshop, row


async def walk(
    workshop: Workshop, object_id: str, *, limit: int, most_columns: int = ALL
) -> list[list[Version]]:
    """Every page."""
    reader, pages = workshop.cold(), []
    start = await reader.head()
    while True:
        found = await history(
            reader, object_id, start=start, limit=limit, most_columns=most_columns
        )
        pages.append(found.items)
        if found.rest is None:
            return pages
        start = await reader.at_number(found.rest)


async def test_every_version_is_told_with_who_made_it_and_its_columns() -> None:
    workshop, row = await lived()
    [found] = await walk(workshop, row.table_id, limit=ALL)
    told = [(each.operation, each.object.name, len(each.columns)) for each in found]
    assert told == [
        ("undrop", "b", 3),
        ("drop_table", "a", 3),
        ("add_column", "a", 3),
        ("update_table", "a", 2),
        ("create_table", "a", 2),
    ]
    assert {each.actor for each in found} == {"user:ann"}
    await workshop.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
async def test_pages_of_any_size_are_the_whole_history(limit: int) -> None:
    workshop, row = await lived()
    [whole] = await walk(workshop, row.table_id, limit=ALL)
    pages = await walk(workshop, row.table_id, limit=limit)
    assert [each for page in pages for each in page] == whole
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert pages[-1]  # a page that is the last says so itself
    await workshop.close()


async def test_a_page_ends_with_the_version_that_makes_its_columns_too_many() -> None:
    workshop, row = await lived()
    pages = await walk(workshop, row.table_id, limit=ALL, most_columns=5)
    assert [len(page) for page in pages] == [2, 2, 1]
    await workshop.close()


async def test_versions_below_the_floor_are_not_told_and_nobody_is_sent_there() -> None:
    workshop, row = await lived()
    [whole] = await walk(workshop, row.table_id, limit=ALL)
    floor = whole[2].number
    await manifests_of(workshop.store(Role.JANITOR), "catalog").raise_floor(floor)
    pages = await walk(workshop, row.table_id, limit=2)
    assert [each.number for page in pages for each in page] == [each.number for each in whole[:3]]
    await workshop.close()


async def test_an_unknown_object_has_no_history() -> None:
    workshop = await started()
    with pytest.raises(NotFound):
        await walk(workshop, "01a1e036-0049-7abc-afba-e9743e0ba3e7", limit=1)
    await workshop.close()
