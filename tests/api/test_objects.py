"""What can be done to catalogs, schemas, tables and columns, and what is answered."""

import re
from urllib.parse import quote

import httpx2
import pytest

HARD_NAMES = (
    "日本語",
    "a b",
    "a%2Fb",
    "100%",
    "ü\u0308",
    "'; DROP TABLE x",
    "a.b",
    "%1F",
    "*",
    "?x=1",
    "#",
)


def test_a_catalog_is_made_and_read_with_its_description(http: httpx2.Client) -> None:
    body = {
        "name": "described",
        "comment": "all about it",
        "properties": {"a": "1"},
        "tags": ["gold"],
        "owner": "group:sales",
    }
    made = http.post("/api/v1/catalogs", json=body)
    assert made.status_code == 201
    assert {key: made.json()[key] for key in body} == body
    assert made.json()["created_by"] == "user:local"
    assert made.headers["location"] == "/api/v1/catalogs/described"
    read = http.get(made.headers["location"])
    assert read.json() == made.json()
    tag = read.headers["etag"]
    assert tag == made.headers["etag"]
    assert re.fullmatch(f'"{made.json()["commit"]}-[0-9a-f]{{8}}"', tag)


def test_a_workspace_has_the_catalog_default(http: httpx2.Client) -> None:
    assert http.get("/api/v1/catalogs/default").json()["name"] == "default"


@pytest.mark.parametrize("name", HARD_NAMES)
def test_hard_names_come_back_as_they_were_given(
    http: httpx2.Client, schema: str, name: str
) -> None:
    made = http.post(f"{schema}/tables", json={"name": name, "format": "CSV"})
    assert made.status_code == 201, made.text
    read = http.get(f"{schema}/tables/{quote(name, safe='')}")
    assert read.json()["name"] == name
    assert made.headers["location"] == f"{schema}/tables/{quote(name, safe='')}"


def test_schemas_nest_and_are_named_by_all_their_levels(http: httpx2.Client, catalog: str) -> None:
    schemas = f"/api/v1/catalogs/{catalog}/schemas"
    levels = [f"level{depth}" for depth in range(10)]
    for depth, level in enumerate(levels):
        made = http.post(schemas, json={"name": level, "parent": levels[:depth]})
        assert made.status_code == 201, made.text
    deepest = http.get(f"{schemas}/{'%1F'.join(levels)}").json()
    assert deepest["schema"] == levels
    assert deepest["full_name"] == ".".join([catalog, *levels])
    top = http.get(schemas).json()["items"]
    assert [each["name"] for each in top] == ["level0"]
    below = http.get(schemas, params={"parent": "\x1f".join(levels[:3])}).json()["items"]
    assert [each["schema"] for each in below] == [levels[:4]]


def test_a_schema_below_a_missing_parent_is_404(http: httpx2.Client, catalog: str) -> None:
    url = f"/api/v1/catalogs/{catalog}/schemas"
    assert http.post(url, json={"name": "x", "parent": ["nowhere"]}).status_code == 404


def test_a_managed_table_lies_under_its_id_and_an_external_one_at_its_location(
    http: httpx2.Client, schema: str
) -> None:
    managed = http.post(f"{schema}/tables", json={"name": "m", "format": "PARQUET"}).json()
    assert (managed["table_type"], managed["location"]) == (
        "MANAGED",
        f"warehouse/{managed['id']}/",
    )
    body = {"name": "e", "format": "CSV", "location": "s3://lake/e"}
    external = http.post(f"{schema}/tables", json=body).json()
    assert (external["table_type"], external["location"]) == ("EXTERNAL", "s3://lake/e/")


def test_a_list_has_columns_only_if_they_are_asked_for(http: httpx2.Client, table: str) -> None:
    tables = table.rpartition("/")[0]
    assert "columns" not in http.get(tables).json()["items"][0]
    listed = http.get(tables, params={"include": "columns"}).json()["items"][0]
    assert listed == http.get(table).json()
    assert [column["data_type"] for column in listed["columns"]] == ["bigint", "string"]
    assert listed["pii_columns"] == ["email"]


def test_a_change_keeps_what_is_absent_and_clears_what_is_null(
    http: httpx2.Client, table: str
) -> None:
    message = {"comment": "old", "properties": {"a": "1", "b": "2"}, "tags": ["x"]}
    http.patch(table, json=message)
    changed = http.patch(table, json={"properties": {"a": None, "c": "3"}}).json()
    assert (changed["comment"], changed["tags"]) == ("old", ["x"])
    assert changed["properties"] == {"b": "2", "c": "3"}
    cleared = http.patch(table, json={"comment": None, "tags": None, "owner": None}).json()
    assert (cleared["comment"], cleared["tags"], cleared["owner"]) == (None, [], None)
    assert http.get(table).json() == cleared


def test_a_table_is_renamed_and_moved_and_keeps_its_id(http: httpx2.Client, table: str) -> None:
    tables = table.rpartition("/")[0]
    born = http.get(table).json()
    renamed = http.patch(table, json={"name": "bills"}).json()
    assert renamed["full_name"].endswith(".raw.bills")
    other = "/api/v1/catalogs/default/schemas"
    name = born["id"][-12:]
    assert http.post(other, json={"name": name}).status_code == 201
    moved = http.patch(f"{tables}/bills", json={"catalog": "default", "schema": [name]})
    assert moved.json()["full_name"] == f"default.{name}.bills"
    assert http.get(f"{tables}/bills").status_code == 404
    actual = http.get(f"{other}/{name}/tables/bills").json()
    assert (actual["id"], actual["location"]) == (born["id"], born["location"])


