"""A fresh catalog as a client of the protocol sees it."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "note", "required": False, "type": "string"},
    ],
}
VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1_700_000_000_000,
    "summary": {"engine-name": "test"},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"}],
}

Json = dict[str, Any]


@dataclass(frozen=True)
class Warehouse:
    """A catalog behind its prefix."""

    http: httpx2.Client
    name: str
    prefix: str

    def url(self, *parts: str) -> str:
        """The URL below the prefix, each part escaped as most clients do it."""
        return "/".join((f"/iceberg/v1/{self.prefix}", *(quote(each, safe="") for each in parts)))

    def table(self, name: str, *namespace: str) -> str:
        return self.url("namespaces", "\x1f".join(namespace or ("db",)), "tables", name)

    def view(self, name: str, *namespace: str) -> str:
        return self.url("namespaces", "\x1f".join(namespace or ("db",)), "views", name)

    def make_namespace(self, *levels: str) -> None:
        made = self.http.post(self.url("namespaces"), json={"namespace": list(levels)})
        assert made.status_code == 200, made.text

    def make_table(self, name: str, *namespace: str) -> httpx2.Response:
        levels = namespace or ("db",)
        url = self.url("namespaces", "\x1f".join(levels), "tables")
        made = self.http.post(url, json={"name": name, "schema": SCHEMA})
        assert made.status_code == 200, made.text
        return made

    def make_view(self, name: str) -> httpx2.Response:
        body = {"name": name, "schema": SCHEMA, "view-version": VERSION, "properties": {}}
        made = self.http.post(self.url("namespaces", "db", "views"), json=body)
        assert made.status_code == 200, made.text
        return made

    def set_property(self, table: str, key: str, value: str, **headers: str) -> httpx2.Response:
        update = {"action": "set-properties", "updates": {key: value}}
        body = {"requirements": [], "updates": [update]}
        return self.http.post(self.table(table), json=body, headers=headers)


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the type of an error, which must have the protocol's shape."""
    document = answer.json()
    assert list(document) == ["error"], document
    error = document["error"]
    assert sorted(error) == ["code", "message", "type"]
    assert error["code"] == answer.status_code
    assert error["message"]
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, error["type"]
