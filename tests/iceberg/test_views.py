"""Views: like tables they have pointer chains, and they share the namespace of names."""

from typing import Any

import pytest

from arco.core.json import Json
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.wire import (
    CommitViewRequest,
    CreateViewRequest,
    Identifier,
    RegisterViewRequest,
    RenameRequest,
)
from tests.catalog.catalog_setup import names_in
from tests.iceberg.engine.sample_metadata import update
from tests.iceberg.engine.test_view_metadata import SCHEMA, sql, version
from tests.iceberg.iceberg_setup import (
    NS,
    Api,
    IcebergSetup,
    begun,
    dies,
    dies_at_the_compactor,
    pointer_key,
    refusal,
    with_table,
)


async def _create(
    api: Api, name: str = "v", *, key: str | None = None, **more: Any
) -> LoadedMetadata:
    fields = {"schema": SCHEMA, "view_version": version(), **more}
    request = CreateViewRequest(name=name, **fields)
    return await api.iceberg.views.create("default", NS, request, api.caller("createView", key))


async def _replace(
    api: Api,
    text: str,
    name: str = "v",
    *,
    key: str | None = None,
    require: tuple[dict[str, Json], ...] = (),
) -> LoadedMetadata:
    updates = (
        update("add-view-version", view_version=version(sql(text), number=2)),
        update("set-current-view-version", view_version_id=-1),
    )
    request = CommitViewRequest(requirements=require, updates=updates)
    caller = api.caller("replaceView", key)
    return await api.iceberg.views.replace("default", NS, name, request, caller)


async def _drop(api: Api, name: str = "v", *, key: str | None = None) -> None:
    await api.iceberg.views.drop("default", NS, name, api.caller("dropView", key))


async def _rename(api: Api, source: str, target: str) -> None:
    request = RenameRequest(
        source=Identifier(namespace=NS, name=source),
        destination=Identifier(namespace=NS, name=target),
    )
    await api.iceberg.views.rename("default", request, api.caller("renameView"))


async def _names(api: Api) -> list[str]:
    return await api.iceberg.views.page("default", NS, after=None, limit=None)


async def _load(api: Api, name: str = "v") -> LoadedMetadata:
    return await api.iceberg.views.load("default", NS, name)


def _text(loaded: LoadedMetadata) -> Json:
    """What the current version says."""
    versions = loaded.metadata["versions"]
    assert isinstance(versions, list)
    current = loaded.metadata["current-version-id"]
    [current_version] = [v for v in versions if isinstance(v, dict) and v["version-id"] == current]
    representations = current_version["representations"]
    assert isinstance(representations, list)
    assert isinstance(representations[0], dict)
    return representations[0]["sql"]


async def _with_view() -> tuple[IcebergSetup, str]:
    setup = await begun()
    created_view = await _create(setup.a)
    return setup, str(created_view.metadata["view-uuid"])


async def test_a_new_view_is_visible_to_all_processes_and_is_no_table() -> None:
    setup, view_id = await _with_view()
    loaded_view = await _load(setup.b)
    assert (_text(loaded_view), loaded_view.metadata["view-uuid"]) == ("select 1", view_id)
    assert await _names(setup.b) == ["v"]
    assert await setup.b.names() == []
    assert (await refusal(setup.b.load("v"))).kind == "NoSuchTableException"
    [first] = await setup.pointers(view_id)
    assert first.operation == "create"


async def test_the_catalog_shows_the_columns_of_a_view() -> None:
    setup, view_id = await _with_view()
    columns = await (await setup.b.context.reader.head()).columns(view_id)
    assert [each.row.name for each in columns] == ["id", "data"]


async def test_a_view_is_replaced_and_says_the_newest() -> None:
    setup, view_id = await _with_view()
    replaced_view = await _replace(setup.a, "select 2")
    assert _text(await _load(setup.b)) == _text(replaced_view) == "select 2"
    assert len(await setup.chain(view_id)) == 2


async def test_who_loses_a_race_replaces_again() -> None:
    setup, view_id = await _with_view()
    setup.a.connection.before(
        "create", pointer_key(view_id, 1), lambda: _replace(setup.b, "select 2")
    )
    await _replace(setup.a, "select 3")
    assert _text(await _load(setup.b)) == "select 3"
    assert len(await setup.chain(view_id)) == 3


async def test_a_requirement_that_fails_is_a_conflict() -> None:
    setup, _ = await _with_view()
    other: dict[str, Json] = {
        "type": "assert-view-uuid",
        "uuid": "00000000-0000-4000-8000-000000000000",
    }
    lost = await refusal(_replace(setup.a, "select 2", require=(other,)))
    assert (lost.status, lost.kind) == (409, "CommitFailedException")
    assert "UUID does not match" in lost.message


