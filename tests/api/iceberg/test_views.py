"""Views over HTTP."""

from tests.api.iceberg.warehouse import VERSION, Warehouse, refusal


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
