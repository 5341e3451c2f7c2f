"""Namespaces and views over HTTP."""

from tests.api.iceberg.warehouse import VERSION, Warehouse, refusal


def test_a_namespace_is_made_loaded_changed_and_dropped(warehouse: Warehouse) -> None:
    http, url = warehouse.http, warehouse.url("namespaces", "sales")
    body = {"namespace": ["sales"], "properties": {"team": "a", "owner": "b"}}
    made = http.post(warehouse.url("namespaces"), json=body)
    assert (made.status_code, made.json()) == (200, body)
    assert http.get(url).json() == body
    assert (http.head(url).status_code, http.head(url).content) == (204, b"")
    wish = {"removals": ["team", "nothing"], "updates": {"owner": "c", "new": "d"}}
    changed = http.post(url + "/properties", json=wish)
    assert changed.status_code == 200
    document = changed.json()
    assert sorted(document["updated"]) == ["new", "owner"]
    assert (document["removed"], document["missing"]) == (["team"], ["nothing"])
    assert http.get(url).json()["properties"] == {"owner": "c", "new": "d"}
    assert http.delete(url).status_code == 204
    assert http.head(url).status_code == 404
    assert refusal(http.get(url)) == (404, "NoSuchNamespaceException")
    assert refusal(http.delete(url)) == (404, "NoSuchNamespaceException")


def test_a_namespace_that_is_there_is_409(warehouse: Warehouse) -> None:
    answer = warehouse.http.post(warehouse.url("namespaces"), json={"namespace": ["db"]})
    assert refusal(answer) == (409, "AlreadyExistsException")
    assert "Namespace already exists" in answer.json()["error"]["message"]


def test_one_that_holds_something_is_not_dropped(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    answer = warehouse.http.delete(warehouse.url("namespaces", "db"))
    assert refusal(answer) == (409, "NamespaceNotEmptyException")
    assert "is not empty" in answer.json()["error"]["message"]


def test_the_same_key_to_set_and_to_remove_is_422(warehouse: Warehouse) -> None:
    url = warehouse.url("namespaces", "db", "properties")
    answer = warehouse.http.post(url, json={"removals": ["a"], "updates": {"a": "b"}})
    assert refusal(answer) == (422, "UnprocessableEntityException")


def test_namespaces_are_listed_level_by_level(warehouse: Warehouse) -> None:
    warehouse.make_namespace("raw", "europe", "north")
    url = warehouse.url("namespaces")
    for parent, inside in (
        ("", [["db"], ["raw"]]),
        ("raw", [["raw", "europe"]]),
        ("raw\x1feurope", [["raw", "europe", "north"]]),
        ("raw\x1feurope\x1fnorth", []),
    ):
        answer = warehouse.http.get(url, params={"parent": parent})
        assert answer.json() == {"namespaces": inside, "next-page-token": None}


def test_a_parent_that_was_escaped_twice_is_found_unless_one_is_called_like_that(
    warehouse: Warehouse,
) -> None:
    warehouse.make_namespace("a b", "c+d", "inside")
    url = warehouse.url("namespaces")
    for parent in ("a%20b\x1fc%2Bd", "a%20b%1Fc%2Bd"):
        listed = warehouse.http.get(url, params={"parent": parent}).json()
        assert listed["namespaces"] == [["a b", "c+d", "inside"]]
    warehouse.make_namespace("a%20b", "another")
    listed = warehouse.http.get(url, params={"parent": "a%20b"}).json()
    assert listed["namespaces"] == [["a%20b", "another"]]
    for parent in ("a%20b\x1fnothing", "%", "%zz"):
        answer = warehouse.http.get(url, params={"parent": parent})
        assert refusal(answer) == (404, "NoSuchNamespaceException")


def test_there_are_no_functions(warehouse: Warehouse) -> None:
    url = warehouse.url("namespaces", "db", "functions")
    assert warehouse.http.get(url).json() == {"identifiers": [], "next-page-token": None}
    assert refusal(warehouse.http.get(f"{url}/add_one")) == (404, "NoSuchFunctionException")
    elsewhere = warehouse.url("namespaces", "nowhere", "functions", "add_one")
    assert refusal(warehouse.http.get(elsewhere)) == (404, "NoSuchNamespaceException")


def test_a_view_is_made_loaded_replaced_and_dropped(warehouse: Warehouse) -> None:
    http, url = warehouse.http, warehouse.view("short")
    made = warehouse.make_view("short")
    assert made.json()["metadata"]["current-version-id"] == 1
    loaded = http.get(url)
    assert loaded.json()["metadata"] == made.json()["metadata"]
    assert "etag" not in loaded.headers
    assert http.head(url).status_code == 204
    version = VERSION | {
        "version-id": 2,
        "representations": [{"type": "sql", "sql": "SELECT 2 AS id", "dialect": "spark"}],
    }
    uuid = made.json()["metadata"]["view-uuid"]
    body = {
        "requirements": [{"type": "assert-view-uuid", "uuid": uuid}],
        "updates": [
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    }
    replaced = http.post(url, json=body)
    assert replaced.status_code == 200, replaced.text
    assert len(replaced.json()["metadata"]["versions"]) == 2
    assert http.delete(url).status_code == 204
    assert refusal(http.get(url)) == (404, "NoSuchViewException")


def test_a_view_gets_another_name(warehouse: Warehouse) -> None:
    warehouse.make_view("short")
    body = {
        "source": {"namespace": ["db"], "name": "short"},
        "destination": {"namespace": ["db"], "name": "long"},
    }
    assert warehouse.http.post(warehouse.url("views", "rename"), json=body).status_code == 204
    listed = warehouse.http.get(warehouse.url("namespaces", "db", "views")).json()
    assert listed["identifiers"] == [{"namespace": ["db"], "name": "long"}]


def test_a_metadata_file_of_a_view_gets_a_name(warehouse: Warehouse) -> None:
    location = warehouse.make_view("short").json()["metadata-location"]
    assert warehouse.http.delete(warehouse.view("short")).status_code == 204
    body = {"name": "back", "metadata-location": location}
    url = warehouse.url("namespaces", "db", "register-view")
    back = warehouse.http.post(url, json=body)
    assert back.status_code == 200, back.text
    assert warehouse.http.head(warehouse.view("back")).status_code == 204


def test_a_view_that_is_there_is_409(warehouse: Warehouse) -> None:
    warehouse.make_view("short")
    body = {"name": "short", "schema": {"type": "struct", "fields": []}, "view-version": VERSION}
    answer = warehouse.http.post(warehouse.url("namespaces", "db", "views"), json=body)
    assert refusal(answer) == (409, "AlreadyExistsException")
