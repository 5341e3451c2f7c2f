"""Idempotency keys: a change that is sent again happens once, and is answered alike."""

import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx2
import pytest

from arco.api.http.request import engine_of
from arco.api.iceberg.context import key_of
from arco.core.hashing import sha256_hex
from tests.api.iceberg.warehouse import SCHEMA, VERSION, Json, Warehouse, refusal

JSON = {"Content-Type": "application/json"}

A_UUID = "9301643c-af0a-405c-9927-1f65bb3265d4"


@pytest.mark.parametrize(
    "key",
    [
        "ba8e6016-e13e-11f1-afea-02fc00000001",
        A_UUID,
        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    ],
)
def test_a_key_is_a_uuid_of_any_version_in_one_spelling(key: str) -> None:
    assert key_of(key) == key.lower()


@pytest.mark.parametrize(
    "key", ["", "x", A_UUID.replace("-", ""), f"{{{A_UUID}}}", f"{A_UUID}x", "ü" * 36]
)
def test_what_is_no_uuid_is_400_and_does_nothing(warehouse: Warehouse, key: str) -> None:
    answer = warehouse.http.post(
        warehouse.url("namespaces"),
        json={"namespace": ["keyed"]},
        headers={b"Idempotency-Key": key.encode()},
    )
    assert refusal(answer) == (400, "BadRequestException")
    assert warehouse.http.head(warehouse.url("namespaces", "keyed")).status_code == 404


def test_a_request_that_is_repeated_with_its_key_is_carried_out_once(warehouse: Warehouse) -> None:
    url, body = warehouse.url("namespaces", "db", "tables"), {"name": "once", "schema": SCHEMA}
    key = str(uuid4())
    answers = [
        warehouse.http.post(url, json=body, headers={"Idempotency-Key": each})
        for each in (key, key.upper(), key)
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert len({answer.json()["metadata"]["table-uuid"] for answer in answers}) == 1
    without = warehouse.http.post(url, json=body)
    assert refusal(without) == (409, "AlreadyExistsException")


def test_a_refusal_is_repeated_too(warehouse: Warehouse) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    url, body = warehouse.url("namespaces", "db", "tables"), {"name": "twice", "schema": SCHEMA}
    warehouse.make_table("twice")
    assert warehouse.http.post(url, json=body, headers=key).status_code == 409
    assert warehouse.http.delete(warehouse.table("twice")).status_code == 204
    assert warehouse.http.post(url, json=body, headers=key).status_code == 409


def test_a_key_that_comes_back_with_another_request_is_422(warehouse: Warehouse) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    first = warehouse.http.post(
        warehouse.url("namespaces"), json={"namespace": ["one"]}, headers=key
    )
    assert first.status_code == 200
    for method, url, body in (
        ("POST", warehouse.url("namespaces"), {"namespace": ["two"]}),
        ("POST", warehouse.url("namespaces", "db", "tables"), {"name": "t", "schema": SCHEMA}),
        ("DELETE", warehouse.url("namespaces", "one"), None),
    ):
        answer = warehouse.http.request(method, url, json=body, headers=key)
        assert refusal(answer) == (422, "UnprocessableEntityException")
    assert warehouse.http.head(warehouse.url("namespaces", "one")).status_code == 204


def test_a_view_may_be_made_under_a_key_as_well(warehouse: Warehouse) -> None:
    made = warehouse.make_view("plain").json()["metadata"]
    body = {
        "name": "keyed",
        "schema": made["schemas"][0],
        "view-version": made["versions"][0],
        "properties": {},
    }
    url, key = warehouse.url("namespaces", "db", "views"), {"Idempotency-Key": str(uuid4())}
    answers = [warehouse.http.post(url, json=body, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize(
    ("header", "engine"),
    [
        (None, None),
        (b"", None),
        (b"  ", None),
        (b"Spark/4.1 (x)", "Spark/4.1 (x)"),
        (b"a\tb", "ab"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_the_engine_is_what_a_client_calls_itself_in_bounds(
    header: bytes | None, engine: str | None
) -> None:
    assert engine_of(header) == engine


def test_a_body_may_come_compressed(warehouse: Warehouse) -> None:
    body = {"namespace": ["packed"], "properties": {"long": "x" * 3_000}}
    url, headers = warehouse.url("namespaces"), {**JSON, "Content-Encoding": "gzip"}
    packed = gzip.compress(json.dumps(body).encode())
    assert warehouse.http.post(url, content=packed, headers=headers).status_code == 200
    assert warehouse.http.get(warehouse.url("namespaces", "packed")).json() == body


def test_a_large_body_may_come_compressed(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    words = {f"k{number}": sha256_hex(b"%d" % number) for number in range(3_000)}
    update = {"action": "set-properties", "updates": words}
    packed = gzip.compress(json.dumps({"requirements": [], "updates": [update]}).encode())
    assert len(packed) > 64 * 1024
    headers = {**JSON, "Content-Encoding": "gzip"}
    answer = warehouse.http.post(warehouse.table("orders"), content=packed, headers=headers)
    assert answer.status_code == 200, answer.text[:300]
    assert answer.json()["metadata"]["properties"].items() >= words.items()


def test_a_body_that_inflates_beyond_the_limit_is_413(warehouse: Warehouse) -> None:
    bomb = gzip.compress(b" " * (65 * 1024 * 1024))
    headers = {**JSON, "Content-Encoding": "gzip"}
    answer = warehouse.http.post(warehouse.url("namespaces"), content=bomb, headers=headers)
    assert refusal(answer) == (413, "ContentTooLargeException")


@pytest.mark.parametrize(
    "cut", [lambda packed: packed[:-4], lambda packed: packed + b"x", lambda _: b"x"]
)
def test_a_body_that_is_not_one_gzip_stream_is_400(warehouse: Warehouse, cut: object) -> None:
    packed = gzip.compress(b'{"namespace":["broken"]}')
    headers = {**JSON, "Content-Encoding": "gzip"}
    content = cut(packed)  # type: ignore[operator]
    answer = warehouse.http.post(warehouse.url("namespaces"), content=content, headers=headers)
    assert refusal(answer) == (400, "BadRequestException")


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
def test_another_compression_is_415(warehouse: Warehouse, encoding: str) -> None:
    headers = {**JSON, "Content-Encoding": encoding}
    answer = warehouse.http.post(warehouse.url("namespaces"), content=b"x", headers=headers)
    assert refusal(answer) == (415, "UnsupportedMediaTypeException")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"namespace":"db"}', b"[" * 100_000, b"\xff"])
def test_a_body_of_another_shape_is_400(warehouse: Warehouse, body: bytes) -> None:
    for url in (
        warehouse.url("namespaces"),
        warehouse.url("namespaces", "db", "tables"),
        warehouse.url("transactions", "commit"),
        warehouse.url("tables", "rename"),
    ):
        answer = warehouse.http.post(url, content=body, headers=JSON)
        assert refusal(answer) == (400, "BadRequestException")
        assert len(answer.content) < 1_000


def test_a_body_larger_than_the_native_limit_is_read(warehouse: Warehouse) -> None:
    body = json.dumps({"namespace": ["wide"], "unknown": "x" * (2 * 1024 * 1024)}).encode()
    answer = warehouse.http.post(warehouse.url("namespaces"), content=body, headers=JSON)
    assert answer.status_code == 200


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
        repeated = _send(warehouse, case, key)
        assert (repeated.status_code, repeated.content) == (first.status_code, first.content)
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
        document = refusal(_send(warehouse, each, key))
        assert document == (422, "UnprocessableEntityException")
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
