"""What each request comes to, and each refusal; through a whole commit, read back by a stranger."""

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
from arco.catalog.name import MOST_LEVELS
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Invalid,
    NotEmpty,
    NotFound,
    PreconditionFailed,
)
from tests.catalog.workshop import (
    S,
    Workshop,
    as_catalog,
    as_table,
    names_in,
    new_table,
    open_workshop,
    started,
    t,
)

S2 = SchemaName("default", ("s2",))


async def refuses(workshop: Workshop, request: Ddl, kind: type[ArcoError]) -> str:
    """A request is refused for good, and nothing has changed."""
    before = (await workshop.manifests())[-1].rows_changed_at
    with pytest.raises(kind) as refused:
        await workshop.do(request)
    assert type(refused.value) is kind
    assert (await workshop.manifests())[-1].rows_changed_at == before
    return str(refused.value)


async def read(workshop: Workshop, request: Ddl) -> object:
    """The object that a request was answered with, which is what a stranger reads."""
    done = await workshop.do(request)
    snapshot = await workshop.cold().head()
    assert done.number == done.object.commit == snapshot.number
    row = done.object.row
    object_id = getattr(row, "table_id", None) or getattr(row, "schema_id", None) or row.catalog_id
    assert await snapshot.find(object_id, dropped=True) == done.object
    return row


# Catalogs


async def test_a_catalog_is_made_described_renamed_and_dropped() -> None:
    workshop = await started()
    request = CreateCatalog(
        name="sales", comment="all of it", properties={"a": "1", "b": "2"}, tags=("x", "x", "y")
    )
    row = as_catalog(await workshop.do(request))
    assert (row.owner, row.tags, row.created_by) == ("user:ann", ("x", "y"), "user:ann")
    described = UpdateCatalog(
        target=CatalogName("sales"), properties={"a": None, "c": "3"}, comment=None, tags=()
    )
    again = as_catalog(await workshop.do(described))
    assert (again.properties, again.comment, again.tags) == ({"b": "2", "c": "3"}, None, ())
    renamed = await read(workshop, UpdateCatalog(target=CatalogName("sales"), name="trade"))
    assert getattr(renamed, "catalog_id", None) == row.catalog_id
    await refuses(workshop, UpdateCatalog(target=CatalogName("sales"), owner="user:x"), NotFound)
    await read(workshop, DropCatalog(target=CatalogName("trade")))
    await refuses(workshop, DropCatalog(target=CatalogName("trade")), NotFound)
    await workshop.close()


async def test_names_of_catalogs_are_taken_once() -> None:
    workshop = await started()
    await workshop.do(CreateCatalog(name="b"))
    await refuses(workshop, CreateCatalog(name="default"), AlreadyExists)
    await refuses(workshop, UpdateCatalog(target=CatalogName("b"), name="default"), AlreadyExists)
    await refuses(workshop, CreateCatalog(name="a/b"), Invalid)
    await refuses(workshop, CreateCatalog(name="x", storage_root="nowhere"), Invalid)
    await read(workshop, UpdateCatalog(target=CatalogName("b"), name="b"))
    await workshop.do(DropCatalog(target=CatalogName("b")))
    assert as_catalog(await workshop.do(CreateCatalog(name="b"))).storage_root is None
    await workshop.close()


async def test_a_catalog_that_holds_something_is_dropped_by_force_only() -> None:
    workshop = await started()
    table = await workshop.table("a")
    await refuses(workshop, DropCatalog(target=CatalogName("default")), NotEmpty)
    await read(workshop, DropCatalog(target=CatalogName("default"), force=True))
    snapshot = await workshop.cold().head()
    for missing in (snapshot.table(t("a")), snapshot.schema(S), snapshot.find(table.table_id)):
        with pytest.raises(NotFound):
            await missing
    assert (await snapshot.find(table.table_id, dropped=True)).row == table
    await refuses(workshop, new_table("b"), NotFound)
    await workshop.close()


# Schemas


async def test_schemas_nest_as_deep_as_is_allowed() -> None:
    workshop = await started()
    path: tuple[str, ...] = ()
    for level in range(MOST_LEVELS):
        row = await workshop.schema(*path, f"l{level}")
        path = (*path, f"l{level}")
        assert row.path == path
    deep = SchemaName("default", path)
    assert MOST_LEVELS >= 8
    await workshop.table("deep", schema=deep)
    assert await names_in(await workshop.cold().head(), *path) == ["deep"]
    message = await refuses(
        workshop, CreateSchema(catalog="default", parent=path, name="more"), Invalid
    )
    assert str(MOST_LEVELS) in message
    await workshop.close()