def test_columns_are_added_changed_and_dropped_and_each_change_is_a_version(
    http: httpx2.Client, table: str
) -> None:
    one = http.post(f"{table}/columns", json={"name": "a/b", "data_type": "decimal(4,2)"})
    assert (one.status_code, one.json()["name"], one.json()["position"]) == (201, "a/b", 2)
    two = {"columns": [{"name": "c", "data_type": "int"}, {"name": "d", "data_type": "date"}]}
    several = http.post(f"{table}/columns", json=two)
    assert [column["name"] for column in several.json()["columns"]] == ["c", "d"]
    changed = http.patch(f"{table}/columns/a%2Fb", json={"name": "ab", "comment": "joined"})
    assert (changed.json()["id"], changed.json()["name"]) == (one.json()["id"], "ab")
    assert http.delete(f"{table}/columns/c").status_code == 204
    assert http.delete(f"{table}/columns/c").status_code == 404
    read = http.get(table)
    assert [column["name"] for column in read.json()["columns"]] == ["id", "email", "ab", "d"]
    versions = http.get(f"{table}/schema-history").json()["items"]
    assert [version["version"] for version in versions] == [5, 4, 3, 2, 1]
    assert versions[0]["changes"][0]["change"] == "dropped"
    assert len(versions[-1]["columns"]) == 2


def test_a_change_of_a_column_changes_the_tags_of_its_table(
    http: httpx2.Client, table: str
) -> None:
    before = http.get(table).headers["etag"]
    changed = http.patch(f"{table}/columns/id", json={"comment": "the key"})
    after = http.get(table).headers["etag"]
    assert before != after == changed.headers["etag"]


def test_a_container_that_holds_something_is_dropped_by_force_alone(
    http: httpx2.Client, table: str
) -> None:
    schema = table.partition("/tables")[0]
    refused = http.delete(schema)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_empty")
    assert http.delete(schema, params={"force": "true"}).status_code == 204
    assert http.get(table).status_code == 404


def test_what_was_dropped_is_listed_and_brought_back(http: httpx2.Client, table: str) -> None:
    tables = table.rpartition("/")[0]
    born = http.get(table).json()
    by_id = f"/api/v1/objects/{born['id']}"
    assert http.get(by_id).json() == born
    assert http.delete(table).status_code == 204
    assert http.get(by_id).status_code == 404
    dropped = http.get(by_id, params={"dropped": "true"}).json()
    assert dropped["dropped_at"]
    assert [
        each["id"] for each in http.get(tables, params={"dropped": "true"}).json()["items"]
    ] == [born["id"]]
    back = http.post(f"{by_id}/undrop", json={"name": "again"})
    assert (back.status_code, back.json()["full_name"]) == (200, f"{born['full_name'][:-6]}again")
    assert http.get(f"{tables}/again").json()["columns"] == born["columns"]
    assert http.post(f"{by_id}/undrop").status_code == 409


def test_the_history_of_an_object_goes_through_renames_page_by_page(
    http: httpx2.Client, table: str
) -> None:
    born = http.get(table).json()
    http.patch(table, json={"name": "bills"})
    http.delete(table.rpartition("/")[0] + "/bills")
    url = f"/api/v1/objects/{born['id']}/history"
    history = http.get(url).json()["items"]
    assert [each["operation"] for each in history] == ["drop_table", "update_table", "create_table"]
    assert [each["object"]["name"] for each in history] == ["bills", "bills", "orders"]
    first = http.get(url, params={"page_size": 2}).json()
    rest = http.get(url, params={"page_token": first["next_page_token"]}).json()
    assert [*first["items"], *rest["items"]] == history
    assert rest["next_page_token"] is None


@pytest.mark.parametrize("object_id", ["nothing", "0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11", "%00"])
def test_an_unknown_id_is_404(http: httpx2.Client, object_id: str) -> None:
    assert http.get(f"/api/v1/objects/{object_id}").status_code == 404
    assert http.get(f"/api/v1/objects/{object_id}/history").status_code == 404
    assert http.post(f"/api/v1/objects/{object_id}/undrop").status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": ""}, 400),
        ({"name": "a/b"}, 400),
        ({"name": ".."}, 400),
        ({"name": "x\u202ey"}, 400),
        ({"name": "x" * 256}, 400),
        ({"name": 1}, 400),
        ({"name": "x", "typo": 1}, 400),
        ({"name": "x", "tags": "gold"}, 400),
        ({"name": "x", "owner": ""}, 400),
        ({"name": "x", "properties": {"arco.secret": "1"}}, 400),
        ([], 400),
        (None, 400),
    ],
)
def test_a_body_that_is_wrong_is_400(http: httpx2.Client, body: object, status: int) -> None:
    answer = http.post("/api/v1/catalogs", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, "invalid")


def test_a_name_that_is_taken_is_409(http: httpx2.Client, table: str) -> None:
    answer = http.post(table.rpartition("/")[0], json={"name": "orders", "format": "CSV"})
    assert (answer.status_code, answer.json()["code"]) == (409, "already_exists")
