"""Tables over HTTP: statuses, bodies and effects of each route, and the reports of engines."""

import re

import pytest

from tests.api.iceberg.warehouse import SCHEMA, Warehouse, refusal


def test_a_table_is_made_loaded_changed_and_dropped(warehouse: Warehouse) -> None:
    http, url = warehouse.http, warehouse.table("orders")
    made = warehouse.make_table("orders").json()
    assert made["metadata"]["schemas"][0]["fields"][0]["name"] == "id"
    loaded = http.get(url).json()
    assert loaded["metadata"] == made["metadata"]
    assert (http.head(url).status_code, http.head(url).content) == (204, b"")
    done = warehouse.set_property("orders", "team", "sales").json()
    assert done["metadata"]["properties"]["team"] == "sales"
    assert done["metadata-location"] != made["metadata-location"]
    assert http.get(url).json()["metadata-location"] == done["metadata-location"]
    dropped = http.delete(url)
    assert (dropped.status_code, dropped.content) == (204, b"")
    assert http.head(url).status_code == 404
    assert refusal(http.get(url)) == (404, "NoSuchTableException")


def test_a_name_that_is_taken_is_409(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    url = warehouse.url("namespaces", "db", "tables")
    answer = warehouse.http.post(url, json={"name": "orders", "schema": SCHEMA})
    assert refusal(answer) == (409, "AlreadyExistsException")
    assert answer.json()["error"]["message"] == "Table already exists: db.orders"


def test_a_requirement_that_does_not_hold_is_409_and_an_unknown_one_400(
    warehouse: Warehouse,
) -> None:
    warehouse.make_table("orders")
    url = warehouse.table("orders")
    for requirement, document in (
        (
            {"type": "assert-table-uuid", "uuid": "0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11"},
            (409, "CommitFailedException"),
        ),
        ({"type": "assert-nothing"}, (400, "BadRequestException")),
    ):
        body = {"requirements": [requirement], "updates": []}
        assert refusal(warehouse.http.post(url, json=body)) == document
    body = {"requirements": [], "updates": [{"action": "wish"}]}
    assert refusal(warehouse.http.post(url, json=body)) == (400, "BadRequestException")


def test_a_commit_to_what_is_not_there_is_404(warehouse: Warehouse) -> None:
    assert refusal(warehouse.set_property("nothing", "a", "b")) == (404, "NoSuchTableException")


def test_in_no_namespace_there_is_no_table(warehouse: Warehouse) -> None:
    """Iceberg's Java client looks there before it makes a table called `history` or `files`."""
    answer = warehouse.http.get(f"/iceberg/v1/{warehouse.prefix}/namespaces//tables/sales")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "NoSuchTableException"


def test_a_table_gets_another_name_in_another_namespace(warehouse: Warehouse) -> None:
    warehouse.make_namespace("archive")
    uuid = warehouse.make_table("orders").json()["metadata"]["table-uuid"]
    body = {
        "source": {"namespace": ["db"], "name": "orders"},
        "destination": {"namespace": ["archive"], "name": "old"},
    }
    url = warehouse.url("tables", "rename")
    assert warehouse.http.post(url, json=body).status_code == 204
    assert warehouse.http.head(warehouse.table("orders")).status_code == 404
    moved = warehouse.http.get(warehouse.table("old", "archive")).json()
    assert moved["metadata"]["table-uuid"] == uuid
    assert refusal(warehouse.http.post(url, json=body)) == (404, "NoSuchTableException")


def test_several_tables_are_changed_at_once_or_not_at_all(warehouse: Warehouse) -> None:
    for name in ("a", "b"):
        warehouse.make_table(name)

    def change(value: str, requirement: dict[str, object]) -> dict[str, object]:
        update = {"action": "set-properties", "updates": {"turn": value}}
        return {
            "table-changes": [
                {
                    "identifier": {"namespace": ["db"], "name": name},
                    "requirements": [requirement] if name == "b" else [],
                    "updates": [update],
                }
                for name in ("a", "b")
            ]
        }

    url = warehouse.url("transactions", "commit")
    fine = {"type": "assert-current-schema-id", "current-schema-id": 0}
    stale = {"type": "assert-current-schema-id", "current-schema-id": 7}
    done = warehouse.http.post(url, json=change("1", fine))
    assert (done.status_code, done.content) == (204, b"")
    assert refusal(warehouse.http.post(url, json=change("2", stale))) == (
        409,
        "CommitFailedException",
    )
    for name in ("a", "b"):
        properties = warehouse.http.get(warehouse.table(name)).json()["metadata"]["properties"]
        assert properties["turn"] == "1"


def test_no_credentials_are_given_out_and_only_for_what_is_there(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    answer = warehouse.http.get(warehouse.table("orders") + "/credentials?planId=x")
    assert (answer.status_code, answer.json()) == (200, {"storage-credentials": []})
    missing = warehouse.http.get(warehouse.table("nothing") + "/credentials")
    assert refusal(missing) == (404, "NoSuchTableException")


@pytest.mark.parametrize("purge", ["true", "True", "false", "False"])
def test_both_spellings_of_a_boolean_are_read(warehouse: Warehouse, purge: str) -> None:
    warehouse.make_table("orders")
    url = warehouse.table("orders")
    assert warehouse.http.delete(url, params={"purgeRequested": purge}).status_code == 204


def test_what_is_no_boolean_is_400_and_drops_nothing(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    url = warehouse.table("orders")
    answer = warehouse.http.delete(url, params={"purgeRequested": "yes"})
    assert refusal(answer) == (400, "BadRequestException")
    assert warehouse.http.head(url).status_code == 204


def test_parameters_that_we_do_not_know_are_let_through(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    params = {"referenced-by": "db%1Fv", "something-new": "1"}
    assert warehouse.http.get(warehouse.table("orders"), params=params).status_code == 200
    delegation = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    assert warehouse.http.get(warehouse.table("orders"), headers=delegation).status_code == 200


def test_a_table_is_no_view_and_a_view_no_table(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    warehouse.make_view("short")
    assert refusal(warehouse.http.get(warehouse.view("orders"))) == (404, "NoSuchViewException")
    assert refusal(warehouse.http.get(warehouse.table("short"))) == (404, "NoSuchTableException")


SCAN = {
    "report-type": "scan-report",
    "table-name": "db.orders",
    "snapshot-id": 1,
    "filter": True,
    "schema-id": 0,
    "projected-field-ids": [],
    "projected-field-names": [],
    "metrics": {"total-planning-duration": {"count": 1, "time-unit": "nanoseconds"}},
}


def _count(warehouse: Warehouse, report: str) -> float:
    text = warehouse.http.get("/metrics").text
    actual = re.search(rf'arco_iceberg_metrics_reports_total{{report="{report}"}} ([0-9.]+)', text)
    return float(actual[1]) if actual else 0


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (SCAN, "scan-report"),
        ({**SCAN, "report-type": "commit-report", "something": {"new": []}}, "commit-report"),
        ({"report-type": "another"}, "other"),
        ({"report-type": 7}, "other"),
        ({}, "other"),
    ],
)
def test_a_report_is_counted_by_its_type(
    warehouse: Warehouse, body: dict[str, object], label: str
) -> None:
    before = _count(warehouse, label)
    answer = warehouse.http.post(warehouse.table("orders") + "/metrics", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert _count(warehouse, label) == before + 1


@pytest.mark.parametrize("body", [b"", b"x", b"[1]", b'"scan-report"', b'{"report-type":'])
def test_what_is_no_object_of_json_is_400(warehouse: Warehouse, body: bytes) -> None:
    answer = warehouse.http.post(
        warehouse.table("orders") + "/metrics",
        content=body,
        headers={"Content-Type": "application/json"},
    )
    assert refusal(answer) == (400, "BadRequestException")


def test_no_stranger_can_add_a_label(warehouse: Warehouse) -> None:
    url = warehouse.table("orders") + "/metrics"
    assert warehouse.http.post(url, json={"report-type": "canary-label"}).status_code == 204
    assert "canary-label" not in warehouse.http.get("/metrics").text
