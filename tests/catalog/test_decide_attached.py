"""Tables with a pointer chain: attach, release, restore and move their names."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.column_change import column_id
from arco.catalog.ddl import (
    AddColumns,
    AttachTable,
    AttachTables,
    Ddl,
    DropColumn,
    DropSchema,
    DropTable,
    MoveTable,
    ProjectColumns,
    ReleaseTable,
    RestoreTable,
    SchemaName,
    Undrop,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.decision import DEFAULT_RETENTION
from arco.catalog.model import ObjectKind, TableFormat, TableType
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Invalid,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from tests.catalog.attaching import (
    FOREIGN,
    S2,
    attach,
    column,
    refuses,
    routed_workshop,
    row_of,
    table_id,
)
from tests.catalog.workshop import (
    S,
    answer_is_lost,
    as_table,
    names_in,
    new_table,
    spec,
    started,
    t,
)


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


async def test_an_attach_whose_answer_was_lost_is_told_as_done() -> None:
    workshop = await routed_workshop()
    workshop.post.next(answer_is_lost)
    done = await workshop.do(attach(1))
    assert as_table(done) == await row_of(workshop, 1)
    workshop.post.next(answer_is_lost)
    done = await workshop.do(AttachTables(tables=(attach(2), attach(3))))
    assert as_table(done).table_id == table_id(2)
    await workshop.close()


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
