"""Idempotency keys over HTTP (figure 30): the same request is answered the same, another is refused."""

from uuid import uuid4

import httpx2
import pytest


def _key() -> dict[str, str]:
    return {"Idempotency-Key": f"key {uuid4()}"}


def test_a_repeated_create_is_answered_the_same_and_made_once(
    http: httpx2.Client, schema: str
) -> None:
    key = _key()
    body = {"name": "once", "format": "PARQUET", "properties": {"a": "1", "b": "2"}}
    first = http.post(f"{schema}/tables", json=body, headers=key)
    turned = {**body, "properties": {"b": "2", "a": "1"}, "tags": []}
    for same in (body, turned):
        repeated = http.post(f"{schema}/tables", json=same, headers=key)
        assert (repeated.status_code, repeated.content) == (201, first.content)
        for name in ("etag", "location", "content-type"):
            assert repeated.headers[name] == first.headers[name]
    assert len(http.get(f"{schema}/tables").json()["items"]) == 1


def test_a_key_that_was_used_for_another_request_is_422(http: httpx2.Client, schema: str) -> None:
    key = _key()
    http.post(f"{schema}/tables", json={"name": "a", "format": "CSV"}, headers=key)
    other = http.post(f"{schema}/tables", json={"name": "b", "format": "CSV"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert http.get(f"{schema}/tables/b").status_code == 404


def test_a_refusal_is_repeated_though_the_reason_for_it_is_gone(
    http: httpx2.Client, table: str
) -> None:
    key, tables = _key(), table.rpartition("/")[0]
    body = {"name": "orders", "format": "CSV"}
    first = http.post(tables, json=body, headers=key)
    assert (first.status_code, first.headers["content-type"]) == (409, "application/problem+json")
    http.delete(table)
    repeated = http.post(tables, json=body, headers=key)
    assert (repeated.status_code, repeated.content) == (409, first.content)
    assert repeated.headers["content-type"] == "application/problem+json"


def test_every_change_takes_a_key(http: httpx2.Client, table: str) -> None:
    born = http.get(table).json()
    by_id = f"/api/v1/objects/{born['id']}/undrop"
    schema = table.partition("/tables")[0]
    catalog = schema.partition("/schemas")[0]
    column = {"name": "more", "data_type": "int"}
    calls: list[tuple[str, str, object]] = [
        ("PATCH", catalog, {"comment": "c"}),
        ("PATCH", schema, {"comment": "s"}),
        ("PATCH", table, {"comment": "t"}),
        ("POST", f"{table}/columns", column),
        ("PATCH", f"{table}/columns/more", {"comment": "m"}),
        ("DELETE", f"{table}/columns/more", None),
        ("DELETE", table, None),
        ("POST", by_id, {}),
        ("DELETE", table, None),
        ("DELETE", schema, None),
        ("DELETE", catalog, None),
    ]
    for method, url, body in calls:
        key = _key()
        answers = [
            http.request(method, url, json=body, headers=key)
            if body is not None
            else http.request(method, url, headers=key)
            for _ in range(2)
        ]
        assert answers[0].is_success, (method, url, answers[0].text)
        assert answers[0].content == answers[1].content
        assert answers[0].headers["etag"] == answers[1].headers["etag"]
    assert http.get(catalog).status_code == 404


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"a\tb", b"\x85"])
def test_a_key_that_is_no_key_is_400(http: httpx2.Client, key: bytes) -> None:
    answer = http.post("/api/v1/catalogs", json={"name": "k"}, headers={b"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_two_keys_in_one_request_are_400(http: httpx2.Client) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    answer = http.post("/api/v1/catalogs", json={"name": "k"}, headers=headers)
    assert answer.status_code == 400
    assert http.get("/api/v1/catalogs/k").status_code == 404
