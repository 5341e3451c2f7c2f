"""The decision of each request, and each refusal; through a complete commit, read by another process."""

from datetime import timedelta

import msgspec
import pytest

from arco.catalog.ddl import (
    AddColumns,
    CatalogName,
    CreateCatalog,
    CreateSchema,
    Ddl,
    DropCatalog,
    DropSchema,
    DropTable,
    SchemaName,
    Undrop,
    UpdateCatalog,
    UpdateSchema,
    UpdateTable,
)
from arco.catalog.decision import DEFAULT_RETENTION, WorkspaceRules, version_of
from arco.catalog.model import SchemaRow, TableFormat, TableType
from arco.catalog.name import MAX_LEVELS
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Invalid,
    NotEmpty,
    NotFound,
    PreconditionFailed,
)
from tests.catalog.catalog_setup import (
    CatalogSetup,
    S,
    as_catalog,
    as_table,
    names_in,
    new_table,
    open_setup,
    started,
    t,
)

S2 = SchemaName("default", ("s2",))


async def refuses(setup: CatalogSetup, request: Ddl, kind: type[ArcoError]) -> str:
    """A request is refused for good, and nothing has changed."""
    before = (await setup.manifests())[-1].rows_changed_at
    with pytest.raises(kind) as refused:
        await setup.do(request)
    assert type(refused.value) is kind
    assert (await setup.manifests())[-1].rows_changed_at == before
    return str(refused.value)


async def read(setup: CatalogSetup, request: Ddl) -> object:
    """The object in the answer, which equals what another process reads."""
    done = await setup.do(request)
    snapshot = await setup.cold().head()
    assert done.number == done.object.commit == snapshot.number
    row = done.object.row
    object_id = getattr(row, "table_id", None) or getattr(row, "schema_id", None) or row.catalog_id
    assert await snapshot.find(object_id, dropped=True) == done.object
    return row


# Catalogs


async def test_a_catalog_is_made_described_renamed_and_dropped() -> None:
    setup = await started()
    request = CreateCatalog(
        name="sales", comment="all of it", properties={"a": "1", "b": "2"}, tags=("x", "x", "y")
    )
    row = as_catalog(await setup.do(request))
    assert (row.owner, row.tags, row.created_by) == ("user:ann", ("x", "y"), "user:ann")
    described = UpdateCatalog(
        target=CatalogName("sales"), properties={"a": None, "c": "3"}, comment=None, tags=()
    )
    updated_row = as_catalog(await setup.do(described))
    assert (updated_row.properties, updated_row.comment, updated_row.tags) == (
        {"b": "2", "c": "3"},
        None,
        (),
    )
    renamed = await read(setup, UpdateCatalog(target=CatalogName("sales"), name="trade"))
    assert getattr(renamed, "catalog_id", None) == row.catalog_id
    await refuses(setup, UpdateCatalog(target=CatalogName("sales"), owner="user:x"), NotFound)
    await read(setup, DropCatalog(target=CatalogName("trade")))
    await refuses(setup, DropCatalog(target=CatalogName("trade")), NotFound)
    await setup.close()


async def test_names_of_catalogs_are_taken_once() -> None:
    setup = await started()
    await setup.do(CreateCatalog(name="b"))
    await refuses(setup, CreateCatalog(name="default"), AlreadyExists)
    await refuses(setup, UpdateCatalog(target=CatalogName("b"), name="default"), AlreadyExists)
    await refuses(setup, CreateCatalog(name="a/b"), Invalid)
    await refuses(setup, CreateCatalog(name="x", storage_root="nowhere"), Invalid)
    await read(setup, UpdateCatalog(target=CatalogName("b"), name="b"))
    await setup.do(DropCatalog(target=CatalogName("b")))
    assert as_catalog(await setup.do(CreateCatalog(name="b"))).storage_root is None
    await setup.close()


