"""Reports of engines are counted, whatever they hold."""

import re

import pytest

from tests.api.iceberg.warehouse import Warehouse, refusal

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
    found = re.search(rf'arco_iceberg_metrics_reports_total{{report="{report}"}} ([0-9.]+)', text)
    return float(found[1]) if found else 0


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
