"""Whatever clients write in their own ways: nulls for what is not there, old names, odd encodings."""

import gzip
from typing import Any

import pytest

from tests.api.iceberg.warehouse import SCHEMA, VERSION, Json, Warehouse, refusal

SET: Json = {"action": "set-properties", "updates": {"team": "sales"}}


def _properties(warehouse: Warehouse, table: str = "orders") -> dict[str, str]:
    actual: dict[str, str] = warehouse.http.get(warehouse.table(table)).json()["metadata"][
        "properties"
    ]
    return actual


def test_a_namespace_may_have_null_for_properties(warehouse: Warehouse) -> None:
    body = {"namespace": ["raw"], "properties": None}
    made = warehouse.http.post(warehouse.url("namespaces"), json=body)
    assert (made.status_code, made.json()) == (200, {"namespace": ["raw"], "properties": {}})


@pytest.mark.parametrize(
    ("body", "document"),
    [
        ({"updates": None, "removals": None}, {"updated": [], "removed": [], "missing": []}),
        ({"updates": {"a": "1"}, "removals": None}, {"updated": ["a"]}),
        ({"updates": None, "removals": ["b"]}, {"missing": ["b"]}),
        ({}, {"updated": [], "removed": [], "missing": []}),
    ],
)
def test_updates_and_removals_of_properties_may_be_null(
    warehouse: Warehouse, body: Json, document: Json
) -> None:
    answer = warehouse.http.post(warehouse.url("namespaces", "db", "properties"), json=body)
    assert answer.status_code == 200
    assert document.items() <= answer.json().items()


def test_all_that_a_new_table_can_do_without_may_be_null_or_unknown(warehouse: Warehouse) -> None:
    nothing = ("location", "partition-spec", "write-order", "stage-create", "properties")
    schema = {**SCHEMA, "schema-id": None, "identifier-field-ids": None}
    body = {"name": "orders", "schema": schema, **dict.fromkeys(nothing), "from-the-future": [1]}
    made = warehouse.http.post(warehouse.url("namespaces", "db", "tables"), json=body)
    assert made.status_code == 200, made.text


@pytest.mark.parametrize(
    "body",
    [
        {"identifier": None, "requirements": None, "updates": [SET]},
        {"updates": [SET]},
        {"identifier": {"namespace": ["db"], "name": "orders"}, "updates": [SET]},
        {
            "requirements": [],
            "updates": [{"action": "set-properties", "updated": {"team": "sales"}}],
        },
        {"requirements": [], "updates": [SET], "from-the-future": {"a": None}},
    ],
)
def test_a_commit_is_read_however_it_is_written(warehouse: Warehouse, body: Json) -> None:
    warehouse.make_table("orders")
    answer = warehouse.http.post(warehouse.table("orders"), json=body)
    assert answer.status_code == 200, answer.text
    assert _properties(warehouse)["team"] == "sales"
    removal = {"action": "remove-properties", "removed": ["team"]}
    answer = warehouse.http.post(warehouse.table("orders"), json={"updates": [removal]})
    assert "team" not in answer.json()["metadata"]["properties"]


def test_a_commit_of_nulls_changes_nothing(warehouse: Warehouse) -> None:
    made = warehouse.make_table("orders").json()
    body = {"requirements": None, "updates": None}
    answer = warehouse.http.post(warehouse.table("orders"), json=body)
    assert answer.status_code == 200
    assert answer.json()["metadata-location"] == made["metadata-location"]


def test_changes_of_a_transaction_may_have_nulls(warehouse: Warehouse) -> None:
    changes = []
    for name in ("a", "b"):
        warehouse.make_table(name)
        identifier = {"namespace": ["db"], "name": name}
        changes.append({"identifier": identifier, "requirements": None, "updates": [SET]})
    url = warehouse.url("transactions", "commit")
    assert warehouse.http.post(url, json={"table-changes": changes}).status_code == 204
    assert [_properties(warehouse, name)["team"] for name in ("a", "b")] == ["sales", "sales"]


