from uuid import uuid4

import httpx2
import pytest

from tests.api.iceberg.warehouse import Warehouse


@pytest.fixture
def warehouse(http: httpx2.Client) -> Warehouse:
    """A fresh catalog with the empty namespace `db`."""
    name = f"w{uuid4().hex[:12]}"
    assert http.post("/api/v1/catalogs", json={"name": name}).status_code == 201
    config = http.get("/iceberg/v1/config", params={"warehouse": name}).json()
    made = Warehouse(http, name, config["overrides"]["prefix"])
    made.make_namespace("db")
    return made