async def test_a_catalog_that_holds_something_is_dropped_by_force_only() -> None:
    setup = await started()
    table = await setup.table("a")
    await refuses(setup, DropCatalog(target=CatalogName("default")), NotEmpty)
    await read(setup, DropCatalog(target=CatalogName("default"), force=True))
    snapshot = await setup.cold().head()
    for missing in (snapshot.table(t("a")), snapshot.schema(S), snapshot.find(table.table_id)):
        with pytest.raises(NotFound):
            await missing
    assert (await snapshot.find(table.table_id, dropped=True)).row == table
    await refuses(setup, new_table("b"), NotFound)
    await setup.close()


# Schemas


async def test_schemas_nest_as_deep_as_is_allowed() -> None:
    setup = await started()
    path: tuple[str, ...] = ()
    for level in range(MAX_LEVELS):
        row = await setup.schema(*path, f"l{level}")
        path = (*path, f"l{level}")
        assert row.path == path
    deep = SchemaName("default", path)
    assert MAX_LEVELS >= 8
    await setup.table("deep", schema=deep)
    assert await names_in(await setup.cold().head(), *path) == ["deep"]
    message = await refuses(
        setup, CreateSchema(catalog="default", parent=path, name="more"), Invalid
    )
    assert str(MAX_LEVELS) in message
    await setup.close()


async def test_names_of_schemas_are_taken_once_among_siblings() -> None:
    setup = await started()
    await setup.schema("s", "a")
    await setup.schema("s", "b")
    await setup.schema("a")
    duplicate = CreateSchema(catalog="default", parent=("s",), name="a")
    await refuses(setup, duplicate, AlreadyExists)
    rename = UpdateSchema(target=SchemaName("default", ("s", "b")), name="a")
    await refuses(setup, rename, AlreadyExists)
    await refuses(setup, CreateSchema(catalog="default", parent=("x",), name="a"), NotFound)
    await refuses(setup, CreateSchema(catalog="none", name="a"), NotFound)
    await refuses(setup, CreateSchema(catalog="default", name=".."), Invalid)
    await setup.close()


async def test_renaming_a_schema_renames_the_paths_of_all_below_it() -> None:
    setup = await started()
    a, b = await setup.schema("s", "a"), await setup.schema("s", "a", "b")
    dropped_schema = await setup.schema("s", "gone")
    under = await setup.schema("s", "gone", "under")
    await setup.do(DropSchema(target=SchemaName("default", ("s", "gone")), force=True))
    table = await setup.table("t", schema=SchemaName("default", ("s", "a", "b")))
    await read(setup, UpdateSchema(target=S, name="new", comment="c"))
    snapshot = await setup.cold().head()
    committed = await snapshot.schema(SchemaName("default", ("new", "a", "b")))
    assert committed.row.schema_id == b.schema_id
    for schema_id, path in (
        (a.schema_id, ("new", "a")),
        (b.schema_id, ("new", "a", "b")),
        (dropped_schema.schema_id, ("new", "gone")),
        (under.schema_id, ("new", "gone", "under")),
    ):
        row = (await snapshot.find(schema_id, dropped=True)).row
        assert isinstance(row, SchemaRow)
        assert row.path == path
    assert (await snapshot.table(t("t", "new", "a", "b"))).row == table
    with pytest.raises(NotFound):
        await snapshot.schema(S)
    await setup.close()


async def test_a_schema_that_holds_something_is_dropped_by_force_only() -> None:
    setup = await started()
    await setup.schema("s", "inner")
    await refuses(setup, DropSchema(target=S), NotEmpty)
    await read(setup, DropSchema(target=SchemaName("default", ("s", "inner"))))
    await setup.table("a")
    await refuses(setup, DropSchema(target=S), NotEmpty)
    await setup.do(DropTable(target=t("a")))
    await read(setup, DropSchema(target=S))
    await refuses(setup, DropSchema(target=S), NotFound)
    await setup.close()


# Tables


async def test_a_managed_table_gets_a_unique_location_that_is_never_reused() -> None:
    setup = await started()
    first = await setup.table("a", "id bigint", "v decimal(10, 2)")
    assert (first.table_type, first.location) == (
        TableType.MANAGED,
        f"warehouse/{first.table_id}/",
    )
    assert (first.schema_version, first.last_field_id) == (1, 2)
    await setup.do(DropTable(target=t("a")))
    second = await setup.table("a")
    assert second.table_id != first.table_id
    assert second.location != first.location
    await setup.close()


