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
from tests.catalog.attach_requests import (
    FOREIGN,
    S2,
    attach,
    column,
    refuses,
    routed_setup,
    row_of,
    table_id,
)
from tests.catalog.catalog_setup import (
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
    setup = await routed_setup()
    request = msgspec.structs.replace(
        attach(1), comment="c", properties={"k": "v"}, born=3, projected=4
    )
    done = await setup.do(request)
    assert done.operation == "create_table"
    row = await row_of(setup, 1)
    assert row == as_table(done)
    assert (row.name, row.kind, row.format) == ("t1", ObjectKind.TABLE, TableFormat.ICEBERG)
    assert (row.table_type, row.location) == (TableType.MANAGED, f"warehouse/{table_id(1)}/")
    assert (row.born, row.projected, row.last_field_id) == (3, 4, 2)
    assert (row.comment, row.properties, row.owner) == ("c", {"k": "v"}, "user:ann")
    snapshot = await setup.cold().head()
    committed = await snapshot.table(t("t1"))
    assert committed.row.table_id == table_id(1)
    columns = [each.row for each in await snapshot.columns(table_id(1))]
    assert [(c.name, c.field_id, c.position) for c in columns] == [("id", 1, 0), ("v", 2, 1)]
    assert columns[0].column_id == column_id(table_id(1), 1)
    assert [v.version for v in await snapshot.schema_versions(table_id(1))] == [1]
    await setup.close()


async def test_a_view_is_attached_as_one() -> None:
    setup = await routed_setup()
    done = await setup.do(msgspec.structs.replace(attach(1), kind=ObjectKind.VIEW))
    assert done.operation == "create_view"
    assert (await row_of(setup, 1)).kind is ObjectKind.VIEW
    assert (await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))).operation == (
        "drop_view"
    )
    await setup.close()


async def test_an_existing_name_or_a_missing_schema_is_refused() -> None:
    setup = await routed_setup()
    await setup.table("plain")
    nowhere = msgspec.structs.replace(attach(1), schema=S2)
    await refuses(setup, nowhere, NotFound)
    await refuses(setup, attach(1, name="plain"), AlreadyExists)
    await setup.do(attach(1))
    await refuses(setup, attach(2, name="t1"), AlreadyExists)
    await setup.close()


async def test_an_id_is_used_once_whatever_it_stands_for() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    duplicate = attach(1, name="other")
    await refuses(setup, duplicate, AlreadyExists)
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await refuses(setup, duplicate, AlreadyExists)
    schema = await setup.schema("s2")
    with_schema_id = msgspec.structs.replace(attach(2), table_id=schema.schema_id)
    await refuses(setup, with_schema_id, AlreadyExists)
    await setup.close()


