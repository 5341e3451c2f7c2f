"""The OpenAPI document and the page that shows it."""

import re
from typing import Any

import httpx2

from arco.access.authorization import Operation
from arco.access.principal import PrincipalRole
from tests.api.server import Served

Schema = dict[str, Any]


def _document(http: httpx2.Client) -> Schema:
    document: Schema = http.get("/api/v1/openapi.json").json()
    return document


def _refs(node: object) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(_refs, node.values()))
    return set().union(*map(_refs, node)) if isinstance(node, list) else set()


def test_the_document_is_complete_openapi_3_1(http: httpx2.Client) -> None:
    document = _document(http)
    assert document["openapi"] == "3.1.0"
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert _refs(document) <= names
    ids = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(ids) == len(set(ids))


def test_every_operation_for_callers_is_described_in_full(http: httpx2.Client) -> None:
    from arco.access.authorization import ACCESS_MATRIX, ICEBERG_OPERATIONS

    document = _document(http)
    actual: set[str] = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            actual.add(operation["x-arco-operation"])
            assert operation["summary"]
            named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            statuses = set(operation["responses"])
            assert {"400", "403", "500", "503"} <= statuses
            if method in {"post", "patch"}:
                for media in operation["requestBody"]["content"].values():
                    assert media["schema"]
                    assert "example" in media
                assert {"413", "415"} <= statuses
            headers = {each["name"] for each in operation["parameters"] if each["in"] == "header"}
            if method in {"patch", "delete"}:
                assert {"Idempotency-Key", "If-Match"} <= headers
    callers = {
        each.value for each in Operation if ACCESS_MATRIX[each].role is not PrincipalRole.SERVICE
    }
    assert actual == callers - ICEBERG_OPERATIONS


def test_as_of_can_be_asked_of_every_read_of_the_catalog(http: httpx2.Client) -> None:
    of_now = {  # what a commit was never changes; runs and files are asked as they are
        "/api/v1/commits/{number}",
        "/api/v1/runs/{run_id}",
        "/api/v1/runs/{run_id}/tasks/{task}/logs",
        "/api/v1/tables/{table_id}/files",
    }
    for path, methods in _document(http)["paths"].items():
        if "get" in methods and "{" in path and path not in of_now:
            names = {each["name"] for each in methods["get"]["parameters"]}
            assert "as_of" in names, path


def test_the_page_needs_nothing_from_elsewhere(api: Served, http: httpx2.Client) -> None:
    page = http.get("/api/v1/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    linked = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
    assert linked
    for each in linked:
        assert http.get(f"/api/v1/{each}").status_code == 200, each
    for name in ("docs", "docs.css", "docs.js"):
        text = http.get(f"/api/v1/{name}").text
        assert not re.search(r"(https?:)?//[a-z]+\.", text.replace(api.url, "")), name
    assert not re.search(r"<script(?! src)|style=|onclick|<style", page.text)
    script = http.get("/api/v1/docs.js").text
    assert "innerHTML" not in script
    assert "localStorage" not in script
