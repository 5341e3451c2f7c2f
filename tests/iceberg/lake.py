"""One catalog of a running Arco, asked through both of its APIs."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2

COLUMNS = [
    {"name": "id", "data_type": "bigint", "nullable": False},
    {"name": "email", "data_type": "string", "pii_type": "email", "sensitivity": "CONFIDENTIAL"},
]
SCHEMA = {
    "type": "struct",
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


def key() -> dict[str, str]:
    """The header with a fresh idempotency key."""
    return {"Idempotency-Key": str(uuid4())}


@dataclass(frozen=True)
class Lake:
    """A fresh catalog with the schema `db`."""

    http: httpx2.Client
    name: str

    @property
    def schema(self) -> str:
        """The URL of the schema in the native API."""
        return f"/api/v1/catalogs/{self.name}/schemas/db"

    @property
    def namespace(self) -> str:
        """The URL of the same in the Iceberg REST catalog."""
        return f"/iceberg/v1/{self.name}/namespaces/db"

    def native(self, name: str, kind: str = "tables") -> str:
        return f"{self.schema}/{kind}/{name}"

    def rest(self, name: str, kind: str = "tables") -> str:
        return f"{self.namespace}/{kind}/{name}"

    def make_natively(self, name: str, **body: Any) -> Json:
        """A table made through the native API, as it was answered."""
        body = {"name": name, "format": "ICEBERG", "columns": COLUMNS, **body}
        response = self.http.post(f"{self.schema}/tables", json=body)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def make_by_rest(self, name: str) -> Json:
        """A table made through the Iceberg REST catalog, as it was answered."""
        body = {"name": name, "schema": SCHEMA}
        response = self.http.post(f"{self.namespace}/tables", json=body)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def make_view_by_rest(self, name: str) -> Json:
        body = {"name": name, "schema": SCHEMA, "view-version": VERSION, "properties": {}}
        response = self.http.post(f"{self.namespace}/views", json=body)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def shown(self, name: str) -> Json:
        """A table or view as the native API answers it."""
        response = self.http.get(self.native(name))
        assert response.status_code == 200, response.text
        return dict(response.json())

    def loaded(self, name: str, kind: str = "tables") -> Json:
        """The metadata of a table or view as the Iceberg REST catalog gives them."""
        response = self.http.get(self.rest(name, kind))
        assert response.status_code == 200, response.text
        return dict(response.json()["metadata"])

    def fields(self, name: str) -> list[Json]:
        """The fields of a table's current schema."""
        metadata = self.loaded(name)
        current = metadata["current-schema-id"]
        (schema,) = [each for each in metadata["schemas"] if each["schema-id"] == current]
        return list(schema["fields"])

    def commit(self, name: str, *updates: Json) -> httpx2.Response:
        """A commit through the Iceberg REST catalog."""
        body: Json = {"requirements": [], "updates": list(updates)}
        done = self.http.post(self.rest(name), json=body)
        assert done.status_code == 200, done.text
        return done

    def listed(self, kind: str = "tables") -> set[str]:
        """The names that the native API lists."""
        return {each["name"] for each in self.http.get(f"{self.schema}/{kind}").json()["items"]}

    def identifiers(self, kind: str = "tables") -> set[str]:
        """The names that the Iceberg REST catalog lists."""
        identifiers = self.http.get(f"{self.namespace}/{kind}").json()["identifiers"]
        return {each["name"] for each in identifiers}


def names(columns: list[Json]) -> list[str]:
    """The names of columns or fields, in their order."""
    return [each["name"] for each in columns]


def make_lake(http: httpx2.Client) -> Lake:
    """A fresh catalog with an empty schema."""
    lake = Lake(http, f"l{uuid4().hex[:12]}")
    assert http.post("/api/v1/catalogs", json={"name": lake.name}).status_code == 201
    url = f"/api/v1/catalogs/{lake.name}/schemas"
    assert http.post(url, json={"name": "db"}).status_code == 201
    return lake