@pytest.mark.parametrize(
    "invalid_fields",
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
async def test_an_attach_request_with_invalid_fields_is_refused(
    invalid_fields: dict[str, object],
) -> None:
    setup = await routed_setup()
    await refuses(setup, msgspec.structs.replace(attach(1), **invalid_fields), Invalid)
    await setup.close()


async def test_a_uuid_is_live_under_one_table() -> None:
    setup = await routed_setup()
    await setup.do(attach(1, uuid=FOREIGN.upper()))
    assert (await row_of(setup, 1)).table_uuid == FOREIGN
    await refuses(setup, attach(2, uuid=FOREIGN), AlreadyExists)
    snapshot = await setup.cold().head()
    committed = await snapshot.table_by_uuid(FOREIGN.upper())
    assert committed is not None
    assert committed.row.table_id == table_id(1)
    with pytest.raises(NotFound):
        await snapshot.find(f"uuid:{FOREIGN}", dropped=True)
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert await (await setup.cold().head()).table_by_uuid(FOREIGN) is None
    await setup.do(attach(2, uuid=FOREIGN))
    await refuses(setup, RestoreTable(table_id=table_id(1), born=2), AlreadyExists)
    await setup.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await setup.do(RestoreTable(table_id=table_id(1), born=2))
    restored = await (await setup.cold().head()).table_by_uuid(FOREIGN)
    assert restored is not None
    assert restored.row.table_id == table_id(1)
    await setup.close()


async def test_an_id_is_a_uuid_too() -> None:
    setup = await routed_setup()
    await setup.do(attach(1, uuid=table_id(1)))
    assert (await row_of(setup, 1)).table_uuid is None
    await refuses(setup, attach(2, uuid=table_id(1)), AlreadyExists)
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await setup.do(attach(2, uuid=table_id(1)))
    await refuses(setup, RestoreTable(table_id=table_id(1), born=2), AlreadyExists)
    committed = await (await setup.cold().head()).table_by_uuid(table_id(1))
    assert committed is not None
    assert committed.row.table_id == table_id(2)
    await setup.close()


async def test_a_uuid_that_another_brings_keeps_its_own_table_away() -> None:
    setup = await routed_setup()
    await setup.do(attach(2, uuid=table_id(1)))
    await refuses(setup, attach(1), AlreadyExists)
    assert await (await setup.cold().head()).table_by_uuid(table_id(2)) is None
    await setup.close()


async def test_several_tables_are_attached_in_one_commit() -> None:
    setup = await routed_setup()
    before = (await setup.head()).number
    done = await setup.do(AttachTables(tables=(attach(2), attach(1, uuid=FOREIGN), attach(3))))
    assert as_table(done).table_id == table_id(2)
    assert done.operation == "create_table"
    head = await setup.cold().head()
    assert head.number == before + 1
    assert await names_in(head) == ["t1", "t2", "t3"]
    assert {(await row_of(setup, n)).name for n in (1, 2, 3)} == {"t1", "t2", "t3"}
    await setup.close()


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
    setup = await routed_setup()
    first = attach(1, uuid=FOREIGN, location="s3://lake/a/")
    await refuses(setup, AttachTables(tables=(first, second)), kind)
    assert await names_in(await setup.cold().head()) == []
    await refuses(setup, AttachTables(tables=()), Invalid)
    await setup.do(AttachTables(tables=(first,)))
    await setup.close()


async def test_a_released_table_is_gone_and_its_name_free() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    done = await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert done.operation == "drop_table"
    assert as_table(done).dropped_at is not None
    assert await names_in(await setup.cold().head()) == []
    await setup.do(attach(2, name="t1"))
    await setup.close()


async def test_a_repeated_release_succeeds_and_keeps_the_time_of_the_drop() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    first = await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    setup.clock.set_forward(timedelta(hours=1))
    second = await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    assert as_table(second) == as_table(first)
    assert second.operation == "drop_table"
    assert await row_of(setup, 1) == as_table(first)
    await setup.close()


async def test_a_late_release_does_not_drop_a_restored_table() -> None:
    setup = await routed_setup()
    await setup.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=1))
    await setup.do(RestoreTable(table_id=table_id(1), born=2))
    for tombstone in (1, 2):
        late_release = await setup.do(ReleaseTable(table_id=table_id(1), tombstone=tombstone))
        assert as_table(late_release).dropped_at is None
    assert await names_in(await setup.cold().head()) == ["t1"]
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=3))
    assert await names_in(await setup.cold().head()) == []
    await setup.close()


async def test_two_releases_at_once_both_succeed() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    release = ReleaseTable(table_id=table_id(1), tombstone=1)
    one, two = await asyncio.gather(setup.api.do(release), setup.api.do(release))
    assert as_table(one).dropped_at == as_table(two).dropped_at
    assert one.number != two.number, "each row once in a commit"
    await setup.close()