async def test_names_are_shared_with_tables() -> None:
    setup, _ = await with_table("t")
    conflict = await refusal(_create(setup.a, "t"))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert conflict.message == "Table with same name already exists: s.t"
    await _create(setup.a, "v")
    conflict = await refusal(setup.b.create("v"))
    assert conflict.message == "View with same name already exists: s.v"
    conflict = await refusal(_create(setup.b, "v"))
    assert conflict.message == "View already exists: s.v"


async def test_what_is_not_there_is_named() -> None:
    setup, _ = await with_table("t")
    for work in (_load(setup.a, "t"), _replace(setup.a, "select 2", "t"), _drop(setup.a, "t")):
        missing = await refusal(work)
        assert (missing.status, missing.kind) == (404, "NoSuchViewException")
        assert missing.message == "View does not exist: s.t"
    missing = await refusal(_rename(setup.a, "t", "u"))
    assert missing.kind == "NoSuchViewException"


async def test_a_view_is_renamed_and_refused_a_name_that_is_taken() -> None:
    setup, view_id = await _with_view()
    await setup.a.create("t")
    await _create(setup.a, "w")
    conflict = await refusal(_rename(setup.b, "v", "t"))
    assert conflict.message == "Cannot rename s.v to s.t. Table already exists"
    conflict = await refusal(_rename(setup.b, "v", "w"))
    assert conflict.message == "Cannot rename s.v to s.w. View already exists"
    await _rename(setup.b, "v", "x")
    assert (await _load(setup.a, "x")).metadata["view-uuid"] == view_id
    assert await _names(setup.a) == ["w", "x"]


async def test_a_dropped_view_is_gone_and_can_be_brought_back() -> None:
    setup, view_id = await _with_view()
    await _drop(setup.a)
    assert await _names(setup.b) == []
    assert (await refusal(_load(setup.b))).kind == "NoSuchViewException"
    assert (await refusal(_replace(setup.b, "select 2"))).kind == "NoSuchViewException"
    await setup.b.undrop(view_id)
    assert _text(await _load(setup.a)) == "select 1"


async def test_a_dead_name_of_a_view_is_free() -> None:
    setup, _ = await _with_view()
    await dies_at_the_compactor(setup, setup.a, _drop(setup.a), arrives=False)
    assert await names_in(await setup.inner.cold().head()) == ["v"]
    assert await _names(setup.b) == []
    await setup.b.create("v")
    assert await setup.b.names() == ["v"]


async def test_a_view_can_be_registered() -> None:
    setup, view_id = await _with_view()
    replaced_view = await _replace(setup.a, "select 2")
    await _drop(setup.a)
    request = RegisterViewRequest(name="back", metadata_location=str(replaced_view.location))
    caller = setup.b.caller("registerView")
    registered_view = await setup.b.iceberg.views.register("default", NS, request, caller)
    assert (registered_view.location, registered_view.metadata["view-uuid"]) == (
        replaced_view.location,
        view_id,
    )
    assert _text(await _load(setup.a, "back")) == "select 2"


@pytest.mark.parametrize("operation", ["create", "replace", "drop"])
async def test_a_request_that_landed_before_a_crash_is_answered_as_a_success(
    operation: str,
) -> None:
    setup, view_id = await _with_view()
    if operation == "create":
        work = _create(setup.a, "w", key="k")
        await dies_at_the_compactor(setup, setup.a, work, arrives=True)
        repeated_result = await _create(setup.b, "w", key="k")
        assert repeated_result.location == (await _load(setup.b, "w")).location
        return
    setup.a.connection.die("create", pointer_key(view_id, 1), after=True)
    if operation == "replace":
        await dies(setup.a, _replace(setup.a, "select 2", key="k"))
        assert _text(await _replace(setup.b, "select 2", key="k")) == "select 2"
    else:
        await dies(setup.a, _drop(setup.a, key="k"))
        await _drop(setup.b, key="k")
    assert len(await setup.chain(view_id)) == 2


async def test_a_view_that_is_wrong_is_a_bad_request() -> None:
    setup = await begun()
    twice = version(sql("select 1", "trino"), sql("select 2", "trino"))
    invalid = await refusal(_create(setup.a, view_version=twice))
    assert (invalid.status, invalid.kind) == (400, "IllegalArgumentException")
    assert "Cannot add multiple queries for dialect trino" in invalid.message
    assert await _names(setup.b) == []
