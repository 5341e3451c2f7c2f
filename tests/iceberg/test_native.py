"""Iceberg tables under both APIs: made, changed and dropped through either, seen through both."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.api.server import Served, served
from tests.iceberg.lake import Json, Lake, key, make_lake, names


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("native") / "store") as running:
        yield running


@pytest.fixture(scope="module")
def http(api: Served) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


@pytest.fixture
def lake(http: httpx2.Client) -> Lake:
    return make_lake(http)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the code of a problem document."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


def test_a_table_made_natively_is_an_iceberg_table_with_its_marks(lake: Lake) -> None:
    fields = {
        "comment": "orders",
        "properties": {"team": "x"},
        "tags": ["gold"],
        "owner": "user:eve",
    }
    response = lake.make_natively("orders", **fields)
    metadata = lake.loaded("orders")
    assert metadata["table-uuid"] == response["id"]
    assert metadata["location"].endswith(f"/warehouse/{response['id']}")
    assert response["location"] == f"warehouse/{response['id']}/"
    assert metadata["properties"]["comment"] == "orders"
    assert [(f["id"], f["name"], f["type"], f["required"]) for f in lake.fields("orders")] == [
        (1, "id", "long", True),
        (2, "email", "string", False),
    ]
    assert lake.shown("orders") == response
    assert {name: response[name] for name in fields} == fields
    assert response["columns"][1]["pii_type"] == "email"
    assert response["columns"][1]["sensitivity"] == "CONFIDENTIAL"
    assert response["pii_columns"] == ["email"]
    assert (response["format"], response["table_type"]) == ("ICEBERG", "MANAGED")
    assert response["created_by"] == "user:local"


def test_a_create_answers_with_its_place_and_version(lake: Lake) -> None:
    wish = {"name": "orders", "format": "ICEBERG"}
    response = lake.http.post(f"{lake.schema}/tables", json=wish)
    assert response.headers["location"] == lake.native("orders")
    assert response.headers["etag"] == lake.http.get(lake.native("orders")).headers["etag"]
    repeated_response = lake.http.post(f"{lake.schema}/tables", json=wish)
    assert problem(repeated_response) == (409, "already_exists")


def test_a_table_made_by_an_engine_is_there_natively(lake: Lake) -> None:
    lake.make_by_rest("events")
    shown = lake.shown("events")
    assert names(shown["columns"]) == ["id", "note"]
    assert (shown["kind"], shown["format"]) == ("TABLE", "ICEBERG")
    assert lake.listed() == lake.identifiers() == {"events"}


@pytest.mark.parametrize("wish", [{"columns": [{"name": "a", "data_type": "interval"}]}])
def test_what_iceberg_cannot_hold_is_400(lake: Lake, wish: Json) -> None:
    body = {"name": "odd", "format": "ICEBERG", **wish}
    answer = lake.http.post(f"{lake.schema}/tables", json=body)
    assert problem(answer) == (400, "invalid")
    assert lake.listed() == set()


@pytest.mark.parametrize(
    "bad_fields",
    [
        {"properties": {"arco.x": "1"}},
        {"tags": ["x" * 300]},
        {"location": "s3://elsewhere/orders"},
        {"columns": [{"name": "a", "data_type": "int", "pii_type": "x" * 5_000}]},
        {"columns": [{"name": "a", "data_type": "int"}, {"name": "a", "data_type": "int"}]},
    ],
)
def test_a_wrong_request_leaves_nothing_behind(lake: Lake, bad_fields: Json) -> None:
    body = {"name": "odd", "format": "ICEBERG", **bad_fields}
    answer = lake.http.post(f"{lake.schema}/tables", json=body)
    assert problem(answer) == (400, "invalid")
    assert lake.listed() == lake.identifiers() == set()


def test_a_default_value_makes_a_table_of_the_third_format_version(lake: Lake) -> None:
    columns = [{"name": "n", "data_type": "int", "default_value": "7"}]
    lake.make_natively("counted", columns=columns)
    assert lake.loaded("counted")["format-version"] == 3
    assert lake.fields("counted")[0]["write-default"] == 7
    assert lake.shown("counted")["columns"][0]["default_value"] == "7"


def test_a_missing_schema_is_404(lake: Lake) -> None:
    url = f"/api/v1/catalogs/{lake.name}/schemas/none/tables"
    answer = lake.http.post(url, json={"name": "orders", "format": "ICEBERG"})
    assert problem(answer) == (404, "not_found")


def test_columns_changed_natively_are_commits_that_engines_see(lake: Lake) -> None:
    lake.make_natively("orders")
    url = lake.native("orders")
    added = lake.http.post(
        f"{url}/columns",
        json={"columns": [{"name": "a", "data_type": "int"}, {"name": "b", "data_type": "date"}]},
    )
    assert added.status_code == 201, added.text
    assert names(added.json()["columns"]) == ["a", "b"]
    assert names(lake.fields("orders")) == ["id", "email", "a", "b"]
    assert names(lake.shown("orders")["columns"]) == ["id", "email", "a", "b"]

    changes = {"name": "count", "data_type": "bigint", "comment": "how many", "position": 0}
    changed = lake.http.patch(f"{url}/columns/a", json=changes)
    assert changed.status_code == 200, changed.text
    assert changed.json()["id"] == added.json()["columns"][0]["id"]
    assert (changed.json()["position"], changed.json()["data_type"]) == (0, "bigint")
    first = lake.fields("orders")[0]
    assert (first["id"], first["name"], first["type"]) == (3, "count", "long")
    assert first["doc"] == "how many"

    assert lake.http.delete(f"{url}/columns/b").status_code == 204
    assert names(lake.fields("orders")) == ["count", "id", "email"]
    assert names(lake.shown("orders")["columns"]) == ["count", "id", "email"]


def test_the_author_of_a_change_of_columns_is_reported(lake: Lake) -> None:
    lake.make_natively("orders")
    lake.http.post(f"{lake.native('orders')}/columns", json={"name": "a", "data_type": "int"})
    (newest, _) = lake.http.get(f"{lake.native('orders')}/schema-history").json()["items"]
    assert newest["changed_by"] == "user:local"
    assert newest["version"] == lake.shown("orders")["schema_version"] == 2


def test_a_required_column_and_a_narrower_type_are_400(lake: Lake) -> None:
    lake.make_natively("orders")
    url = f"{lake.native('orders')}/columns"
    required = {"name": "a", "data_type": "int", "nullable": False}
    assert problem(lake.http.post(url, json=required)) == (400, "invalid")
    narrower = lake.http.patch(f"{url}/id", json={"data_type": "int"})
    assert problem(narrower) == (400, "invalid")
    assert problem(lake.http.patch(f"{url}/none", json={"name": "x"})) == (404, "not_found")
    assert problem(lake.http.delete(f"{url}/none")) == (404, "not_found")
    assert names(lake.fields("orders")) == ["id", "email"]


def test_a_change_of_a_column_may_mix_what_is_icebergs_and_what_is_ours(lake: Lake) -> None:
    lake.make_natively("orders")
    url = f"{lake.native('orders')}/columns"
    body = {"name": "mail", "pii_type": None, "sensitivity": "RESTRICTED"}
    changed = lake.http.patch(f"{url}/email", json=body).json()
    result = (changed["name"], changed["pii_type"], changed["sensitivity"])
    assert result == ("mail", None, "RESTRICTED")
    shown = lake.shown("orders")
    assert shown["pii_columns"] == []
    assert shown["columns"][1] == changed
    new = {"name": "phone", "data_type": "string", "pii_type": "phone"}
    assert lake.http.post(url, json=new).json()["pii_type"] == "phone"
    assert lake.shown("orders")["pii_columns"] == ["phone"]


def test_a_mixed_change_with_a_wrong_part_changes_nothing(lake: Lake) -> None:
    lake.make_natively("orders")
    url = lake.native("orders")
    mixed = {"name": "mail", "pii_type": "x" * 5_000}
    assert problem(lake.http.patch(f"{url}/columns/email", json=mixed)) == (400, "invalid")
    renamed = {"name": "sales", "properties": {"arco.x": "1"}}
    assert problem(lake.http.patch(url, json=renamed)) == (400, "invalid")
    assert names(lake.fields("orders")) == ["id", "email"]


def test_what_is_the_catalogs_own_makes_no_commit(lake: Lake) -> None:
    lake.make_natively("orders")
    before = lake.http.get(lake.rest("orders")).json()["metadata-location"]
    url = lake.native("orders")
    fields = {"comment": "c", "owner": "user:eve", "tags": ["t"], "properties": {"a": "1"}}
    assert lake.http.patch(url, json=fields).status_code == 200
    marked = lake.http.patch(f"{url}/columns/id", json={"pii_type": "id"})
    assert marked.status_code == 200
    assert lake.http.get(lake.rest("orders")).json()["metadata-location"] == before
    shown = lake.shown("orders")
    assert {name: shown[name] for name in fields} == fields
    assert shown["pii_columns"] == ["id", "email"]


def test_owner_tags_and_marks_survive_commits_of_engines(lake: Lake) -> None:
    lake.make_natively("orders", owner="user:eve", tags=["gold"])
    schema = {
        "type": "struct",
        "fields": [
            {"id": 2, "name": "mail", "required": False, "type": "string"},
            {"id": 3, "name": "at", "required": False, "type": "date"},
        ],
    }
    lake.commit(
        "orders",
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
    )
    shown = _eventually(lake, "orders", ["mail", "at"])
    assert (shown["owner"], shown["tags"]) == ("user:eve", ["gold"])
    assert shown["columns"][0]["pii_type"] == "email"
    assert shown["pii_columns"] == ["mail"]


def _eventually(lake: Lake, table: str, columns: list[str]) -> Json:
    """The table once it shows these columns: those of engines are shown beside their answer."""
    for _ in range(200):
        shown = lake.shown(table)
        if names(shown["columns"]) == columns:
            return shown
        time.sleep(0.02)
    pytest.fail(f"{table} never showed {columns}: {names(shown['columns'])}")


def test_a_rename_and_a_move_are_seen_by_engines(lake: Lake) -> None:
    lake.make_natively("orders")
    url = f"/api/v1/catalogs/{lake.name}/schemas"
    assert lake.http.post(url, json={"name": "old"}).status_code == 201
    body = {"name": "sales", "schema": ["old"], "comment": "moved"}
    moved = lake.http.patch(lake.native("orders"), json=body)
    assert moved.status_code == 200, moved.text
    result = moved.json()
    assert (result["full_name"], result["comment"]) == (f"{lake.name}.old.sales", "moved")
    assert lake.http.get(f"/iceberg/v1/{lake.name}/namespaces/old/tables/sales").status_code == 200
    assert lake.http.get(lake.rest("orders")).status_code == 404
    assert lake.http.get(lake.native("orders")).status_code == 404


def test_a_rename_by_an_engine_is_seen_natively(lake: Lake) -> None:
    response = lake.make_natively("orders")
    body = {
        "source": {"namespace": ["db"], "name": "orders"},
        "destination": {"namespace": ["db"], "name": "sales"},
    }
    answer = lake.http.post(f"/iceberg/v1/{lake.name}/tables/rename", json=body)
    assert answer.status_code == 204, answer.text
    assert lake.shown("sales")["id"] == response["id"]
    assert lake.listed() == {"sales"}


def test_a_rename_to_a_name_that_is_taken_is_409(lake: Lake) -> None:
    lake.make_natively("orders")
    lake.make_by_rest("events")
    conflict = lake.http.patch(lake.native("orders"), json={"name": "events"})
    assert problem(conflict) == (409, "already_exists")
    none = lake.http.patch(lake.native("orders"), json={"schema": ["none"]})
    assert problem(none) == (404, "not_found")
    assert lake.listed() == {"orders", "events"}


def test_a_rename_to_the_same_name_only_describes(lake: Lake) -> None:
    lake.make_natively("orders")
    body = {"name": "orders", "schema": ["db"], "comment": "same"}
    result = lake.http.patch(lake.native("orders"), json=body)
    assert (result.status_code, result.json()["comment"]) == (200, "same")


def test_a_native_drop_ends_the_table_for_engines_and_undrop_brings_it_back(lake: Lake) -> None:
    response = lake.make_natively("orders", tags=["gold"])
    assert lake.http.delete(lake.native("orders")).status_code == 204
    assert lake.http.get(lake.rest("orders")).status_code == 404
    assert lake.http.get(lake.native("orders")).status_code == 404
    dropped = lake.http.get(f"{lake.schema}/tables?dropped=true").json()["items"]
    assert [(each["id"], each["updated_by"]) for each in dropped] == [
        (response["id"], "user:local")
    ]

    back = lake.http.post(f"/api/v1/objects/{response['id']}/undrop", json={"name": "again"})
    assert back.status_code == 200, back.text
    result = back.json()
    assert (result["id"], result["name"], result["tags"]) == (response["id"], "again", ["gold"])
    assert result["columns"][1]["pii_type"] == "email"
    assert lake.loaded("again")["table-uuid"] == response["id"]
    added = lake.http.post(
        f"{lake.native('again')}/columns", json={"name": "a", "data_type": "int"}
    )
    assert added.status_code == 201, added.text


def test_a_table_dropped_by_an_engine_comes_back_natively(lake: Lake) -> None:
    lake.make_by_rest("events")
    table_id = lake.shown("events")["id"]
    assert lake.http.delete(lake.rest("events")).status_code == 204
    assert lake.listed() == set()
    back = lake.http.post(f"/api/v1/objects/{table_id}/undrop", json={})
    assert back.status_code == 200, back.text
    assert lake.identifiers() == {"events"}
    needless = lake.http.post(f"/api/v1/objects/{table_id}/undrop", json={})
    assert problem(needless) == (409, "already_exists")


def test_what_was_purged_does_not_come_back(lake: Lake) -> None:
    lake.make_by_rest("events")
    table_id = lake.shown("events")["id"]
    assert lake.http.delete(lake.rest("events"), params={"purgeRequested": True}).is_success
    back = lake.http.post(f"/api/v1/objects/{table_id}/undrop", json={})
    assert problem(back) == (404, "not_found")


def test_an_undrop_into_a_name_that_is_taken_is_409(lake: Lake) -> None:
    response = lake.make_natively("orders")
    lake.http.delete(lake.native("orders"))
    lake.make_natively("orders")
    back = lake.http.post(f"/api/v1/objects/{response['id']}/undrop", json={})
    assert problem(back) == (409, "already_exists")
    other = lake.http.post(f"/api/v1/objects/{response['id']}/undrop", json={"name": "first"})
    assert other.status_code == 200, other.text
    assert lake.listed() == lake.identifiers() == {"orders", "first"}


def test_every_change_is_done_once_under_its_key(lake: Lake) -> None:
    table, url = lake.native("orders"), f"{lake.schema}/tables"
    wish = {"name": "orders", "format": "ICEBERG", "columns": [{"name": "a", "data_type": "int"}]}
    calls: list[tuple[str, str, Any]] = [
        ("POST", url, wish),
        ("POST", f"{table}/columns", {"name": "b", "data_type": "int", "pii_type": "x"}),
        ("PATCH", f"{table}/columns/b", {"name": "c", "pii_type": None}),
        ("DELETE", f"{table}/columns/c", None),
        ("PATCH", table, {"name": "sales", "comment": "renamed"}),
        ("DELETE", lake.native("sales"), None),
    ]
    for method, path, body in calls:
        _twice(lake.http, method, path, body)
    dropped = lake.http.get(f"{url}?dropped=true").json()["items"]
    assert len(dropped) == 1
    _twice(lake.http, "POST", f"/api/v1/objects/{dropped[0]['id']}/undrop", {})
    metadata = lake.loaded("sales")
    assert len(metadata["schemas"]) == 3
    assert metadata["last-column-id"] == 2  # the columns were not added a second time


def _twice(http: httpx2.Client, method: str, url: str, body: Any) -> None:
    headers = key()
    answers = [http.request(method, url, json=body, headers=headers) for _ in range(2)]
    assert answers[0].is_success, (method, url, answers[0].text)
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].content == answers[1].content
    assert answers[0].headers["etag"] == answers[1].headers["etag"]


def test_refusals_are_kept_under_their_keys(lake: Lake) -> None:
    headers = key()
    column = f"{lake.native('orders')}/columns/later"
    lake.make_natively("orders")
    first = lake.http.patch(column, json={"comment": "c"}, headers=headers)
    assert problem(first) == (404, "not_found")
    lake.http.post(f"{lake.native('orders')}/columns", json={"name": "later", "data_type": "int"})
    repeated_response = lake.http.patch(column, json={"comment": "c"}, headers=headers)
    assert (repeated_response.status_code, repeated_response.content) == (404, first.content)
    other = lake.http.patch(column, json={"comment": "d"}, headers=headers)
    assert problem(other) == (422, "idempotency_key_reused")


def test_a_change_that_changes_nothing_is_repeated_as_that(lake: Lake) -> None:
    lake.make_natively("orders")
    url, headers = f"{lake.native('orders')}/columns/id", key()
    first = lake.http.patch(url, json={"name": "id"}, headers=headers)
    assert first.status_code == 200, first.text
    lake.http.patch(url, json={"name": "number"})
    repeated_response = lake.http.patch(url, json={"name": "id"}, headers=headers)
    assert (repeated_response.status_code, repeated_response.content) == (200, first.content)
    assert len(lake.loaded("orders")["schemas"]) == 2


@pytest.mark.parametrize("keyed", [False, True])
def test_if_match_guards_every_change(lake: Lake, *, keyed: bool) -> None:
    lake.make_natively("orders")
    url = lake.native("orders")
    old = lake.http.get(url).headers["etag"]
    lake.http.patch(url, json={"comment": "newer"})
    calls: list[tuple[str, str, Any]] = [
        ("POST", f"{url}/columns", {"name": "b", "data_type": "int"}),
        ("PATCH", f"{url}/columns/id", {"name": "c"}),
        ("DELETE", f"{url}/columns/id", None),
        ("PATCH", url, {"name": "sales"}),
        ("DELETE", url, None),
    ]
    for method, path, body in calls:
        headers = {"If-Match": old, **(key() if keyed else {})}
        for _ in range(2):
            answer = lake.http.request(method, path, json=body, headers=headers)
            assert problem(answer) == (412, "precondition_failed"), (method, path)
    new = lake.http.get(url).headers["etag"]
    done = lake.http.delete(url, headers={"If-Match": new})
    assert done.status_code == 204


def test_a_table_that_is_gone_is_404_for_every_change(lake: Lake) -> None:
    lake.make_natively("orders")
    url = lake.native("orders")
    lake.http.delete(lake.rest("orders"))
    for method, path, body in (
        ("POST", f"{url}/columns", {"name": "b", "data_type": "int"}),
        ("PATCH", f"{url}/columns/id", {"name": "c"}),
        ("PATCH", url, {"name": "sales"}),
        ("PATCH", url, {"comment": "c"}),
        ("DELETE", url, None),
    ):
        answer = lake.http.request(method, path, json=body)
        assert problem(answer) == (404, "not_found"), (method, path)


def test_native_and_engine_changes_at_once_all_count(lake: Lake, api: Served) -> None:
    from concurrent.futures import ThreadPoolExecutor

    lake.make_natively("orders")

    def add(number: int) -> int:
        with api.client() as http:
            url = f"{lake.native('orders')}/columns"
            return http.post(url, json={"name": f"n{number}", "data_type": "int"}).status_code

    def set_property(number: int) -> int:
        with api.client() as http:
            update = {"action": "set-properties", "updates": {f"p{number}": "x"}}
            body = {"requirements": [], "updates": [update]}
            return http.post(lake.rest("orders"), json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        added = [pool.submit(add, number) for number in range(8)]
        result = [pool.submit(set_property, number) for number in range(8)]
        assert [each.result() for each in added] == [201] * 8
        assert [each.result() for each in result] == [200] * 8
    expected_names = {"id", "email", *(f"n{number}" for number in range(8))}
    assert set(names(lake.fields("orders"))) == expected_names
    assert names(lake.shown("orders")["columns"]) == names(lake.fields("orders"))
    assert {f"p{number}" for number in range(8)} <= lake.loaded("orders")["properties"].keys()
