"""Pages of other sites in the user's own browser: they may send requests here, and change nothing."""

from pathlib import Path

import httpx2
import pytest

from tests.api.running import Options, Served, served

FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost"},
    {"Origin": ""},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_site_changes_nothing(
    http: httpx2.Client, table: str, headers: dict[str, str]
) -> None:
    born = http.get(table).json()
    undrop = f"/api/v1/objects/{born['id']}/undrop"
    for answer in (
        http.patch(table, json={"comment": "evil"}, headers=headers),
        http.delete(table, headers=headers),
        http.post(undrop, headers=headers),
        http.post("/api/v1/query", json={"sql": "SELECT 1"}, headers=headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    assert http.get(table, headers=headers).json() == born


def test_a_page_of_this_very_server_may(api: Served, http: httpx2.Client, table: str) -> None:
    own = {"Origin": api.url, "Sec-Fetch-Site": "same-origin"}
    assert http.patch(table, json={"comment": "mine"}, headers=own).status_code == 200
    assert http.patch(table, json={}, headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_where_everybody_says_who_they_are_it_does_not_matter(tmp_path: Path) -> None:
    with served(tmp_path / "store", Options(hosts=None)) as api, api.client() as http:
        for headers in FOREIGN:
            made = http.patch("/api/v1/catalogs/default", json={}, headers=headers)
            assert made.status_code == 200