def test_a_view_and_its_commits_may_have_nulls(warehouse: Warehouse) -> None:
    version = {**VERSION, "default-catalog": None}
    body = {
        "name": "v",
        "schema": SCHEMA,
        "view-version": version,
        "properties": None,
        "location": None,
    }
    made = warehouse.http.post(warehouse.url("namespaces", "db", "views"), json=body)
    assert made.status_code == 200, made.text
    answer = warehouse.http.post(warehouse.view("v"), json={"requirements": None, "updates": [SET]})
    assert answer.json()["metadata"]["properties"] == {"team": "sales"}


def test_a_null_that_means_something_is_still_refused(warehouse: Warehouse) -> None:
    tables = warehouse.url("namespaces", "db", "tables")
    for body in ({"name": None, "schema": SCHEMA}, {"name": "t", "schema": None}):
        assert refusal(warehouse.http.post(tables, json=body)) == (400, "BadRequestException")
    warehouse.make_table("t")
    for updates in ([None], [{"action": None}], {"a": None}):
        answer = warehouse.http.post(warehouse.table("t"), json={"updates": updates})
        assert refusal(answer) == (400, "BadRequestException")


def test_a_snapshot_with_statistics_may_have_null_wherever_it_is_optional(
    warehouse: Warehouse,
) -> None:
    made = warehouse.make_table("orders").json()["metadata"]
    place, now_ms = made["location"], made["last-updated-ms"]
    optional = ("parent-snapshot-id", "schema-id", "first-row-id", "added-rows", "key-id")
    snapshot: Json = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": now_ms,
        "manifest-list": f"{place}/metadata/snap-1.avro",
        "summary": {"operation": "append"},
        **dict.fromkeys(optional),
    }
    limits = ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")
    branch = {"ref-name": "main", "type": "branch", "snapshot-id": 1, **dict.fromkeys(limits)}
    blob = {"type": "x", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": None}
    statistics: Json = {
        "snapshot-id": 1,
        "statistics-path": f"{place}/metadata/1.puffin",
        "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 3,
        "blob-metadata": [blob],
    }
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", **branch},
        {"action": "set-statistics", "snapshot-id": 1, "statistics": statistics},
    ]
    body = {"requirements": [requirement], "updates": updates}
    done = warehouse.http.post(warehouse.table("orders"), json=body)
    assert done.status_code == 200, done.text
    metadata = done.json()["metadata"]
    # Readers take a null for a wrong value, so none is kept.
    assert None not in metadata["snapshots"][0].values()
    assert metadata["refs"] == {"main": {"type": "branch", "snapshot-id": 1}}
    [kept] = metadata["statistics"][0]["blob-metadata"]
    assert "properties" not in kept


@pytest.mark.parametrize(
    "key", ["9301643c-af0a-405c-9927-1f65bb3265d4", "01970000-0000-7000-8000-0123456789ab"]
)
def test_a_key_of_any_version_counts_in_either_case(warehouse: Warehouse, key: Any) -> None:
    tables = warehouse.url("namespaces", "db", "tables")
    body = {"name": "orders", "schema": SCHEMA}
    first, second = (
        warehouse.http.post(tables, json=body, headers={"Idempotency-Key": spelled})
        for spelled in (str(key), str(key).upper())
    )
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content


def test_a_body_may_be_compressed_and_have_its_charset_named(warehouse: Warehouse) -> None:
    headers = {"Content-Type": "application/json; charset=UTF-8", "Content-Encoding": "gzip"}
    packed = gzip.compress(b'{"namespace": ["packed"], "properties": null}')
    url = warehouse.url("namespaces")
    assert warehouse.http.post(url, content=packed, headers=headers).status_code == 200


def test_an_unregister_takes_a_body_or_none(warehouse: Warehouse) -> None:
    for name, body in (("a", b""), ("b", b"{}"), ("c", b"null")):
        warehouse.make_table(name)
        headers = {"Content-Type": "application/json"} if body else {}
        url = warehouse.table(name) + "/unregister"
        assert warehouse.http.post(url, content=body, headers=headers).status_code == 200
