"""Tables whose state is a chain of its own: what the catalog decides about their names, and what not."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.column_change import column_id
from arco.catalog.ddl import (
    AddColumns,
    AttachedColumn,
    AttachTable,
    AttachTables,
    CreateTable,
    Ddl,
    DropColumn,
    DropSchema,
    DropTable,
    MoveTable,
    ProjectColumns,
    ReleaseTable,
    ReservePlace,
    RestoreTable,
    SchemaName,
    Undrop,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.decision import DEFAULT_RETENTION, WorkspaceRules
from arco.catalog.location import place_name
from arco.catalog.model import (
    ColumnRow,
    ObjectKind,
    PlaceRow,
    Sensitivity,
    TableFormat,
    TableRow,
    TableType,
)
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Invalid,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from tests.catalog.attaching import FOREIGN, attach, column, table_id
from tests.catalog.workshop import (
    S,
    Workshop,
    answer_is_lost,
    as_table,
    is_down,
    names_in,
    new_table,
    open_workshop,
    spec,
    started,
    t,
)

S2 = SchemaName("default", ("s2",))
RULED = WorkspaceRules(
    routed_formats=frozenset({TableFormat.ICEBERG}), own_roots=("s3://ours/root/",)
)


async def routed_workshop() -> Workshop:
    return await started(open_workshop(rules=RULED))


async def refuses(workshop: Workshop, request: Ddl, kind: type[ArcoError]) -> str:
    """A request is refused, and nothing has changed."""
    before = (await workshop.manifests())[-1].rows_changed_at
    with pytest.raises(kind) as refused:
        await workshop.do(request)
    assert type(refused.value) is kind
    assert (await workshop.manifests())[-1].rows_changed_at == before
    return str(refused.value)


async def row_of(workshop: Workshop, number: int) -> TableRow:
    """The row as a stranger reads it, dropped or not."""
    found = await (await workshop.cold().head()).find(table_id(number), dropped=True)
    assert isinstance(found.row, TableRow)
    return found.row


async def places(workshop: Workshop, location: str) -> list[str]:
    """Who lies at, in or around a location."""
    found = await (await workshop.cold().head()).places_around(place_name(location))
    return sorted(each.row.table_id for each in found)


# Attach


async def test_an_attached_table_has_a_name_columns_and_the_numbers_of_its_chain() -> None:
    workshop = await routed_workshop()
    request = msgspec.structs.replace(
        attach(1), comment="c", properties={"k": "v"}, born=3, projected=4
    )
    done = await workshop.do(request)
    assert done.operation == "create_table"
    row = await row_of(workshop, 1)
    assert row == as_table(done)
    assert (row.name, row.kind, row.format) == ("t1", ObjectKind.TABLE, TableFormat.ICEBERG)
    assert (row.table_type, row.location) == (TableType.MANAGED, f"warehouse/{table_id(1)}/")
    assert (row.born, row.projected, row.last_field_id) == (3, 4, 2)
    assert (row.comment, row.properties, row.owner) == ("c", {"k": "v"}, "user:ann")
    snapshot = await workshop.cold().head()
    found = await snapshot.table(t("t1"))
    assert found.row.table_id == table_id(1)
    columns = [each.row for each in await snapshot.columns(table_id(1))]
    assert [(c.name, c.field_id, c.position) for c in columns] == [("id", 1, 0), ("v", 2, 1)]
    assert columns[0].column_id == column_id(table_id(1), 1)
    assert [v.version for v in await snapshot.schema_versions(table_id(1))] == [1]
    await workshop.close()


async def test_a_view_is_attached_as_one() -> None:
    workshop = await routed_workshop()
    done = await workshop.do(msgspec.structs.replace(attach(1), kind=ObjectKind.VIEW))
    assert done.operation == "create_view"
    assert (await row_of(workshop, 1)).kind is ObjectKind.VIEW
    assert (await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))).operation == (
        "drop_view"
    )
    await workshop.close()


async def test_a_name_that_is_taken_or_nowhere_is_refused() -> None:
    workshop = await routed_workshop()
    await workshop.table("plain")
    nowhere = msgspec.structs.replace(attach(1), schema=S2)
    await refuses(workshop, nowhere, NotFound)
    await refuses(workshop, attach(1, name="plain"), AlreadyExists)
    await workshop.do(attach(1))
    await refuses(workshop, attach(2, name="t1"), AlreadyExists)
    await workshop.close()


async def test_an_id_is_used_once_whatever_it_stands_for() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    again = attach(1, name="other")
    await refuses(workshop, again, AlreadyExists)
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await refuses(workshop, again, AlreadyExists)
    schema = await workshop.schema("s2")
    taken = msgspec.structs.replace(attach(2), table_id=schema.schema_id)
    await refuses(workshop, taken, AlreadyExists)
    await workshop.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"table_id": "x"},
        {"table_id": table_id(0xABC).upper()},
        {"kind": ObjectKind.SCHEMA},
        {"born": -1},
        {"projected": 2**63},
        {"name": "a/b"},
        {"table_uuid": ""},
        {"table_uuid": "x" * 129},
        {"columns": (column(1, "a"), column(1, "b"))},
        {"columns": (column(1, "a"), column(2, "a"))},
        {"columns": (column(-1, "a"),)},
        {"columns": (column(1, "a", "nonsense"),)},
        {"location": "nowhere"},
        {"location": "warehouse/"},
        {"location": "warehouse/x/"},
        {"location": f"warehouse/{table_id(1)}/../{table_id(2)}/"},
        {"location": f"warehouse/{table_id(1)}/%2e%2e/{table_id(2)}/"},
        {"location": f"warehouse/{table_id(1)}/?x"},
        {"location": "s3://ours/root/tenant=default/x/"},
        {"location": "s3a://ours/root/x"},
    ],
    ids=str,
)
async def test_what_no_table_can_be_like_is_refused(wrong: dict[str, object]) -> None:
    workshop = await routed_workshop()
    await refuses(workshop, msgspec.structs.replace(attach(1), **wrong), Invalid)
    await workshop.close()


# Places


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
async def test_a_table_lies_alone(location: str) -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1, location="s3://lake/a/"))
    assert (await row_of(workshop, 1)).table_type is TableType.EXTERNAL
    await refuses(workshop, attach(2, location=location), Conflict)
    await workshop.do(attach(3, location="s3://lake/ab/"), attach(4, location="s3://lake/b/"))
    await workshop.compactor.merge()
    await refuses(workshop, attach(2, location=location), Conflict)
    assert await places(workshop, location) != []
    await workshop.close()


async def test_a_place_is_free_again_once_its_table_is_released() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1, location="s3://lake/a"))
    assert await places(workshop, "s3://lake/a/") == [table_id(1)]
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert await places(workshop, "s3://lake/a/") == []
    await workshop.do(attach(2, location="s3://lake/a"))
    assert await places(workshop, "s3://lake/a/") == [table_id(2)]
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await workshop.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await workshop.do(RestoreTable(table_id=table_id(1), born=2))
    assert await places(workshop, "s3://lake/a/") == [table_id(1)]
    await refuses(workshop, attach(3, location="s3://lake/a/x"), Conflict)
    await workshop.close()


async def test_the_place_of_a_managed_table_is_for_others_once_it_is_gone() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    heir = attach(2, location=f"warehouse/{table_id(1)}/")
    await refuses(workshop, heir, Conflict)
    await refuses(workshop, attach(2, location=f"warehouse/{table_id(1)}/deep"), Conflict)
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1), heir)
    row = await row_of(workshop, 2)
    assert (row.table_type, row.location) == (TableType.MANAGED, f"warehouse/{table_id(1)}/")
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await workshop.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await workshop.do(RestoreTable(table_id=table_id(1), born=2))
    await refuses(workshop, RestoreTable(table_id=table_id(2), born=2), Conflict)
    await workshop.close()


async def test_nobody_is_attached_where_a_stranger_lies_under_its_id() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(2, location=f"warehouse/{table_id(1)}/x/"))
    await refuses(workshop, attach(1), Conflict)
    await workshop.close()


async def test_a_table_in_a_dropped_schema_keeps_its_place_and_its_uuid() -> None:
    workshop = await routed_workshop()
    schema = await workshop.schema("s2")
    inside = attach(1, location="s3://lake/a/", uuid=FOREIGN)
    await workshop.do(msgspec.structs.replace(inside, schema=S2))
    await workshop.do(DropSchema(target=S2, force=True))
    await refuses(workshop, attach(2, location="s3://lake/a/"), Conflict)
    await refuses(workshop, attach(2, uuid=FOREIGN), AlreadyExists)
    await workshop.do(Undrop(id=schema.schema_id))
    assert await names_in(await workshop.cold().head(), "s2") == ["t1"]
    await workshop.close()


def plain(name: str, location: str, table_format: TableFormat = TableFormat.CSV) -> CreateTable:
    return msgspec.structs.replace(new_table(name), location=location, format=table_format)


async def test_other_formats_share_places_but_not_with_a_table_that_lies_alone() -> None:
    workshop = await routed_workshop()
    one = as_table(await workshop.do(plain("one", "s3://lake/a/")))
    two = as_table(await workshop.do(plain("two", "s3a://lake/a", TableFormat.DELTA)))
    assert await places(workshop, "s3://lake/a/") == sorted([one.table_id, two.table_id])
    await refuses(workshop, attach(1, location="s3://lake/a/b/"), Conflict)
    await workshop.do(DropTable(target=t("one")))
    await refuses(workshop, attach(1, location="s3://lake/a/b/"), Conflict)
    await workshop.do(DropTable(target=t("two")))
    await workshop.do(attach(1, location="s3://lake/a/b/"))
    await refuses(workshop, plain("three", "s3://lake/a/"), Conflict)
    await refuses(workshop, Undrop(id=one.table_id), Conflict)
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1), Undrop(id=one.table_id))
    assert await places(workshop, "s3://lake/a/") == [one.table_id]
    await workshop.close()


async def test_many_places_below_one_are_all_found() -> None:
    workshop = await routed_workshop()
    for number in range(70):
        await workshop.do(plain(f"p{number}", f"s3://lake/many/{number // 2:03d}/"))
    assert len(await places(workshop, "s3://lake/")) == 70
    assert len(await places(workshop, "s3://lake/many/000/")) == 2
    assert await places(workshop, "s3://lake/more/") == []
    await refuses(workshop, attach(1, location="s3://lake/"), Conflict)
    await workshop.close()


async def test_a_place_is_reserved_for_a_table_that_is_about_to_move() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1, location="s3://lake/a"), attach(2))
    before = await row_of(workshop, 1)
    workshop.clock.set_forward(timedelta(minutes=1))
    reserve = ReservePlace(table_id=table_id(1), location="s3://lake/b")
    done = await workshop.do(reserve, reserve)
    assert done.operation == "reserve_place"
    assert as_table(done) == before == await row_of(workshop, 1)
    for location in ("s3://lake/a/x", "s3a://lake/b/x"):
        await refuses(workshop, attach(3, location=location), Conflict)
        await refuses(workshop, ReservePlace(table_id=table_id(2), location=location), Conflict)
    here = ProjectColumns(
        table_id=table_id(1), pointer=1, columns=(column(1, "id"),), location="s3://lake/b/"
    )
    assert as_table(await workshop.do(here)).location == "s3://lake/b/"
    await refuses(workshop, attach(3, location="s3://lake/a/x"), Conflict)
    await refuses(workshop, ReservePlace(table_id=table_id(9), location="s3://x/"), NotFound)
    await refuses(workshop, ReservePlace(table_id=table_id(1), location="nowhere"), Invalid)
    await workshop.close()


@pytest.mark.parametrize("location", ["s3://lake/a/x", "s3://lake/b"])
async def test_a_table_that_has_moved_leaves_all_its_places_and_takes_all_of_them_again(
    location: str,
) -> None:
    workshop = await routed_workshop()
    await workshop.do(
        attach(1, location="s3://lake/a"),
        ReservePlace(table_id=table_id(1), location="s3://lake/b"),
        ReleaseTable(table_id=table_id(1), tombstone=1),
        attach(2, location=location),
    )
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await workshop.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await workshop.do(RestoreTable(table_id=table_id(1), born=2))
    await refuses(workshop, attach(3, location=location), Conflict)
    await workshop.close()


async def test_a_place_row_tells_who_lies_there_since_when() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1, location="s3a://Lake/a"))
    [found] = await (await workshop.cold().head()).places_around("s3://lake/a/")
    assert isinstance(found.row, PlaceRow)
    assert (found.row.location, found.row.format) == ("s3://lake/a/", TableFormat.ICEBERG)
    assert (await row_of(workshop, 1)).location == "s3a://Lake/a/"
    assert found.row.created_by == "user:ann"
    await workshop.close()


# Uuids


async def test_a_uuid_is_live_under_one_table() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1, uuid=FOREIGN.upper()))
    assert (await row_of(workshop, 1)).table_uuid == FOREIGN
    await refuses(workshop, attach(2, uuid=FOREIGN), AlreadyExists)
    snapshot = await workshop.cold().head()
    found = await snapshot.table_by_uuid(FOREIGN.upper())
    assert found is not None
    assert found.row.table_id == table_id(1)
    with pytest.raises(NotFound):
        await snapshot.find(f"uuid:{FOREIGN}", dropped=True)
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert await (await workshop.cold().head()).table_by_uuid(FOREIGN) is None
    await workshop.do(attach(2, uuid=FOREIGN))
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=2), AlreadyExists)
    await workshop.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await workshop.do(RestoreTable(table_id=table_id(1), born=2))
    again = await (await workshop.cold().head()).table_by_uuid(FOREIGN)
    assert again is not None
    assert again.row.table_id == table_id(1)
    await workshop.close()


async def test_an_id_is_a_uuid_too() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1, uuid=table_id(1)))
    assert (await row_of(workshop, 1)).table_uuid is None
    await refuses(workshop, attach(2, uuid=table_id(1)), AlreadyExists)
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await workshop.do(attach(2, uuid=table_id(1)))
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=2), AlreadyExists)
    found = await (await workshop.cold().head()).table_by_uuid(table_id(1))
    assert found is not None
    assert found.row.table_id == table_id(2)
    await workshop.close()


async def test_a_uuid_that_another_brings_keeps_its_own_table_away() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(2, uuid=table_id(1)))
    await refuses(workshop, attach(1), AlreadyExists)
    assert await (await workshop.cold().head()).table_by_uuid(table_id(2)) is None
    await workshop.close()


# Several at once


async def test_several_tables_are_attached_in_one_commit() -> None:
    workshop = await routed_workshop()
    before = (await workshop.head()).number
    done = await workshop.do(AttachTables(tables=(attach(2), attach(1, uuid=FOREIGN), attach(3))))
    assert as_table(done).table_id == table_id(2)
    assert done.operation == "create_table"
    head = await workshop.cold().head()
    assert head.number == before + 1
    assert await names_in(head) == ["t1", "t2", "t3"]
    assert {(await row_of(workshop, n)).name for n in (1, 2, 3)} == {"t1", "t2", "t3"}
    await workshop.close()


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        (attach(2, name="t1"), AlreadyExists),
        (attach(1, name="t2"), AlreadyExists),
        (attach(2, uuid=FOREIGN), AlreadyExists),
        (attach(2, location="s3://lake/a/b"), Conflict),
        (attach(2, location="s3://lake/"), Conflict),
        (msgspec.structs.replace(attach(2), schema=S2), NotFound),
    ],
)
async def test_of_several_tables_none_is_attached_if_one_cannot_be(
    second: AttachTable, kind: type[ArcoError]
) -> None:
    workshop = await routed_workshop()
    first = attach(1, uuid=FOREIGN, location="s3://lake/a/")
    await refuses(workshop, AttachTables(tables=(first, second)), kind)
    assert await names_in(await workshop.cold().head()) == []
    await refuses(workshop, AttachTables(tables=()), Invalid)
    await workshop.do(AttachTables(tables=(first,)))
    await workshop.close()


# Release


async def test_a_released_table_is_gone_and_its_name_free() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    done = await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert done.operation == "drop_table"
    assert as_table(done).dropped_at is not None
    assert await names_in(await workshop.cold().head()) == []
    await workshop.do(attach(2, name="t1"))
    await workshop.close()


async def test_releasing_again_succeeds_and_leaves_the_moment_of_the_drop() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    first = await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    workshop.clock.set_forward(timedelta(hours=1))
    again = await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert as_table(again) == as_table(first)
    assert again.operation == "drop_table"
    assert await row_of(workshop, 1) == as_table(first)
    await workshop.close()


async def test_a_release_that_comes_late_does_not_touch_what_was_born_again() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=1))
    await workshop.do(RestoreTable(table_id=table_id(1), born=2))
    for tombstone in (1, 2):
        late = await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=tombstone))
        assert as_table(late).dropped_at is None
    assert await names_in(await workshop.cold().head()) == ["t1"]
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=3))
    assert await names_in(await workshop.cold().head()) == []
    await workshop.close()


async def test_two_releases_at_once_both_succeed() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    release = ReleaseTable(table_id=table_id(1), tombstone=1)
    one, two = await asyncio.gather(workshop.api.do(release), workshop.api.do(release))
    assert as_table(one).dropped_at == as_table(two).dropped_at
    assert one.number != two.number, "each row once in a commit"
    await workshop.close()


async def test_a_release_in_a_dropped_schema_outlasts_its_return() -> None:
    workshop = await routed_workshop()
    schema = await workshop.schema("s2")
    await workshop.do(msgspec.structs.replace(attach(1), schema=S2))
    await workshop.do(DropSchema(target=S2, force=True))
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await workshop.do(Undrop(id=schema.schema_id))
    assert await names_in(await workshop.cold().head(), "s2") == []
    await workshop.close()


@pytest.mark.parametrize(
    "request_",
    [
        ReleaseTable(table_id=table_id(9), tombstone=1),
        RestoreTable(table_id=table_id(9), born=1),
        MoveTable(table_id=table_id(9), schema=S, name="x"),
        ProjectColumns(table_id=table_id(9), pointer=1, columns=()),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_what_was_never_attached_is_not_found(request_: Ddl) -> None:
    workshop = await routed_workshop()
    await refuses(workshop, request_, NotFound)
    schema = (await (await workshop.head()).schema(S)).row.schema_id
    not_a_table = msgspec.structs.replace(request_, table_id=schema)
    await refuses(workshop, not_a_table, NotFound)
    await workshop.close()


async def test_an_if_match_holds_here_too() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    stale = MoveTable(table_id=table_id(1), schema=S, name="x", expected=0)
    await refuses(workshop, stale, PreconditionFailed)
    await workshop.close()


# Restore


async def test_a_restored_table_is_born_again_and_keeps_its_columns() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=3))
    done = await workshop.do(RestoreTable(table_id=table_id(1), born=4, name="back"))
    assert done.operation == "undrop"
    row = await row_of(workshop, 1)
    assert (row.name, row.born, row.projected, row.dropped_at) == ("back", 4, 0, None)
    assert [each.name for each in done.columns] == ["id", "v"]
    await workshop.close()


async def test_an_undrop_that_read_the_chain_before_its_tombstone_is_refused() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=2))
    for born in (1, 2):  # 1 was in effect when the undrop looked, and ended at 2
        await refuses(workshop, RestoreTable(table_id=table_id(1), born=born), Conflict)
    await workshop.do(RestoreTable(table_id=table_id(1), born=3))
    await workshop.close()


async def test_only_what_was_dropped_lately_is_restored() -> None:
    workshop = await routed_workshop()
    restore = RestoreTable(table_id=table_id(1), born=2)
    await workshop.do(attach(1))
    await refuses(workshop, restore, AlreadyExists)
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await workshop.do(attach(2, name="t1"))
    await refuses(workshop, restore, AlreadyExists)
    await refuses(workshop, msgspec.structs.replace(restore, name="a/b"), Invalid)
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=0, name="x"), Conflict)
    workshop.clock.set_forward(DEFAULT_RETENTION + timedelta(seconds=1))
    await refuses(workshop, msgspec.structs.replace(restore, name="free"), NotFound)
    await workshop.close()


async def test_nothing_is_restored_into_a_dropped_schema() -> None:
    workshop = await routed_workshop()
    await workshop.schema("s2")
    await workshop.do(msgspec.structs.replace(attach(1), schema=S2))
    await workshop.do(ReleaseTable(table_id=table_id(1), tombstone=1), DropSchema(target=S2))
    await refuses(workshop, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await workshop.close()


# Move


async def test_a_table_is_renamed_and_moved_by_its_id() -> None:
    workshop = await routed_workshop()
    await workshop.schema("s2")
    await workshop.do(attach(1), attach(2))
    done = await workshop.do(MoveTable(table_id=table_id(1), schema=S, name="new"))
    assert done.operation == "rename_table"
    moved = await workshop.do(MoveTable(table_id=table_id(1), schema=S2, name="new"))
    assert [each.name for each in moved.columns] == ["id", "v"]
    for merged in (False, True):
        if merged:
            await workshop.compactor.merge()
        head = await workshop.cold().head()
        assert await names_in(head) == ["t2"]
        assert await names_in(head, "s2") == ["new"]
        assert (await row_of(workshop, 1)).schema_id == (await head.schema(S2)).row.schema_id
    await workshop.do(MoveTable(table_id=table_id(2), schema=S2, name="t2"))
    await refuses(workshop, MoveTable(table_id=table_id(2), schema=S2, name="new"), AlreadyExists)
    nowhere = SchemaName("default", ("none",))
    await refuses(workshop, MoveTable(table_id=table_id(2), schema=nowhere, name="x"), NotFound)
    await refuses(workshop, MoveTable(table_id=table_id(2), schema=S, name="a/b"), Invalid)
    await workshop.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await refuses(workshop, MoveTable(table_id=table_id(2), schema=S, name="x"), NotFound)
    await workshop.close()


async def test_a_move_to_where_it_is_succeeds_and_changes_nothing() -> None:
    workshop = await routed_workshop()
    before = as_table(await workshop.do(attach(1)))
    done = await workshop.do(MoveTable(table_id=table_id(1), schema=S, name="t1"))
    assert as_table(done) == before
    assert await row_of(workshop, 1) == before
    await workshop.close()


async def test_of_two_who_want_one_name_at_once_one_gets_it() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1), attach(2))
    offices = (workshop.api, workshop.office())
    results = await asyncio.gather(
        *(
            office.do(MoveTable(table_id=table_id(number), schema=S, name="x"))
            for office, number in zip(offices, (1, 2), strict=True)
        ),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(AlreadyExists) == 1
    assert "x" in await names_in(await workshop.cold().head())
    await workshop.close()


@pytest.mark.parametrize("apart", [True, False])
async def test_of_two_who_want_one_place_at_once_one_gets_it(*, apart: bool) -> None:
    workshop = await routed_workshop()
    offices = (workshop.api, workshop.office() if apart else workshop.api)
    wishes = (attach(1, location="s3://lake/a"), attach(2, location="s3a://lake/a/b/"))
    results = await asyncio.gather(
        *(office.do(wish) for office, wish in zip(offices, wishes, strict=True)),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(Conflict) == 1
    assert len(await places(workshop, "s3://lake/a/")) == 1
    await workshop.close()


@pytest.mark.parametrize("apart", [True, False])
async def test_of_two_with_one_uuid_at_once_one_is_attached(*, apart: bool) -> None:
    workshop = await routed_workshop()
    offices = (workshop.api, workshop.office() if apart else workshop.api)
    results = await asyncio.gather(
        *(office.do(attach(n, uuid=FOREIGN)) for n, office in enumerate(offices, start=1)),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(AlreadyExists) == 1
    assert len(await names_in(await workshop.cold().head())) == 1
    await workshop.close()


async def test_a_refusal_for_a_place_waits_for_the_neighbour_who_took_it() -> None:
    workshop = await routed_workshop()
    workshop.post.next(is_down)
    wishes = (attach(1, location="s3://lake/a"), attach(2, location="s3://lake/a/b/"))
    results = await asyncio.gather(
        *(workshop.api.do(wish) for wish in wishes), return_exceptions=True
    )
    assert [type(each) for each in results] == [Unavailable, Unavailable], "no verdict yet"
    await workshop.do(wishes[1])
    await workshop.close()


async def test_an_attach_whose_answer_was_lost_is_told_as_done() -> None:
    workshop = await routed_workshop()
    workshop.post.next(answer_is_lost)
    done = await workshop.do(attach(1))
    assert as_table(done) == await row_of(workshop, 1)
    workshop.post.next(answer_is_lost)
    done = await workshop.do(AttachTables(tables=(attach(2), attach(3))))
    assert as_table(done).table_id == table_id(2)
    await workshop.close()


# Columns


async def columns_of(workshop: Workshop, number: int) -> list[ColumnRow]:
    snapshot = await workshop.cold().head()
    return [each.row for each in await snapshot.columns(table_id(number))]


def project(pointer: int, *columns: AttachedColumn) -> ProjectColumns:
    return ProjectColumns(table_id=table_id(1), pointer=pointer, columns=columns)


async def test_a_projection_replaces_the_columns_and_keeps_what_we_know_of_them() -> None:
    workshop = await routed_workshop()
    first = as_table(await workshop.do(attach(1)))
    await workshop.do(
        UpdateColumn(
            target=t("t1"), column="v", pii_type="email", sensitivity=Sensitivity.RESTRICTED
        )
    )
    old = {each.field_id: each for each in await columns_of(workshop, 1)}
    workshop.clock.set_forward(timedelta(minutes=1))
    done = await workshop.do(project(5, column(7, "new", "string"), column(2, "mail", "string")))
    assert done.operation == "project_columns"
    row = await row_of(workshop, 1)
    assert (row.projected, row.schema_version, row.last_field_id) == (5, 3, 7)
    assert (row.pii_columns, row.born) == (("mail",), 0)
    assert row.updated_at > first.updated_at
    new, mail = await columns_of(workshop, 1)
    assert (new.name, new.field_id, new.position, new.pii_type) == ("new", 7, 0, None)
    assert (mail.name, mail.data_type, mail.position) == ("mail", "string", 1)
    assert (mail.pii_type, mail.sensitivity) == ("email", Sensitivity.RESTRICTED)
    assert mail.column_id == old[2].column_id
    assert (mail.created_at, mail.created_by) == (old[2].created_at, old[2].created_by)
    assert mail.updated_at > old[2].updated_at
    snapshot = await workshop.cold().head()
    gone = await snapshot.column(table_id(1), old[1].column_id)
    assert gone is not None
    assert gone.row.dropped_at is not None
    assert [v.version for v in await snapshot.schema_versions(table_id(1))] == [1, 2, 3]
    await workshop.close()


async def test_a_column_that_comes_back_is_the_one_that_went() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    await workshop.do(UpdateColumn(target=t("t1"), column="v", pii_type="email"))
    await workshop.do(project(1, column(1, "id")))
    assert (await row_of(workshop, 1)).pii_columns == ()
    await workshop.do(project(2, column(1, "id"), column(2, "v")))
    _, back = await columns_of(workshop, 1)
    assert (back.pii_type, back.dropped_at) == ("email", None)
    assert (await row_of(workshop, 1)).last_field_id == 2
    await workshop.close()


async def test_older_news_of_columns_says_nothing() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1), project(5, column(1, "five")))
    before = await row_of(workshop, 1)
    for pointer in (0, 4, 5):
        done = await workshop.do(project(pointer, column(1, "late")))
        assert as_table(done) == before
        assert [each.name for each in done.columns] == ["five"]
    assert await row_of(workshop, 1) == before
    assert [each.name for each in await columns_of(workshop, 1)] == ["five"]
    await workshop.close()


async def test_the_same_columns_at_a_later_number_are_no_new_version() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    before = await columns_of(workshop, 1)
    await workshop.do(project(3, column(1, "id"), column(2, "v")))
    row = await row_of(workshop, 1)
    assert (row.projected, row.schema_version) == (3, 1)
    assert await columns_of(workshop, 1) == before
    await workshop.close()


async def test_the_columns_of_a_released_table_stay_as_they_were() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=2))
    before = await row_of(workshop, 1)
    await workshop.do(project(1, column(1, "x")))
    assert await row_of(workshop, 1) == before
    assert [each.name for each in await columns_of(workshop, 1)] == ["id", "v"]
    await workshop.close()


@pytest.mark.parametrize(
    "wrong",
    [
        project(-1),
        project(1, column(1, "a"), column(1, "b")),
        project(1, column(1, "a"), column(2, "a")),
        project(1, column(2**31, "a")),
        project(1, column(1, "")),
    ],
)
async def test_columns_that_cannot_be_are_refused(wrong: ProjectColumns) -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    await refuses(workshop, wrong, Invalid)
    await workshop.close()


async def test_projections_in_any_order_end_with_the_newest() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    offices = [workshop.api, workshop.office()]
    pointers = [3, 1, 4, 2]
    await asyncio.gather(
        *(
            offices[at % 2].do(project(pointer, column(pointer, f"c{pointer}")))
            for at, pointer in enumerate(pointers)
        )
    )
    assert [each.name for each in await columns_of(workshop, 1)] == ["c4"]
    assert (await row_of(workshop, 1)).projected == 4
    await workshop.close()


# Formats that rule their tables


async def test_plain_requests_about_a_ruled_table_get_no_verdict() -> None:
    workshop = await routed_workshop()
    await workshop.schema("s2")
    await workshop.do(attach(1), attach(2), ReleaseTable(table_id=table_id(2), tombstone=1))
    target = t("t1")
    iceberg = msgspec.structs.replace(new_table("n", "x int"), format=TableFormat.ICEBERG)
    for request in (
        iceberg,
        DropTable(target=target),
        UpdateTable(target=target, name="x"),
        UpdateTable(target=target, schema=("s2",)),
        AddColumns(target=target, columns=(spec("n int"),)),
        DropColumn(target=target, column="v"),
        UpdateColumn(target=target, column="v", name="w"),
        UpdateColumn(target=target, column="v", data_type="string"),
        UpdateColumn(target=target, column="v", nullable=False),
        UpdateColumn(target=target, column="v", comment="c"),
        UpdateColumn(target=target, column="v", default_value="1"),
        UpdateColumn(target=target, column="v", position=0),
        Undrop(id=table_id(2)),
    ):
        await refuses(workshop, request, Unavailable)
    await workshop.close()


async def test_what_the_catalog_knows_itself_of_a_ruled_table_is_changed_plainly() -> None:
    workshop = await routed_workshop()
    await workshop.do(attach(1))
    same = UpdateTable(target=t("t1"), name="t1", schema=("s",), comment="c", tags=("gold",))
    assert as_table(await workshop.do(same)).comment == "c"
    pii = UpdateColumn(target=t("t1"), column="v", pii_type="email")
    assert as_table(await workshop.do(pii)).pii_columns == ("v",)
    await workshop.table("plain", "x int")
    await workshop.do(UpdateTable(target=t("plain"), name="p"), DropTable(target=t("p")))
    await workshop.close()


async def test_without_a_ruler_a_format_is_like_any_other() -> None:
    workshop = await started()
    iceberg = msgspec.structs.replace(new_table("n", "x int"), format=TableFormat.ICEBERG)
    await workshop.do(iceberg, UpdateTable(target=t("n"), name="m"), DropTable(target=t("m")))
    await workshop.close()
