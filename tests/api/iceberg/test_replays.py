"""Every change over HTTP, sent again with its key: it happens once, and is answered alike."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx2
import pytest

from tests.api.iceberg.warehouse import SCHEMA, VERSION, Json, Warehouse, refusal

Case = tuple[str, str, Json | None, Json | None]  # method, URL, body, and one that is another

SALES: Json = {"updates": [{"action": "set-properties", "updates": {"team": "sales"}}]}
STOCK: Json = {"updates": [{"action": "set-properties", "updates": {"team": "stock"}}]}


def _identifier(name: str) -> Json:
    return {"namespace": ["db"], "name": name}


def _rename(name: str) -> Json:
    return {"source": _identifier("t"), "destination": _identifier(name)}


def _table(on: Warehouse) -> None:
    on.make_table("t")


def _view(on: Warehouse) -> None:
    on.make_view("t")


def _create_namespace(on: Warehouse) -> Case:
    body: Json = {"namespace": ["x"], "properties": {"a": "1"}}
    return "POST", on.url("namespaces"), body, {**body, "properties": {"a": "2"}}


def _drop_namespace(on: Warehouse) -> Case:
    on.make_namespace("x")
    return "DELETE", on.url("namespaces", "x"), None, None


def _update_namespace(on: Warehouse) -> Case:
    body: Json = {"updates": {"a": "1"}, "removals": ["b"]}
    return "POST", on.url("namespaces", "db", "properties"), body, {"updates": {"a": "2"}}


def _create_table(on: Warehouse) -> Case:
    body: Json = {"name": "x", "schema": SCHEMA}
    other = {**body, "properties": {"a": "1"}}
    return "POST", on.url("namespaces", "db", "tables"), body, other


def _commit(on: Warehouse) -> Case:
    _table(on)
    return "POST", on.table("t"), SALES, STOCK


def _transact(on: Warehouse) -> Case:
    _table(on)
    on.make_table("u")
    body, other = (
        {"table-changes": [{"identifier": _identifier(name), **change} for name in ("t", "u")]}
        for change in (SALES, STOCK)
    )
    return "POST", on.url("transactions", "commit"), body, other


def _rename_table(on: Warehouse) -> Case:
    _table(on)
    return "POST", on.url("tables", "rename"), _rename("x"), _rename("y")


def _drop_table(on: Warehouse) -> Case:
    _table(on)
    return "DELETE", on.table("t"), None, None


def _unregister(on: Warehouse) -> Case:
    _table(on)
    return "POST", on.table("t") + "/unregister", None, None


def _register(on: Warehouse) -> Case:
    _table(on)
    place = on.http.post(on.table("t") + "/unregister").json()["metadata-location"]
    body: Json = {"name": "x", "metadata-location": place}
    return "POST", on.url("namespaces", "db", "register"), body, {**body, "name": "y"}


def _create_view(on: Warehouse) -> Case:
    body: Json = {"name": "x", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
    return "POST", on.url("namespaces", "db", "views"), body, {**body, "name": "y"}


def _replace_view(on: Warehouse) -> Case:
    _view(on)
    return "POST", on.view("t"), SALES, STOCK


def _rename_view(on: Warehouse) -> Case:
    _view(on)
    return "POST", on.url("views", "rename"), _rename("x"), _rename("y")


def _drop_view(on: Warehouse) -> Case:
    _view(on)
    return "DELETE", on.view("t"), None, None


def _register_view(on: Warehouse) -> Case:
    place = on.make_view("t").json()["metadata-location"]
    assert on.http.delete(on.view("t")).status_code == 204
    body: Json = {"name": "x", "metadata-location": place}
    return "POST", on.url("namespaces", "db", "register-view"), body, {**body, "name": "y"}


CASES: list[Callable[[Warehouse], Case]] = [
    *(_create_namespace, _drop_namespace, _update_namespace),
    *(_create_table, _commit, _transact, _rename_table, _drop_table, _unregister, _register),
    *(_create_view, _replace_view, _rename_view, _drop_view, _register_view),
]


def _send(on: Warehouse, case: Case, key: str) -> httpx2.Response:
    method, url, body, _ = case
    return on.http.request(method, url, json=body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize("prepare", CASES, ids=lambda each: each.__name__.strip("_"))
def test_a_change_that_is_sent_again_is_answered_alike(
    warehouse: Warehouse, prepare: Callable[[Warehouse], Case]
) -> None:
    case, key = prepare(warehouse), str(uuid4())
    first = _send(warehouse, case, key)
    assert first.is_success, first.text
    for _ in range(2):
        again = _send(warehouse, case, key)
        assert (again.status_code, again.content) == (first.status_code, first.content)
    # The same without the key is another change, which can no longer be made, or changes nothing.
    assert warehouse.http.request(case[0], case[1], json=case[2]).status_code in {
        200,
        204,
        404,
        409,
    }
    assert _send(warehouse, case, key).content == first.content


@pytest.mark.parametrize("prepare", CASES, ids=lambda each: each.__name__.strip("_"))
def test_a_key_belongs_to_one_request(
    warehouse: Warehouse, prepare: Callable[[Warehouse], Case]
) -> None:
    case, key = prepare(warehouse), str(uuid4())
    assert _send(warehouse, case, key).is_success
    method, url, _, other = case
    others: list[Case] = [("POST", warehouse.url("namespaces"), {"namespace": ["y"]}, None)]
    if other is not None:
        others.append((method, url, other, None))
    for each in others:
        told = refusal(_send(warehouse, each, key))
        assert told == (422, "UnprocessableEntityException")
    assert warehouse.http.head(warehouse.url("namespaces", "y")).status_code == 404


def test_commits_of_many_clients_all_land_and_none_is_a_conflict(warehouse: Warehouse) -> None:
    warehouse.make_table("t")
    clients, commits = 32, 3

    def work(client: int) -> list[int]:
        answers = []
        for number in range(commits):
            keys = {"Idempotency-Key": str(uuid4())} if client % 2 else {}
            update = {"action": "set-properties", "updates": {f"{client}-{number}": "1"}}
            body = {"requirements": [], "updates": [update]}
            answer = warehouse.http.post(warehouse.table("t"), json=body, headers=keys)
            answers.append(answer.status_code)
        return answers

    with ThreadPoolExecutor(clients) as pool:
        statuses = [status for each in pool.map(work, range(clients)) for status in each]
    assert set(statuses) == {200}
    kept = warehouse.http.get(warehouse.table("t")).json()["metadata"]["properties"]
    assert {f"{c}-{n}" for c in range(clients) for n in range(commits)} <= set(kept)