async def test_a_release_in_a_dropped_schema_outlasts_its_return() -> None:
    setup = await routed_setup()
    schema = await setup.schema("s2")
    await setup.do(msgspec.structs.replace(attach(1), schema=S2))
    await setup.do(DropSchema(target=S2, force=True))
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await setup.do(Undrop(id=schema.schema_id))
    assert await names_in(await setup.cold().head(), "s2") == []
    await setup.close()


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
async def test_a_table_that_was_never_attached_is_not_found(request_: Ddl) -> None:
    setup = await routed_setup()
    await refuses(setup, request_, NotFound)
    schema = (await (await setup.head()).schema(S)).row.schema_id
    not_a_table = msgspec.structs.replace(request_, table_id=schema)
    await refuses(setup, not_a_table, NotFound)
    await setup.close()


async def test_an_if_match_is_checked_for_attached_tables() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    stale = MoveTable(table_id=table_id(1), schema=S, name="x", expected=0)
    await refuses(setup, stale, PreconditionFailed)
    await setup.close()


async def test_a_restored_table_records_its_new_pointer_and_keeps_its_columns() -> None:
    setup = await routed_setup()
    await setup.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=3))
    done = await setup.do(RestoreTable(table_id=table_id(1), born=4, name="back"))
    assert done.operation == "undrop"
    row = await row_of(setup, 1)
    assert (row.name, row.born, row.projected, row.dropped_at) == ("back", 4, 0, None)
    assert [each.name for each in done.columns] == ["id", "v"]
    await setup.close()


async def test_an_undrop_that_read_the_chain_before_its_tombstone_is_refused() -> None:
    setup = await routed_setup()
    await setup.do(attach(1), ReleaseTable(table_id=table_id(1), tombstone=2))
    for created_at_number in (1, 2):  # 1 was in effect when the undrop looked, and ended at 2
        await refuses(setup, RestoreTable(table_id=table_id(1), born=created_at_number), Conflict)
    await setup.do(RestoreTable(table_id=table_id(1), born=3))
    await setup.close()


async def test_only_what_was_dropped_lately_is_restored() -> None:
    setup = await routed_setup()
    restore = RestoreTable(table_id=table_id(1), born=2)
    await setup.do(attach(1))
    await refuses(setup, restore, AlreadyExists)
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1))
    await setup.do(attach(2, name="t1"))
    await refuses(setup, restore, AlreadyExists)
    await refuses(setup, msgspec.structs.replace(restore, name="a/b"), Invalid)
    await refuses(setup, RestoreTable(table_id=table_id(1), born=0, name="x"), Conflict)
    setup.clock.set_forward(DEFAULT_RETENTION + timedelta(seconds=1))
    await refuses(setup, msgspec.structs.replace(restore, name="free"), NotFound)
    await setup.close()


async def test_nothing_is_restored_into_a_dropped_schema() -> None:
    setup = await routed_setup()
    await setup.schema("s2")
    await setup.do(msgspec.structs.replace(attach(1), schema=S2))
    await setup.do(ReleaseTable(table_id=table_id(1), tombstone=1), DropSchema(target=S2))
    await refuses(setup, RestoreTable(table_id=table_id(1), born=2), Conflict)
    await setup.close()


async def test_a_table_is_renamed_and_moved_by_its_id() -> None:
    setup = await routed_setup()
    await setup.schema("s2")
    await setup.do(attach(1), attach(2))
    done = await setup.do(MoveTable(table_id=table_id(1), schema=S, name="new"))
    assert done.operation == "rename_table"
    moved = await setup.do(MoveTable(table_id=table_id(1), schema=S2, name="new"))
    assert [each.name for each in moved.columns] == ["id", "v"]
    for merged in (False, True):
        if merged:
            await setup.compactor.merge()
        head = await setup.cold().head()
        assert await names_in(head) == ["t2"]
        assert await names_in(head, "s2") == ["new"]
        assert (await row_of(setup, 1)).schema_id == (await head.schema(S2)).row.schema_id
    await setup.do(MoveTable(table_id=table_id(2), schema=S2, name="t2"))
    await refuses(setup, MoveTable(table_id=table_id(2), schema=S2, name="new"), AlreadyExists)
    nowhere = SchemaName("default", ("none",))
    await refuses(setup, MoveTable(table_id=table_id(2), schema=nowhere, name="x"), NotFound)
    await refuses(setup, MoveTable(table_id=table_id(2), schema=S, name="a/b"), Invalid)
    await setup.do(ReleaseTable(table_id=table_id(2), tombstone=1))
    await refuses(setup, MoveTable(table_id=table_id(2), schema=S, name="x"), NotFound)
    await setup.close()