async def test_names_of_schemas_are_taken_once_among_siblings() -> None:
    workshop = await started()
    await workshop.schema("s", "a")
    await workshop.schema("s", "b")
    await workshop.schema("a")
    again = CreateSchema(catalog="default", parent=("s",), name="a")
    await refuses(workshop, again, AlreadyExists)
    rename = UpdateSchema(target=SchemaName("default", ("s", "b")), name="a")
    await refuses(workshop, rename, AlreadyExists)
    await refuses(workshop, CreateSchema(catalog="default", parent=("x",), name="a"), NotFound)
    await refuses(workshop, CreateSchema(catalog="none", name="a"), NotFound)
    await refuses(workshop, CreateSchema(catalog="default", name=".."), Invalid)
    await workshop.close()


async def test_renaming_a_schema_renames_the_paths_of_all_below_it() -> None:
    workshop = await started()
    a, b = await workshop.schema("s", "a"), await workshop.schema("s", "a", "b")
    gone = await workshop.schema("s", "gone")
    under = await workshop.schema("s", "gone", "under")
    await workshop.do(DropSchema(target=SchemaName("default", ("s", "gone")), force=True))
    table = await workshop.table("t", schema=SchemaName("default", ("s", "a", "b")))
    await read(workshop, UpdateSchema(target=S, name="new", comment="c"))
    snapshot = await workshop.cold().head()
    found = await snapshot.schema(SchemaName("default", ("new", "a", "b")))
    assert found.row.schema_id == b.schema_id
    for schema_id, path in (
        (a.schema_id, ("new", "a")),
        (b.schema_id, ("new", "a", "b")),
        (gone.schema_id, ("new", "gone")),
        (under.schema_id, ("new", "gone", "under")),
    ):
        row = (await snapshot.find(schema_id, dropped=True)).row
        assert isinstance(row, SchemaRow)
        assert row.path == path
    assert (await snapshot.table(t("t", "new", "a", "b"))).row == table
    with pytest.raises(NotFound):
        await snapshot.schema(S)
    await workshop.close()


async def test_a_schema_that_holds_something_is_dropped_by_force_only() -> None:
    workshop = await started()
    await workshop.schema("s", "inner")
    await refuses(workshop, DropSchema(target=S), NotEmpty)
    await read(workshop, DropSchema(target=SchemaName("default", ("s", "inner"))))
    await workshop.table("a")
    await refuses(workshop, DropSchema(target=S), NotEmpty)
    await workshop.do(DropTable(target=t("a")))
    await read(workshop, DropSchema(target=S))
    await refuses(workshop, DropSchema(target=S), NotFound)
    await workshop.close()


# Tables


async def test_a_managed_table_gets_a_place_of_its_own_that_is_never_used_again() -> None:
    workshop = await started()
    first = await workshop.table("a", "id bigint", "v decimal(10, 2)")
    assert (first.table_type, first.location) == (
        TableType.MANAGED,
        f"warehouse/{first.table_id}/",
    )
    assert (first.schema_version, first.last_field_id) == (1, 2)
    await workshop.do(DropTable(target=t("a")))
    second = await workshop.table("a")
    assert second.table_id != first.table_id
    assert second.location != first.location
    await workshop.close()


async def test_a_delta_table_is_registered_and_never_managed() -> None:
    workshop = await started(open_workshop())
    request = msgspec.structs.replace(new_table("d"), format=TableFormat.DELTA)
    assert "location" in await refuses(workshop, request, Invalid)
    there = msgspec.structs.replace(request, location="s3://lake/d")
    row = as_table(await workshop.do(there))
    assert (row.format, row.table_type) == (TableFormat.DELTA, TableType.EXTERNAL)


async def test_an_external_table_says_where_it_is() -> None:
    rules = WorkspaceRules(own_roots=("s3://lake/arco/",))
    workshop = await started(open_workshop(rules=rules))
    row = await workshop.table("a", location="s3://lake/sales")
    assert (row.table_type, row.location) == (TableType.EXTERNAL, "s3://lake/sales/")
    for hostile in ("s3://lake/arco/x", "s3://lake", "s3://lake/%61rco/", "../x", "s3://b/../c"):
        request = msgspec.structs.replace(new_table("b"), location=hostile)
        await refuses(workshop, request, Invalid)
    hostile_root = CreateCatalog(name="c", storage_root="s3://lake/arco/warehouse")
    await refuses(workshop, hostile_root, Invalid)
    await workshop.close()