async def test_a_delta_table_is_registered_and_never_managed() -> None:
    setup = await started(open_setup())
    request = msgspec.structs.replace(new_table("d"), format=TableFormat.DELTA)
    assert "location" in await refuses(setup, request, Invalid)
    located = msgspec.structs.replace(request, location="s3://lake/d")
    row = as_table(await setup.do(located))
    assert (row.format, row.table_type) == (TableFormat.DELTA, TableType.EXTERNAL)


async def test_an_external_table_says_where_it_is() -> None:
    rules = WorkspaceRules(own_roots=("s3://lake/arco/",))
    setup = await started(open_setup(rules=rules))
    row = await setup.table("a", location="s3://lake/sales")
    assert (row.table_type, row.location) == (TableType.EXTERNAL, "s3://lake/sales/")
    for hostile in ("s3://lake/arco/x", "s3://lake", "s3://lake/%61rco/", "../x", "s3://b/../c"):
        request = msgspec.structs.replace(new_table("b"), location=hostile)
        await refuses(setup, request, Invalid)
    hostile_root = CreateCatalog(name="c", storage_root="s3://lake/arco/warehouse")
    await refuses(setup, hostile_root, Invalid)
    await setup.close()


async def test_an_external_table_is_in_a_declared_location() -> None:
    rules = WorkspaceRules(own_roots=("s3://lake/arco/",), declared=("s3://lake/tables/",))
    setup = await started(open_setup(rules=rules))
    row = await setup.table("a", location="s3a://lake/tables/sales")
    assert row.table_type is TableType.EXTERNAL
    for elsewhere in ("s3://lake/tables2/x", "s3://other/tables/x", "file:///etc/x"):
        request = msgspec.structs.replace(new_table("b"), location=elsewhere)
        await refuses(setup, request, Invalid)
    nowhere = await started(open_setup(rules=WorkspaceRules(declared=())))
    request = msgspec.structs.replace(new_table("b"), location="s3://lake/tables/x")
    await refuses(nowhere, request, Invalid)
    await nowhere.close()
    await setup.close()


async def test_names_of_tables_are_compared_exactly() -> None:
    setup = await started()
    for name in ("a", "A", "ä", "a\u0308", "100%", "a.b", "*"):
        await setup.table(name)
    await refuses(setup, new_table("A"), AlreadyExists)
    for name in ("", "..", "a/b", " a", "a\x00", "x" * 256):
        await refuses(setup, new_table(name), Invalid)
    await refuses(setup, new_table("x", schema=S2), NotFound)
    await setup.close()


async def test_a_table_is_renamed_and_described_and_stays_the_same() -> None:
    setup = await started()
    row = await setup.table("a", "id bigint")
    await setup.table("b")
    await refuses(setup, UpdateTable(target=t("a"), name="b"), AlreadyExists)
    await refuses(setup, UpdateTable(target=t("a"), name="a/b"), Invalid)
    request = UpdateTable(target=t("a"), name="c", owner=None, properties={"k": "v"})
    done = await setup.do(request)
    renamed = as_table(done)
    assert (renamed.table_id, renamed.location) == (row.table_id, row.location)
    assert (renamed.owner, renamed.properties) == (None, {"k": "v"})
    assert [column.name for column in done.columns] == ["id"]
    assert await names_in(await setup.cold().head()) == ["b", "c"]
    for bad in (
        UpdateTable(target=t("c"), properties={"arco.x": "1"}),
        UpdateTable(target=t("c"), comment="\x00"),
        UpdateTable(target=t("c"), owner="a\x00b"),
        UpdateTable(target=t("c"), tags=("/",)),
    ):
        await refuses(setup, bad, Invalid)
    await setup.close()


