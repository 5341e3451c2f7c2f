"""The difference between two snapshots, page by page, at a cost that follows from the page."""

import asyncio
from dataclasses import replace

import pytest

from arco.catalog.ddl import (
    DropSchema,
    DropTable,
    SchemaName,
    UpdateColumn,
    UpdateSchema,
    UpdateTable,
)
from arco.catalog.diff import ChangeKind, Difference, DiffPosition, diff
from arco.catalog.lookup import CommittedObject
from arco.catalog.snapshot import Snapshot
from arco.core.tasks import AsyncioTasks
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.catalog_setup import CatalogSetup, S, new_table, started, t

ALL = 10_000


async def walk(
    setup: CatalogSetup, old: Snapshot, new: Snapshot, *, limit: int, most_columns: int = ALL
) -> list[list[Difference]]:
    """Every page."""
    store, pages = setup.store(Role.READER), []
    after: DiffPosition | None = None
    while True:
        page = await diff(store, old, new, limit=limit, most_columns=most_columns, after=after)
        pages.append(page.items)
        after = page.rest
        if after is None:
            return pages


async def history() -> CatalogSetup:
    """Versions 0 default, 1 s, 2 to 7 tables a to f; then changes of all kinds, and a merge between."""
    setup = await started()
    for name in "abcdef":
        await setup.table(name, "id bigint")
    await setup.do(UpdateTable(target=t("a"), comment="new"))
    await setup.compactor.merge()
    await setup.schema("s2")
    await setup.do(UpdateTable(target=t("b"), schema=("s2",)), DropTable(target=t("c")))
    await setup.do(UpdateSchema(target=SchemaName("default", ("s2",)), name="s3"))
    await setup.table("g")
    await setup.table("passing")
    await setup.do(DropTable(target=t("passing")))
    return setup


async def test_a_difference_lists_what_was_created_changed_and_dropped() -> None:
    setup = await history()
    old, new = await setup.api.reader.at_number(7), await setup.head()
    [changes] = await walk(setup, old, new, limit=ALL)
    assert {each.name: each.change for each in changes} == {
        "default.s.a": ChangeKind.UPDATED,
        "default.s3.b": ChangeKind.UPDATED,
        "default.s.c": ChangeKind.DROPPED,
        "default.s3": ChangeKind.CREATED,
        "default.s.g": ChangeKind.CREATED,
    }
    [changed] = [each for each in changes if each.name == "default.s.a"]
    assert (changed.before, changed.after) == ({}, {"comment": "new"})
    [back] = await walk(setup, new, old, limit=ALL)
    opposite = {
        ChangeKind.CREATED: ChangeKind.DROPPED,
        ChangeKind.DROPPED: ChangeKind.CREATED,
        ChangeKind.UPDATED: ChangeKind.UPDATED,
    }
    assert {(each.id, each.change) for each in back} == {
        (each.id, opposite[each.change]) for each in changes
    }
    await setup.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
async def test_pages_of_any_size_are_the_whole_difference(limit: int) -> None:
    setup = await history()
    head = await setup.head()
    for number in (0, 3, 7):
        then = await setup.api.reader.at_number(number)
        for old, new in ((then, head), (head, then)):
            [all_changes] = await walk(setup, old, new, limit=ALL)
            pages = await walk(setup, old, new, limit=limit)
            assert [each for page in pages for each in page] == all_changes
            assert all(len(page) <= limit for page in pages)
    await setup.close()


async def test_a_page_ends_with_the_table_that_makes_its_columns_too_many() -> None:
    setup = await started()
    old = await setup.head()
    for name in "abcde":
        await setup.table(name, *(f"c{number} int" for number in range(10)))
    pages = await walk(setup, old, await setup.head(), limit=ALL, most_columns=15)
    assert [len(page) for page in pages] == [2, 2, 1]
    await setup.close()


class Counted(AsyncioTasks):
    """Tasks whose turns are counted."""

    turns = 0

    async def turn(self) -> None:
        self.turns += 1
        await super().turn()


class CountingSnapshot(Snapshot):
    """A snapshot that counts what it is asked for."""

    finds = 0

    async def find(self, object_id: str, *, dropped: bool = False) -> CommittedObject:
        self.finds += 1
        return await super().find(object_id, dropped=dropped)


async def crowd(count: int) -> tuple[CatalogSetup, Snapshot]:
    """A setup with many new tables, and the snapshot from before them."""
    setup = await started()
    old = await setup.head()
    creations = (setup.api.do(new_table(f"t{number:04}")) for number in range(count))
    await asyncio.gather(*creations)
    return setup, old


async def test_a_page_reads_no_more_than_it_returns_and_yields_to_other_tasks() -> None:
    setup, old = await crowd(2_500)
    head, tasks = await setup.head(), Counted()
    new = CountingSnapshot(head._files, head.entry)
    runtime = replace(setup.runtime, tasks=tasks)
    store = Store(setup.backend, runtime, scope=setup.api.store.scope, role=Role.READER)
    page = await diff(store, old, new, limit=1_000, most_columns=ALL)
    assert (len(page.items), new.finds) == (1_000, 1_000)
    assert tasks.turns >= 50
    new.finds = 0
    rest = await diff(store, old, new, limit=1_000, most_columns=ALL, after=page.rest)
    assert (len(rest.items), new.finds) == (1_000, 1_000)
    await setup.close()


async def test_a_page_may_be_empty_when_much_was_touched_and_nothing_differs() -> None:
    setup, old = await crowd(2_100)
    begun = await setup.api.reader.at_number(old.number - 1)  # before the schema was there
    await setup.do(DropSchema(target=S, force=True))
    pages = await walk(setup, begun, await setup.head(), limit=100)
    assert pages == [[], []]
    await setup.close()


async def test_every_change_of_a_column_shows() -> None:
    setup = await started()
    await setup.table("a", "x int")
    old = await setup.head()
    await setup.do(
        UpdateColumn(target=t("a"), column="x", nullable=False, comment="why", pii_type="EMAIL")
    )
    changes = (await diff(setup.api.store, old, await setup.head(), limit=9, most_columns=99)).items
    assert [each.after["columns"] for each in changes] == [
        ["x int not null comment 'why' pii_type 'EMAIL'"]
    ]
    await setup.close()
