"""SQL over HTTP: results as JSON or Arrow, refusals as problems."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pyarrow as pa
import pytest

from arco.query.engine import SqlEngine
from arco.query.result import ARROW_STREAM as ARROW
from tests.api.engine import ANSWERED
from tests.api.server import Options, Served, served

URL = "/api/v1/query"


@pytest.fixture
def sql(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store", Options(engine=SqlEngine)) as running:
        yield running


def test_the_catalog_is_asked_with_sql_now_and_then(sql: Served) -> None:
    with sql.client() as http:
        for name in ("a", "b"):
            http.post("/api/v1/catalogs", json={"name": name})
        asked = {"sql": "SELECT name FROM system.catalogs ORDER BY name"}
        answer = http.post(URL, json=asked).json()
        assert [column["name"] for column in answer["columns"]] == ["name"]
        assert answer["rows"] == [["a"], ["b"], ["default"]]
        then = http.post(URL, json={**asked, "as_of": "1"}).json()
        assert then["rows"] == [["a"], ["default"]]
        for wrong in ("", "SELEC 1", "DROP TABLE system.catalogs", "SELECT * FROM nothing"):
            refused = http.post(URL, json={"sql": wrong})
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid"), wrong


def test_values_of_every_kind_are_written_as_json(http: httpx2.Client) -> None:
    answer = http.post(URL, json={"sql": ANSWERED}).json()
    assert answer["rows"][0] == [
        *(1, "a", "1.50", "2026-01-31T12:00:00Z", "1970-01-01T00:00:01", "AP8=", None, ["x"])
    ]
    assert answer["rows"][1] == [None, "b", None, None, None, None, 0.5, []]
    assert answer["columns"][0] == {"name": "number", "type": "int64"}


def test_arrow_is_given_to_those_who_accept_it(http: httpx2.Client) -> None:
    for accept in (ARROW, f"application/json;q=0.5, {ARROW}", f"{ARROW};q=0.9"):
        answer = http.post(URL, json={"sql": ANSWERED}, headers={"Accept": accept})
        assert answer.headers["content-type"] == ARROW
        table = pa.ipc.open_stream(answer.content).read_all()
        assert table.column("text").to_pylist() == ["a", "b"]
    for accept in ("*/*", "application/json", f"{ARROW};q=0"):
        answer = http.post(URL, json={"sql": ANSWERED}, headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/json"