async def test_where_places_are_declared_an_external_table_lies_in_one_of_them() -> None:
    rules = WorkspaceRules(own_roots=("s3://lake/arco/",), declared=("s3://lake/tables/",))
    workshop = await started(open_workshop(rules=rules))
    row = await workshop.table("a", location="s3a://lake/tables/sales")
    assert row.table_type is TableType.EXTERNAL
    for elsewhere in ("s3://lake/tables2/x", "s3://other/tables/x", "file:///etc/x"):
        request = msgspec.structs.replace(new_table("b"), location=elsewhere)
        await refuses(workshop, request, Invalid)
    nowhere = await started(open_workshop(rules=WorkspaceRules(declared=())))
    request = msgspec.structs.replace(new_table("b"), location="s3://lake/tables/x")
    await refuses(nowhere, request, Invalid)
    await nowhere.close()
    await workshop.close()


async def test_names_of_tables_are_compared_exactly() -> None:
    workshop = await started()
    for name in ("a", "A", "ä", "a\u0308", "100%", "a.b", "*"):
        await workshop.table(name)
    await refuses(workshop, new_table("A"), AlreadyExists)
    for name in ("", "..", "a/b", " a", "a\x00", "x" * 256):
        await refuses(workshop, new_table(name), Invalid)
    await refuses(workshop, new_table("x", schema=S2), NotFound)
    await workshop.close()


async def test_a_table_is_renamed_and_described_and_stays_the_same() -> None:
    workshop = await started()
    row = await workshop.table("a", "id bigint")
    await workshop.table("b")
    await refuses(workshop, UpdateTable(target=t("a"), name="b"), AlreadyExists)
    await refuses(workshop, UpdateTable(target=t("a"), name="a/b"), Invalid)
    request = UpdateTable(target=t("a"), name="c", owner=None, properties={"k": "v"})
    done = await workshop.do(request)
    renamed = as_table(done)
    assert (renamed.table_id, renamed.location) == (row.table_id, row.location)
    assert (renamed.owner, renamed.properties) == (None, {"k": "v"})
    assert [column.name for column in done.columns] == ["id"]
    assert await names_in(await workshop.cold().head()) == ["b", "c"]
    for bad in (
        UpdateTable(target=t("c"), properties={"arco.x": "1"}),
        UpdateTable(target=t("c"), comment="\x00"),
        UpdateTable(target=t("c"), owner="a\x00b"),
        UpdateTable(target=t("c"), tags=("/",)),
    ):
        await refuses(workshop, bad, Invalid)
    await workshop.close()


async def test_a_table_moves_between_schemas_and_catalogs_and_back() -> None:
    workshop = await started()
    await workshop.schema("s2")
    await workshop.do(CreateCatalog(name="other"))
    await workshop.schema("s", catalog="other")
    row = await workshop.table("a", "id bigint")
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
        await workshop.do(request)
        snapshot = await workshop.cold().head()
        found = await snapshot.table(now)
        assert found.row.table_id == row.table_id
        assert await snapshot.find(row.table_id) == found
        assert [c.row.name for c in await snapshot.columns(row.table_id)] == ["id"]
        with pytest.raises(NotFound):
            await snapshot.table(request.target)
    assert await names_in(snapshot) == ["b"]
    assert await names_in(snapshot, "s2") == []
    await workshop.compactor.merge()
    assert await names_in(await workshop.cold().head(), "s2") == []
    await workshop.close()


async def test_a_table_does_not_move_where_it_cannot() -> None:
    workshop = await started()
    await workshop.schema("s2")
    await workshop.table("a")
    await workshop.table("a", schema=S2)
    await refuses(workshop, UpdateTable(target=t("a"), schema=("s2",)), AlreadyExists)
    await refuses(workshop, UpdateTable(target=t("a"), schema=("none",)), NotFound)
    await refuses(workshop, UpdateTable(target=t("a"), schema=()), NotFound)
    await refuses(workshop, UpdateTable(target=t("a"), catalog="none"), NotFound)
    await workshop.close()


# If-Match