async def test_a_table_moves_between_schemas_and_catalogs_and_back() -> None:
    setup = await started()
    await setup.schema("s2")
    await setup.do(CreateCatalog(name="other"))
    await setup.schema("s", catalog="other")
    row = await setup.table("a", "id bigint")
    moves = [
        (UpdateTable(target=t("a"), schema=("s2",)), t("a", "s2")),
        (UpdateTable(target=t("a", "s2"), schema=("s",), name="b"), t("b")),
        (UpdateTable(target=t("b"), catalog="other"), t("b", catalog="other")),
        (
            UpdateTable(target=t("b", catalog="other"), catalog="default", schema=("s2",)),
            t("b", "s2"),
        ),
        (UpdateTable(target=t("b", "s2"), schema=("s",)), t("b")),
    ]
    for request, now in moves:
        await setup.do(request)
        snapshot = await setup.cold().head()
        committed = await snapshot.table(now)
        assert committed.row.table_id == row.table_id
        assert await snapshot.find(row.table_id) == committed
        assert [c.row.name for c in await snapshot.columns(row.table_id)] == ["id"]
        with pytest.raises(NotFound):
            await snapshot.table(request.target)
    assert await names_in(snapshot) == ["b"]
    assert await names_in(snapshot, "s2") == []
    await setup.compactor.merge()
    assert await names_in(await setup.cold().head(), "s2") == []
    await setup.close()


async def test_a_table_does_not_move_where_it_cannot() -> None:
    setup = await started()
    await setup.schema("s2")
    await setup.table("a")
    await setup.table("a", schema=S2)
    await refuses(setup, UpdateTable(target=t("a"), schema=("s2",)), AlreadyExists)
    await refuses(setup, UpdateTable(target=t("a"), schema=("none",)), NotFound)
    await refuses(setup, UpdateTable(target=t("a"), schema=()), NotFound)
    await refuses(setup, UpdateTable(target=t("a"), catalog="none"), NotFound)
    await setup.close()


# If-Match


async def test_a_change_that_expects_another_version_is_refused() -> None:
    setup = await started()
    created = await setup.do(new_table("a", "id bigint"))
    schema = await (await setup.head()).schema(S)
    changed = await setup.do(
        UpdateTable(target=t("a"), comment="1", expected=created.object.commit)
    )
    stale = created.object.commit
    for request in (
        UpdateTable(target=t("a"), comment="2", expected=stale),
        DropTable(target=t("a"), expected=stale),
        UpdateSchema(target=S, comment="x", expected=0),
        DropSchema(target=S, expected=0),
        UpdateCatalog(target=CatalogName("default"), comment="x", expected=1),
        DropCatalog(target=CatalogName("default"), expected=1),
        UpdateTable(target=t("a"), comment="2", expected=version_of(created.object)),
        UpdateTable(target=t("a"), comment="2", expected=f"{changed.object.commit}-00000000"),
        AddColumns(target=t("a"), columns=(), expected=version_of(created.object)),
        UpdateSchema(target=S, comment="x", expected=version_of(changed.object)),
        DropCatalog(target=CatalogName("default"), expected=version_of(schema)),
    ):
        await refuses(setup, request, PreconditionFailed)
    changed = await setup.do(
        UpdateTable(target=t("a"), comment="3", expected=version_of(changed.object))
    )
    await setup.do(UpdateSchema(target=S, comment="x", expected=schema.commit))
    dropped = await setup.do(DropTable(target=t("a"), expected=changed.object.commit))
    row = as_table(dropped)
    await refuses(setup, Undrop(id=row.table_id, expected=stale), PreconditionFailed)
    await setup.do(Undrop(id=row.table_id, expected=dropped.object.commit))
    await setup.close()


# Undrop


async def test_a_table_comes_back_with_its_columns() -> None:
    setup = await started()
    row = await setup.table("a", "id bigint", "v string")
    await setup.do(DropTable(target=t("a")))
    done = await setup.do(Undrop(id=row.table_id))
    assert [column.name for column in done.columns] == ["id", "v"]
    table_row = (await (await setup.cold().head()).table(t("a"))).row
    assert (table_row.table_id, table_row.location, table_row.dropped_at) == (
        row.table_id,
        row.location,
        None,
    )
    await refuses(setup, Undrop(id=row.table_id), AlreadyExists)
    await refuses(setup, Undrop(id="01a1e036-0049-7abc-afba-e9743e0ba3e7"), NotFound)
    await setup.close()


