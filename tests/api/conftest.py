"""One server for all tests that do not need one of their own; each works in a catalog of its own."""

from collections.abc import Iterator
from uuid import uuid4

import httpx2
import pytest

from tests.api.server import Served, served


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("api") / "store") as running:
        yield running


@pytest.fixture(scope="session")
def http(api: Served) -> Iterator[httpx2.Client]:
    with api.client() as client:
        yield client


@pytest.fixture
def catalog(http: httpx2.Client) -> str:
    """The name of a fresh catalog."""
    name = f"c{uuid4().hex[:12]}"
    assert http.post("/api/v1/catalogs", json={"name": name}).status_code == 201
    return name


@pytest.fixture
def schema(http: httpx2.Client, catalog: str) -> str:
    """The URL of a fresh schema."""
    url = f"/api/v1/catalogs/{catalog}/schemas"
    assert http.post(url, json={"name": "raw"}).status_code == 201
    return f"{url}/raw"


@pytest.fixture
def table(http: httpx2.Client, schema: str) -> str:
    """The URL of a fresh table with two columns."""
    columns = [
        {"name": "id", "data_type": "BIGINT", "nullable": False},
        {"name": "email", "data_type": "string", "pii_type": "email"},
    ]
    body = {"name": "orders", "format": "PARQUET", "columns": columns}
    assert http.post(f"{schema}/tables", json=body).status_code == 201
    return f"{schema}/tables/orders"
