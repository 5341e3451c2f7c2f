"""Tables that the catalog still lists although they are gone: no read shows them (P31).

They are left behind by a process that has ended between the two steps of a drop.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from arco.catalog.unresolved_names import UnresolvedNames
from arco.core.runtime import system_runtime
from arco.core.scope import Scope
from arco.iceberg.pointer import Pointers, pointer_of
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.server import served
from tests.iceberg.lake import Lake, make_lake, names

DropWithoutRelease = Callable[[str], None]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dead") / "store"


@pytest.fixture(scope="module")
def http(root: Path) -> Iterator[httpx2.Client]:
    with served(root) as running, running.client() as client:
        yield client


@pytest.fixture
def lake(http: httpx2.Client) -> Lake:
    return make_lake(http)


@pytest.fixture
def drop_without_release(root: Path) -> DropWithoutRelease:
    """Drop a table as a process does that ends before it has released the name."""

    async def drop(table_id: str) -> None:
        runtime = system_runtime()
        backend = LocalBackend(root, runtime, fsync=False)
        store = Store(backend, runtime, scope=Scope(), role=Role.API)

        async def is_unresolved(_id: str, _old: bool) -> bool:
            return True

        await UnresolvedNames(store).add([table_id], is_unresolved)
        chain = Pointers(store).chain(table_id)
        head = await chain.head()
        assert head.entry is not None
        tombstone = msgspec.structs.replace(pointer_of(head.entry), operation="drop")
        await chain.append(head, tombstone, tombstone=True)

    return lambda table_id: asyncio.run(drop(table_id))


def test_a_dead_name_is_in_no_list_though_the_list_was_kept(
    lake: Lake, drop_without_release: DropWithoutRelease
) -> None:
    made = lake.make_natively("orders")
    lake.make_natively("other")
    first = lake.http.get(f"{lake.schema}/tables")
    assert names(first.json()["items"]) == ["orders", "other"]
    drop_without_release(made["id"])
    headers = {"If-None-Match": first.headers["etag"]}
    answer = lake.http.get(f"{lake.schema}/tables", headers=headers)
    assert answer.status_code == 200
    assert names(answer.json()["items"]) == ["other"]
    assert lake.identifiers() == {"other"}


@pytest.mark.parametrize("kept", [True, False])
def test_a_dead_name_is_404_though_the_reply_was_kept(
    lake: Lake, drop_without_release: DropWithoutRelease, *, kept: bool
) -> None:
    made = lake.make_natively("orders")
    urls = [
        lake.native("orders"),
        f"{lake.native('orders')}/schema-history",
        f"/api/v1/objects/{made['id']}",
    ]
    if kept:
        assert [lake.http.get(url).status_code for url in urls] == [200, 200, 200]
    drop_without_release(made["id"])
    assert [lake.http.get(url).status_code for url in urls] == [404, 404, 404]


def test_the_past_stays_as_it_was(lake: Lake, drop_without_release: DropWithoutRelease) -> None:
    made = lake.make_natively("orders")
    lake.make_natively("newer")
    drop_without_release(made["id"])
    past = {"as_of": str(made["commit"])}
    assert lake.http.get(lake.native("orders"), params=past).status_code == 200
    listed = lake.http.get(f"{lake.schema}/tables", params=past).json()["items"]
    assert names(listed) == ["orders"]
    # The newest state is no past, so what is buried is gone from it. Others may commit meanwhile.
    for attempt in range(10):
        newest = {"as_of": str(lake.make_natively(f"newer_{attempt}")["commit"])}
        listed = lake.http.get(f"{lake.schema}/tables", params=newest).json()["items"]
        if "orders" not in names(listed):
            break
    assert names(listed) == ["newer", *(f"newer_{number}" for number in range(attempt + 1))]


def test_a_dead_table_is_not_changed(lake: Lake, drop_without_release: DropWithoutRelease) -> None:
    for number, body in enumerate(({"comment": "c"}, {"name": "x"}, {"tags": []})):
        made = lake.make_natively(f"t{number}")
        drop_without_release(made["id"])
        answer = lake.http.patch(lake.native(f"t{number}"), json=body)
        assert answer.status_code == 404, body
    made = lake.make_natively("last")
    drop_without_release(made["id"])
    url = f"{lake.native('last')}/columns"
    assert lake.http.post(url, json={"name": "a", "data_type": "int"}).status_code == 404
    made = lake.make_natively("marked")
    drop_without_release(made["id"])
    mark = lake.http.patch(f"{lake.native('marked')}/columns/id", json={"pii_type": "x"})
    assert mark.status_code == 404


@pytest.mark.parametrize("table_format", ["ICEBERG", "CSV"])
def test_a_dead_name_is_free(
    lake: Lake, drop_without_release: DropWithoutRelease, table_format: str
) -> None:
    drop_without_release(lake.make_natively("orders")["id"])
    wish = {"name": "orders", "format": table_format}
    assert lake.http.post(f"{lake.schema}/tables", json=wish).status_code == 201
    drop_without_release(lake.make_natively("target")["id"])
    renamed = lake.http.patch(lake.native("orders"), json={"name": "target"})
    assert renamed.status_code == 200, renamed.text
    dropped_id = renamed.json()["id"]
    assert lake.http.delete(lake.native("target")).status_code == 204
    drop_without_release(lake.make_natively("target")["id"])
    back = lake.http.post(f"/api/v1/objects/{dropped_id}/undrop", json={})
    assert back.status_code == 200, back.text
    assert lake.shown("target")["id"] == dropped_id


def test_a_schema_that_holds_only_dead_names_is_empty(
    lake: Lake, drop_without_release: DropWithoutRelease
) -> None:
    lake.make_natively("live")
    drop_without_release(lake.make_natively("dead")["id"])
    assert lake.http.delete(lake.schema).status_code == 409
    lake.http.delete(lake.native("live"))
    drop_without_release(lake.make_natively("another")["id"])
    assert lake.http.delete(lake.schema).status_code == 204


def test_a_dead_view_is_in_no_list(lake: Lake, drop_without_release: DropWithoutRelease) -> None:
    lake.make_view_by_rest("short")
    lake.make_view_by_rest("long")
    assert lake.listed("views") == {"short", "long"}
    drop_without_release(lake.shown("short")["id"])
    assert lake.listed("views") == {"long"}
    assert lake.http.get(lake.native("short", "views")).status_code == 404