async def test_if_its_name_is_taken_it_comes_back_under_another() -> None:
    setup = await started()
    old = await setup.table("a")
    await setup.do(DropTable(target=t("a")))
    await setup.table("a")
    await refuses(setup, Undrop(id=old.table_id), AlreadyExists)
    await refuses(setup, Undrop(id=old.table_id, name="x/y"), Invalid)
    await setup.do(Undrop(id=old.table_id, name="b"))
    assert await names_in(await setup.cold().head()) == ["a", "b"]
    await setup.close()


async def test_an_undropped_schema_comes_back_with_its_contents() -> None:
    setup = await started()
    schema = await setup.schema("s", "inner")
    await setup.table("a", schema=SchemaName("default", ("s", "inner")))
    await setup.do(DropSchema(target=SchemaName("default", ("s", "inner")), force=True))
    await setup.schema("s", "inner")
    await refuses(setup, Undrop(id=schema.schema_id), AlreadyExists)
    await setup.do(Undrop(id=schema.schema_id, name="back"))
    assert await names_in(await setup.cold().head(), "s", "back") == ["a"]
    await setup.close()


async def test_an_undropped_catalog_comes_back_with_its_contents() -> None:
    setup = await started()
    await setup.table("a")
    dropped = await setup.do(DropCatalog(target=CatalogName("default"), force=True))
    catalog = as_catalog(dropped)
    await setup.do(CreateCatalog(name="default"))
    await refuses(setup, Undrop(id=catalog.catalog_id), AlreadyExists)
    await setup.do(Undrop(id=catalog.catalog_id, name="back"))
    assert await names_in(await setup.cold().head(), catalog="back") == ["a"]
    await setup.close()


async def test_a_schema_comes_back_below_a_parent_that_was_renamed_meanwhile() -> None:
    setup = await started()
    inner = await setup.schema("s", "inner")
    leaf = await setup.schema("s", "inner", "leaf")
    await setup.do(DropSchema(target=SchemaName("default", ("s", "inner")), force=True))
    await setup.do(UpdateSchema(target=S, name="renamed"))
    await setup.do(Undrop(id=inner.schema_id, name="again"))
    snapshot = await setup.cold().head()
    committed = await snapshot.schema(SchemaName("default", ("renamed", "again", "leaf")))
    assert committed.row.schema_id == leaf.schema_id
    assert committed.row.path == ("renamed", "again", "leaf")
    await setup.close()


async def test_an_object_in_a_dropped_parent_comes_back_only_after_the_parent() -> None:
    setup = await started()
    dropped = await setup.table("dropped")
    existing = await setup.table("there")
    await setup.do(DropTable(target=t("dropped")))
    schema = await setup.do(DropSchema(target=S, force=True))
    for each in (dropped, existing):
        await refuses(setup, Undrop(id=each.table_id), Conflict)
    assert isinstance(schema.object.row, SchemaRow)
    await setup.do(Undrop(id=schema.object.row.schema_id))
    assert await names_in(await setup.cold().head()) == ["there"]
    await setup.do(Undrop(id=dropped.table_id))
    assert await names_in(await setup.cold().head()) == ["dropped", "there"]
    await setup.close()


async def test_after_the_retention_nothing_comes_back() -> None:
    setup = await started()
    early_table, late_table = await setup.table("early"), await setup.table("late")
    await setup.do(DropTable(target=t("early")))
    setup.clock.set_forward(timedelta(hours=1))
    await setup.do(DropTable(target=t("late")))
    setup.clock.set_forward(DEFAULT_RETENTION - timedelta(minutes=30))
    await refuses(setup, Undrop(id=early_table.table_id), NotFound)
    await setup.do(Undrop(id=late_table.table_id))
    await setup.close()
