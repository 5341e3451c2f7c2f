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
from tests.catalog.workshop import S, Workshop, new_table, started, t

ALL = 10_000


async def walk(
    workshop: Workshop, old: Snapshot, new: Snapshot, *, limit: int, most_columns: int = ALL
) -> list[list[Difference]]:
    """Every page."""
    store, pages = workshop.store(Role.READER), []
    after: DiffPosition | None = None
    while True:
        page = await diff(store, old, new, limit=limit, most_columns=most_columns, after=after)
        pages.append(page.items)
        after = page.rest
        if after is None:
            return pages


async def history() -> Workshop:
    """Versions 0 default, 1 s, 2 to 7 tables a to f; then changes of all kinds, and a merge between."""
    workshop = await started()
    for name in "abcdef":
        await workshop.table(name, "id bigint")
    await workshop.do(UpdateTable(target=t("a"), comment="new"))
    await workshop.compactor.merge()
    await workshop.schema("s2")
    await workshop.do(UpdateTable(target=t("b"), schema=("s2",)), DropTable(target=t("c")))
    await workshop.do(UpdateSchema(target=SchemaName("default", ("s2",)), name="s3"))
    await workshop.table("g")
    await workshop.table("passing")
    await workshop.do(DropTable(target=t("passing")))
    return workshop


async def test_a_difference_tells_what_was_made_changed_and_dropped() -> None:
    workshop = await history()
    old, new = await workshop.api.reader.at_number(7), await workshop.head()
    [found] = await walk(workshop, old, new, limit=ALL)
    assert {each.name: each.change for each in found} == {
        "default.s.a": ChangeKind.UPDATED,
        "default.s3.b": ChangeKind.UPDATED,
        "default.s.c": ChangeKind.DROPPED,
        "default.s3": ChangeKind.CREATED,
        "default.s.g": ChangeKind.CREATED,
    }
    [changed] = [each for each in found if each.name == "default.s.a"]
    assert (changed.before, changed.after) == ({}, {"comment": "new"})
    [back] = await walk(workshop, new, old, limit=ALL)
    opposite = {
        ChangeKind.CREATED: ChangeKind.DROPPED,
        ChangeKind.DROPPED: ChangeKind.CREATED,
        ChangeKind.UPDATED: ChangeKind.UPDATED,
    }
    assert {(each.id, each.change) for each in back} == {
        (each.id, opposite[each.change]) for each in found
    }
    await workshop.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
async def test_pages_of_any_size_are_the_whole_difference(limit: int) -> None:
    workshop = await history()
    head = await workshop.head()
    for number in (0, 3, 7):
        then = await workshop.api.reader.at_number(number)
        for old, new in ((then, head), (head, then)):
            [whole] = await walk(workshop, old, new, limit=ALL)
            pages = await walk(workshop, old, new, limit=limit)
            assert [each for page in pages for each in page] == whole
            assert all(len(page) <= limit for page in pages)
    await workshop.close()


async def test_a_page_ends_with_the_table_that_makes_its_columns_too_many() -> None:
    workshop = await started()
    old = await workshop.head()
    for name in "abcde":
        await workshop.table(name, *(f"c{number} int" for number in range(10)))
    pages = await walk(workshop, old, await workshop.head(), limit=ALL, most_columns=15)
    assert [len(page) for page in pages] == [2, 2, 1]
    await workshop.close()


class Counted(AsyncioTasks):
    """Tasks whose turns are counted."""

    turns = 0

    async def turn(self) -> None:
        self.turns += 1
        await super().turn()


class Asked(Snapshot):
    """A snapshot that counts what it is asked for."""

    finds = 0

    async def find(self, object_id: str, *, dropped: bool = False) -> CommittedObject:
        self.finds += 1
        return await super().find(object_id, dropped=dropped)


async def crowd(count: int) -> tuple[Workshop, Snapshot]:
    """A workshop with many new tables, and the snapshot from before them."""
    workshop = await started()
    old = await workshop.head()
    made = (workshop.api.do(new_table(f"t{number:04}")) for number in range(count))
    await asyncio.gather(*made)
    return workshop, old


async def test_a_page_looks_at_no_more_than_it_tells_and_lets_others_have_their_turn() -> None:
    workshop, old = await crowd(2_500)
    head, tasks = await workshop.head(), Counted()
    new = Asked(head._files, head.entry)
    runtime = replace(workshop.runtime, tasks=tasks)
    store = Store(workshop.backend, runtime, scope=workshop.api.store.scope, role=Role.READER)
    page = await diff(store, old, new, limit=1_000, most_columns=ALL)
    assert (len(page.items), new.finds) == (1_000, 1_000)
    assert tasks.turns >= 50
    new.finds = 0
    rest = await diff(store, old, new, limit=1_000, most_columns=ALL, after=page.rest)
    assert (len(rest.items), new.finds) == (1_000, 1_000)
    await workshop.close()


async def test_a_page_may_be_empty_when_much_was_touched_and_nothing_differs() -> None:
    workshop, old = await crowd(2_100)
    begun = await workshop.api.reader.at_number(old.number - 1)  # before the schema was there
    await workshop.do(DropSchema(target=S, force=True))
    pages = await walk(workshop, begun, await workshop.head(), limit=100)
    assert pages == [[], []]
    await workshop.close()


async def test_every_change_of_a_column_shows() -> None:
    workshop = await started()
    await workshop.table("a", "x int")
    old = await workshop.head()
    await workshop.do(
        UpdateColumn(target=t("a"), column="x", nullable=False, comment="why", pii_type="EMAIL")
    )
    found = (
        await diff(workshop.api.store, old, await workshop.head(), limit=9, most_columns=99)
    ).items
    assert [each.after["columns"] for each in found] == [
        ["x int not null comment 'why' pii_type 'EMAIL'"]
    ]
    await workshop.close()
