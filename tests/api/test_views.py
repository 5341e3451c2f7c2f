"""Views through the native API, and those that engines made."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.server import Served
from tests.iceberg.lake import VERSION, Lake, key, make_lake, names

COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "data_type": "bigint", "nullable": False},
    {"name": "email", "data_type": "string", "pii_type": "email", "comment": "of the customer"},
]
SPARK = {"sql": "SELECT id, email FROM orders", "dialect": "spark"}
TRINO = {"sql": 'SELECT id, "email" FROM orders', "dialect": "trino"}


@pytest.fixture
def lake(http: httpx2.Client) -> Lake:
    return make_lake(http)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


def make(lake: Lake, name: str = "v", /, **message: Any) -> httpx2.Response:
    body = {"name": name, "columns": COLUMNS, "sql": SPARK["sql"], **message}
    made = lake.http.post(f"{lake.schema}/views", json=body)
    assert made.status_code == 201, made.text
    return made


def test_a_view_made_natively_is_one_for_engines(lake: Lake) -> None:
    message: dict[str, Any] = {
        "comment": "short",
        "properties": {"team": "x"},
        "tags": ["gold"],
        "owner": "user:eve",
    }
    made = make(lake, **message)
    view = made.json()
    assert made.headers["location"] == lake.native("v", "views")
    assert (view["kind"], view["format"]) == ("VIEW", "ICEBERG")
    assert {name: view[name] for name in message} == message
    assert view["representations"] == [SPARK]
    assert (view["default_catalog"], view["default_namespace"]) == (None, ["db"])
    assert view["pii_columns"] == ["email"]

    actual = lake.http.get(lake.native("v", "views"))
    assert actual.json() == view
    assert actual.headers["etag"] == made.headers["etag"]
    metadata = lake.loaded("v", "views")
    assert metadata["view-uuid"] == view["id"]
    (version,) = metadata["versions"]
    assert version["representations"] == [{"type": "sql", **SPARK}]
    assert version["default-namespace"] == ["db"]
    (schema,) = metadata["schemas"]
    assert [(f["name"], f["type"], f["required"]) for f in schema["fields"]] == [
        ("id", "long", True),
        ("email", "string", False),
    ]


def test_the_past_of_a_view_is_shown_without_its_query(lake: Lake) -> None:
    made, url = make(lake), lake.native("v", "views")
    lake.http.patch(url, json={"comment": "later"})
    past = lake.http.get(url, params={"as_of": str(made.json()["commit"])}).json()
    assert past["comment"] is None
    assert names(past["columns"]) == ["id", "email"]
    assert "representations" not in past
    lake.make_natively("orders")
    table = lake.http.get(lake.native("orders", "views"), params={"as_of": "newest"})
    assert problem(table) == (400, "invalid")
    number = str(lake.shown("orders")["commit"])
    table = lake.http.get(lake.native("orders", "views"), params={"as_of": number})
    assert problem(table) == (404, "not_found")


def test_a_view_made_by_an_engine_is_there_natively(lake: Lake) -> None:
    lake.make_view_by_rest("short")
    view = lake.http.get(lake.native("short", "views")).json()
    assert view["representations"] == [{"sql": "SELECT 1 AS id", "dialect": "spark"}]
    assert view["default_namespace"] == VERSION["default-namespace"]
    assert names(view["columns"]) == ["id", "note"]
    assert lake.listed("views") == lake.identifiers("views") == {"short"}


def test_views_are_listed_among_the_tables_and_apart_from_them(lake: Lake) -> None:
    for name in ("a", "c", "e"):
        make(lake, name)
    for name in ("b", "d"):
        lake.make_natively(name)
    assert lake.listed() == {"a", "b", "c", "d", "e"}
    assert lake.listed("views") == {"a", "c", "e"}
    (first, *_) = lake.http.get(f"{lake.schema}/views").json()["items"]
    assert "representations" not in first
    assert "columns" not in first
    actual, token = [], None
    for _ in range(10):
        params = {"page_size": 2} | ({} if token is None else {"page_token": token})
        page = lake.http.get(f"{lake.schema}/views", params=params).json()
        actual += names(page["items"])
        token = page["next_page_token"]
        if token is None:
            break
    assert actual == ["a", "c", "e"]
    assert token is None


def test_a_table_is_no_view_and_a_view_has_a_tables_routes(lake: Lake) -> None:
    lake.make_natively("orders")
    make(lake)
    url = lake.native("orders", "views")
    assert problem(lake.http.get(url)) == (404, "not_found")
    assert problem(lake.http.patch(url, json={"comment": "c"})) == (404, "not_found")
    assert problem(lake.http.patch(url, json={"name": "x"})) == (404, "not_found")
    assert problem(lake.http.delete(url)) == (404, "not_found")
    assert lake.shown("v")["kind"] == "VIEW"
    column = {"name": "more", "data_type": "int"}
    answer = lake.http.post(f"{lake.native('v')}/columns", json=column)
    assert problem(answer) == (400, "invalid")
    marked = lake.http.patch(f"{lake.native('v')}/columns/id", json={"pii_type": "id"})
    assert marked.status_code == 200, marked.text
    assert lake.http.delete(lake.native("v")).status_code == 204
    assert lake.identifiers("views") == set()


def test_a_new_query_is_another_version_for_engines(lake: Lake) -> None:
    make(lake)
    url = lake.native("v", "views")
    body = {"sql": "SELECT id FROM orders", "columns": COLUMNS[:1], "comment": "shorter"}
    document = lake.http.patch(url, json=body)
    assert document.status_code == 200, document.text
    assert document.json() == lake.http.get(url).json()
    assert document.json()["representations"] == [{"sql": body["sql"], "dialect": "spark"}]
    assert names(document.json()["columns"]) == ["id"]
    assert document.json()["comment"] == "shorter"
    metadata = lake.loaded("v", "views")
    assert metadata["current-version-id"] == 2
    assert len(metadata["versions"]) == 2


def test_columns_of_a_view_keep_their_marks_by_name(lake: Lake) -> None:
    before = make(lake).json()["columns"]
    url = lake.native("v", "views")
    turned = [COLUMNS[1], COLUMNS[0], {"name": "at", "data_type": "date"}]
    body = {"sql": "SELECT email, id, at FROM orders", "columns": turned}
    after = lake.http.patch(url, json=body).json()["columns"]
    assert names(after) == ["email", "id", "at"]
    assert [each["id"] for each in after[:2]] == [before[1]["id"], before[0]["id"]]
    assert after[2]["id"] not in {each["id"] for each in before}


def test_the_same_query_again_changes_nothing(lake: Lake) -> None:
    make(lake)
    url = lake.native("v", "views")
    assert lake.http.patch(url, json={"sql": SPARK["sql"]}).status_code == 200
    assert lake.loaded("v", "views")["current-version-id"] == 1


def test_a_view_may_have_several_queries_and_loses_none_by_accident(lake: Lake) -> None:
    body = {"name": "v", "columns": COLUMNS, "representations": [SPARK, TRINO]}
    made = lake.http.post(f"{lake.schema}/views", json=body)
    assert made.json()["representations"] == [SPARK, TRINO]
    lost = lake.http.patch(lake.native("v", "views"), json={"sql": "SELECT 1"})
    assert problem(lost) == (400, "invalid")
    assert "trino" in lost.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"columns": COLUMNS},
        {"columns": COLUMNS, "dialect": "spark"},
        {"columns": COLUMNS, **SPARK, "representations": [TRINO]},
        {"columns": COLUMNS, "representations": [SPARK, SPARK]},
        {"columns": [], **SPARK},
        {**SPARK},
        {"columns": COLUMNS, "sql": "  "},
        {"columns": [*COLUMNS, COLUMNS[0]], **SPARK},
    ],
)
def test_a_view_that_says_too_little_or_too_much_is_400(lake: Lake, body: dict[str, Any]) -> None:
    answer = lake.http.post(f"{lake.schema}/views", json={"name": "odd", **body})
    assert problem(answer) == (400, "invalid")
    assert lake.listed("views") == set()


def test_a_view_is_renamed_moved_dropped_and_brought_back(lake: Lake) -> None:
    view_id = make(lake).json()["id"]
    url = f"/api/v1/catalogs/{lake.name}/schemas"
    assert lake.http.post(url, json={"name": "old"}).status_code == 201
    both = lake.http.patch(lake.native("v", "views"), json={"name": "w", "sql": "SELECT 1"})
    assert problem(both) == (400, "invalid")
    moved = lake.http.patch(lake.native("v", "views"), json={"name": "w", "schema": ["old"]})
    assert moved.status_code == 200, moved.text
    assert moved.json()["full_name"] == f"{lake.name}.old.w"
    assert moved.json()["representations"] == [SPARK]
    moved_url = f"{url}/old/views/w"
    assert lake.http.get(moved_url).json() == moved.json()
    assert lake.http.delete(moved_url).status_code == 204
    assert problem(lake.http.get(moved_url)) == (404, "not_found")
    back = lake.http.post(f"/api/v1/objects/{view_id}/undrop", json={})
    assert (back.status_code, back.json()["kind"]) == (200, "VIEW")
    assert lake.http.get(moved_url).status_code == 200


def test_a_view_that_is_there_is_409(lake: Lake) -> None:
    make(lake)
    lake.make_natively("orders")
    for name in ("v", "orders"):
        body = {"name": name, "columns": COLUMNS, **SPARK}
        answer = lake.http.post(f"{lake.schema}/views", json=body)
        assert problem(answer) == (409, "already_exists")
    taken = lake.http.post(f"{lake.schema}/tables", json={"name": "v", "format": "CSV"})
    assert problem(taken) == (409, "already_exists")


def test_every_change_of_a_view_is_done_once_under_its_key(lake: Lake) -> None:
    url = lake.native("v", "views")
    calls: list[tuple[str, str, Any]] = [
        ("POST", f"{lake.schema}/views", {"name": "v", "columns": COLUMNS, **SPARK}),
        ("PATCH", url, {"sql": "SELECT 2", "comment": "two"}),
        ("PATCH", url, {"comment": "three"}),
        ("PATCH", url, {"name": "w"}),
        ("DELETE", lake.native("w", "views"), None),
    ]
    for method, where, body in calls:
        headers = key()
        answers = [lake.http.request(method, where, json=body, headers=headers) for _ in range(2)]
        assert answers[0].is_success, (method, where, answers[0].text)
        assert answers[0].status_code == answers[1].status_code
        assert answers[0].content == answers[1].content
        assert answers[0].headers["etag"] == answers[1].headers["etag"]


def test_a_view_whose_metadata_file_is_gone_is_corrupt_and_not_absent(
    lake: Lake, api: Served
) -> None:
    view_id = make(lake).json()["id"]
    iceberg = api.services.iceberg
    assert iceberg is not None
    location = lake.http.get(lake.rest("v", "views")).json()["metadata-location"]
    Path(location.removeprefix("file://")).unlink()
    iceberg.context.metadata_cache.forget(location)
    assert problem(lake.http.get(lake.native("v", "views"))) == (500, "corrupt")
    changed = lake.http.patch(lake.native("v", "views"), json={"sql": "SELECT 2"})
    assert problem(changed) == (500, "corrupt")
    assert lake.shown("v")["id"] == view_id  # the catalog itself is well


def test_if_match_guards_a_view(lake: Lake) -> None:
    old = make(lake).headers["etag"]
    url = lake.native("v", "views")
    lake.http.patch(url, json={"comment": "newer"})
    for body in ({"comment": "c"}, {"name": "w"}, {"sql": "SELECT 2"}):
        answer = lake.http.patch(url, json=body, headers={"If-Match": old})
        assert problem(answer) == (412, "precondition_failed"), body
    answer = lake.http.delete(url, headers={"If-Match": old})
    assert problem(answer) == (412, "precondition_failed")
