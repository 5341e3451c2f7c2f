"""Wide tables: what one answer holds is bounded by columns too, not by its items alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arco.api.http.snapshots import PageCursor
from tests.api.running import served

COLUMNS = [{"name": f"c{number}", "data_type": "int"} for number in range(10_000)]
TABLES = "/api/v1/catalogs/default/schemas/wide/tables"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Three tables with ten thousand columns; the first has three versions of them."""
    root: Path = tmp_path_factory.mktemp("wide") / "store"
    with served(root) as api, api.client() as http:
        assert http.post("/api/v1/catalogs/default/schemas", json={"name": "wide"}).is_success
        for name in "abc":
            body = {"name": name, "format": "CSV", "columns": COLUMNS}
            assert http.post(TABLES, json=body).status_code == 201
        for comment in ("1", "2"):
            changed = http.patch(f"{TABLES}/a/columns/c0", json={"comment": comment})
            assert changed.status_code == 200
        yield http


def _pages(http: httpx2.Client, url: str, field: str, **params: str) -> list[list[Any]]:
    pages: list[list[Any]] = []
    token: str | None = ""
    while token is not None:
        more = {"page_token": token} if token else {}
        page = http.get(url, params={**params, **more}).json()
        pages.append([each[field] for each in page["items"]])
        token = page["next_page_token"]
    return pages


def test_a_list_with_columns_ends_its_pages_early(wide: httpx2.Client) -> None:
    assert _pages(wide, TABLES, "name", include="columns") == [["a", "b"], ["c"]]
    assert _pages(wide, TABLES, "name", include="columns", page_size="1") == [["a"], ["b"], ["c"]]
    assert _pages(wide, TABLES, "name") == [["a", "b", "c"]]


def test_versions_of_columns_are_told_a_few_at_a_time(wide: httpx2.Client) -> None:
    assert _pages(wide, f"{TABLES}/a/schema-history", "version") == [[3, 2], [1]]
    assert _pages(wide, f"{TABLES}/a/schema-history", "version", page_size="1") == [[3], [2], [1]]


def test_versions_of_a_wide_table_are_told_a_few_at_a_time(wide: httpx2.Client) -> None:
    object_id = wide.get(f"{TABLES}/a").json()["id"]
    pages = _pages(wide, f"/api/v1/objects/{object_id}/history", "operation")
    assert pages == [["update_column", "update_column"], ["create_table"]]


def test_a_difference_of_wide_tables_ends_its_pages_early(wide: httpx2.Client) -> None:
    pages = _pages(wide, "/api/v1/diff", "kind", **{"from": "1"})
    assert [len(page) for page in pages] == [2, 1]


def test_a_token_above_all_versions_begins_with_the_newest(wide: httpx2.Client) -> None:
    number = wide.get("/api/v1/manifests/catalog").json()["number"]
    above = {"page_token": PageCursor(number, "9" * 18).encode(), "page_size": "1"}
    page = wide.get(f"{TABLES}/a/schema-history", params=above).json()
    assert [each["version"] for each in page["items"]] == [3]