async def test_a_change_that_expects_another_version_is_refused() -> None:
    workshop = await started()
    created = await workshop.do(new_table("a", "id bigint"))
    schema = await (await workshop.head()).schema(S)
    changed = await workshop.do(
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
        await refuses(workshop, request, PreconditionFailed)
    changed = await workshop.do(
        UpdateTable(target=t("a"), comment="3", expected=version_of(changed.object))
    )
    await workshop.do(UpdateSchema(target=S, comment="x", expected=schema.commit))
    dropped = await workshop.do(DropTable(target=t("a"), expected=changed.object.commit))
    row = as_table(dropped)
    await refuses(workshop, Undrop(id=row.table_id, expected=stale), PreconditionFailed)
    await workshop.do(Undrop(id=row.table_id, expected=dropped.object.commit))
    await workshop.close()


# Undrop


async def test_a_table_comes_back_with_its_columns() -> None:
    workshop = await started()
    row = await workshop.table("a", "id bigint", "v string")
    await workshop.do(DropTable(target=t("a")))
    done = await workshop.do(Undrop(id=row.table_id))
    assert [column.name for column in done.columns] == ["id", "v"]
    found = (await (await workshop.cold().head()).table(t("a"))).row
    assert (found.table_id, found.location, found.dropped_at) == (row.table_id, row.location, None)
    await refuses(workshop, Undrop(id=row.table_id), AlreadyExists)
    await refuses(workshop, Undrop(id="01a1e036-0049-7abc-afba-e9743e0ba3e7"), NotFound)
    await workshop.close()


async def test_if_its_name_is_taken_it_comes_back_under_another() -> None:
    workshop = await started()
    old = await workshop.table("a")
    await workshop.do(DropTable(target=t("a")))
    await workshop.table("a")
    await refuses(workshop, Undrop(id=old.table_id), AlreadyExists)
    await refuses(workshop, Undrop(id=old.table_id, name="x/y"), Invalid)
    await workshop.do(Undrop(id=old.table_id, name="b"))
    assert await names_in(await workshop.cold().head()) == ["a", "b"]
    await workshop.close()


async def test_a_schema_comes_back_with_all_that_lay_in_it() -> None:
    workshop = await started()
    schema = await workshop.schema("s", "inner")
    await workshop.table("a", schema=SchemaName("default", ("s", "inner")))
    await workshop.do(DropSchema(target=SchemaName("default", ("s", "inner")), force=True))
    await workshop.schema("s", "inner")
    await refuses(workshop, Undrop(id=schema.schema_id), AlreadyExists)
    await workshop.do(Undrop(id=schema.schema_id, name="back"))
    assert await names_in(await workshop.cold().head(), "s", "back") == ["a"]
    await workshop.close()


async def test_a_catalog_comes_back_with_all_that_lay_in_it() -> None:
    workshop = await started()
    await workshop.table("a")
    dropped = await workshop.do(DropCatalog(target=CatalogName("default"), force=True))
    catalog = as_catalog(dropped)
    await workshop.do(CreateCatalog(name="default"))
    await refuses(workshop, Undrop(id=catalog.catalog_id), AlreadyExists)
    await workshop.do(Undrop(id=catalog.catalog_id, name="back"))
    assert await names_in(await workshop.cold().head(), catalog="back") == ["a"]
    await workshop.close()


async def test_a_schema_comes_back_below_a_parent_that_was_renamed_meanwhile() -> None:
    workshop = await started()
    inner = await workshop.schema("s", "inner")
    leaf = await workshop.schema("s", "inner", "leaf")
    await workshop.do(DropSchema(target=SchemaName("default", ("s", "inner")), force=True))
    await workshop.do(UpdateSchema(target=S, name="renamed"))
    await workshop.do(Undrop(id=inner.schema_id, name="again"))
    snapshot = await workshop.cold().head()
    found = await snapshot.schema(SchemaName("default", ("renamed", "again", "leaf")))
    assert found.row.schema_id == leaf.schema_id
    assert found.row.path == ("renamed", "again", "leaf")
    await workshop.close()


async def test_what_lies_in_something_dropped_comes_back_after_it_only() -> None:
    workshop = await started()
    dropped = await workshop.table("dropped")
    there = await workshop.table("there")
    await workshop.do(DropTable(target=t("dropped")))
    schema = await workshop.do(DropSchema(target=S, force=True))
    for each in (dropped, there):
        await refuses(workshop, Undrop(id=each.table_id), Conflict)
    assert isinstance(schema.object.row, SchemaRow)
    await workshop.do(Undrop(id=schema.object.row.schema_id))
    assert await names_in(await workshop.cold().head()) == ["there"]
    await workshop.do(Undrop(id=dropped.table_id))
    assert await names_in(await workshop.cold().head()) == ["dropped", "there"]
    await workshop.close()


async def test_after_the_retention_nothing_comes_back() -> None:
    workshop = await started()
    early, late = await workshop.table("early"), await workshop.table("late")
    await workshop.do(DropTable(target=t("early")))
    workshop.clock.set_forward(timedelta(hours=1))
    await workshop.do(DropTable(target=t("late")))
    workshop.clock.set_forward(DEFAULT_RETENTION - timedelta(minutes=30))
    await refuses(workshop, Undrop(id=early.table_id), NotFound)
    await workshop.do(Undrop(id=late.table_id))
    await workshop.close()
