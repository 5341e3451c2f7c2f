"""Replies of the catalog are cached until it changes: every read shows all that was answered before it."""

from tests.api.iceberg.warehouse import Warehouse


def _names(warehouse: Warehouse, kind: str) -> list[str]:
    first, second = (
        warehouse.http.get(warehouse.url("namespaces", "db", kind)).json()["identifiers"]
        for _ in range(2)
    )
    assert first == second
    return [each["name"] for each in first]


def test_a_list_shows_each_change_at_once(warehouse: Warehouse) -> None:
    assert _names(warehouse, "tables") == []
    warehouse.make_table("a")
    warehouse.make_table("b")
    warehouse.make_view("v")
    assert (_names(warehouse, "tables"), _names(warehouse, "views")) == (["a", "b"], ["v"])
    assert warehouse.http.delete(warehouse.table("a")).status_code == 204
    assert _names(warehouse, "tables") == ["b"]
    to = {"namespace": ["db"], "name": "c"}
    body = {"source": {"namespace": ["db"], "name": "b"}, "destination": to}
    assert warehouse.http.post(warehouse.url("tables", "rename"), json=body).status_code == 204
    assert _names(warehouse, "tables") == ["c"]
    assert warehouse.http.delete(warehouse.view("v")).status_code == 204
    assert _names(warehouse, "views") == []


def test_a_namespace_shows_each_change_of_its_properties(warehouse: Warehouse) -> None:
    url = warehouse.url("namespaces", "db")
    for number in range(3):
        body = {"updates": {"n": str(number)}}
        assert warehouse.http.post(f"{url}/properties", json=body).status_code == 200
        for _ in range(2):
            assert warehouse.http.get(url).json()["properties"]["n"] == str(number)


def test_a_commit_changes_no_list(warehouse: Warehouse) -> None:
    warehouse.make_table("a")
    assert _names(warehouse, "tables") == ["a"]
    assert warehouse.set_property("a", "k", "v").status_code == 200
    assert _names(warehouse, "tables") == ["a"]