async def test_a_move_to_where_it_is_succeeds_and_changes_nothing() -> None:
    setup = await routed_setup()
    before = as_table(await setup.do(attach(1)))
    done = await setup.do(MoveTable(table_id=table_id(1), schema=S, name="t1"))
    assert as_table(done) == before
    assert await row_of(setup, 1) == before
    await setup.close()


async def test_of_two_concurrent_requests_for_one_name_one_succeeds() -> None:
    setup = await routed_setup()
    await setup.do(attach(1), attach(2))
    api_processes = (setup.api, setup.api_process())
    results = await asyncio.gather(
        *(
            api_process.do(MoveTable(table_id=table_id(number), schema=S, name="x"))
            for api_process, number in zip(api_processes, (1, 2), strict=True)
        ),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(AlreadyExists) == 1
    assert "x" in await names_in(await setup.cold().head())
    await setup.close()


@pytest.mark.parametrize("apart", [True, False])
async def test_of_two_concurrent_attaches_of_one_uuid_one_succeeds(*, apart: bool) -> None:
    setup = await routed_setup()
    api_processes = (setup.api, setup.api_process() if apart else setup.api)
    results = await asyncio.gather(
        *(
            api_process.do(attach(n, uuid=FOREIGN))
            for n, api_process in enumerate(api_processes, start=1)
        ),
        return_exceptions=True,
    )
    assert [type(each) for each in results].count(AlreadyExists) == 1
    assert len(await names_in(await setup.cold().head())) == 1
    await setup.close()


async def test_an_attach_whose_answer_was_lost_is_answered_as_done() -> None:
    setup = await routed_setup()
    setup.channel.next(answer_is_lost)
    done = await setup.do(attach(1))
    assert as_table(done) == await row_of(setup, 1)
    setup.channel.next(answer_is_lost)
    done = await setup.do(AttachTables(tables=(attach(2), attach(3))))
    assert as_table(done).table_id == table_id(2)
    await setup.close()


async def test_plain_requests_about_a_ruled_table_get_no_verdict() -> None:
    setup = await routed_setup()
    await setup.schema("s2")
    await setup.do(attach(1), attach(2), ReleaseTable(table_id=table_id(2), tombstone=1))
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
        await refuses(setup, request, Unavailable)
    await setup.close()


async def test_what_the_catalog_knows_itself_of_a_ruled_table_is_changed_plainly() -> None:
    setup = await routed_setup()
    await setup.do(attach(1))
    same = UpdateTable(target=t("t1"), name="t1", schema=("s",), comment="c", tags=("gold",))
    assert as_table(await setup.do(same)).comment == "c"
    pii = UpdateColumn(target=t("t1"), column="v", pii_type="email")
    assert as_table(await setup.do(pii)).pii_columns == ("v",)
    await setup.table("plain", "x int")
    await setup.do(UpdateTable(target=t("plain"), name="p"), DropTable(target=t("p")))
    await setup.close()


async def test_without_a_ruler_a_format_is_like_any_other() -> None:
    setup = await started()
    iceberg = msgspec.structs.replace(new_table("n", "x int"), format=TableFormat.ICEBERG)
    await setup.do(iceberg, UpdateTable(target=t("n"), name="m"), DropTable(target=t("m")))
    await setup.close()
