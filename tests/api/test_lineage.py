"""Lineage over HTTP."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from arco.query.engine import SqlEngine
from tests.api.compaction import compact
from tests.api.events import post, started
from tests.api.server import Options, Served, served


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("lineage") / "s", Options(engine=SqlEngine)) as api:
        yield api


@pytest.fixture
def http(own: Served) -> Iterator[httpx2.Client]:
    with own.client() as client:
        yield client


def _table(http: httpx2.Client, name: str, *columns: str) -> dict[str, Any]:
    schema = "/api/v1/catalogs/default/schemas"
    http.post(schema, json={"name": "s"})
    body = {
        "name": f"{name}_{uuid4().hex[:8]}",
        "format": "PARQUET",
        "columns": [{"name": each, "data_type": "bigint"} for each in columns],
    }
    made: dict[str, Any] = http.post(f"{schema}/s/tables", json=body).json()
    return made


def _see(
    http: httpx2.Client,
    source: dict[str, Any],
    target: dict[str, Any],
    *edges: tuple[str, str, str],
    run: str | None = None,
) -> None:
    def side(name: str, table: dict[str, Any], column: str) -> dict[str, Any]:
        column_ids = {each["name"]: each["id"] for each in table["columns"]}
        document = {f"{name}_table_id": table["id"], f"{name}_name": column}
        return document if column == "*" else {**document, f"{name}_column_id": column_ids[column]}

    payload = {
        "execution_id": run or f"run {source['name']}",
        "task_id": "t",
        "soundness": "exact" if edges else "table_only",
        "inputs": [{"table_id": source["id"], "name": source["name"]}],
        "outputs": [{"table_id": target["id"], "name": target["name"]}],
        "column_edges": [
            {
                **side("source", source, read),
                **side("target", target, made),
                "transformation_type": kind,
            }
            for read, made, kind in edges
        ],
    }
    answer = post(http, started(event_type="lineage_observed", payload=payload))
    assert answer.json()["accepted"] == 1, answer.text


def _get(http: httpx2.Client, table: dict[str, Any], **asked: Any) -> dict[str, Any]:
    answer = http.get(f"/api/v1/lineage/{table['id']}", params=asked)
    assert answer.status_code == 200, answer.text
    actual: dict[str, Any] = answer.json()
    return actual


def test_lineage_is_walked_up_and_down_with_columns_and_runs(
    own: Served, http: httpx2.Client
) -> None:
    raw, silver, gold = (
        _table(http, "raw", "a"),
        _table(http, "silver", "b"),
        _table(http, "gold", "c"),
    )
    _see(http, raw, silver, ("a", "b", "CAST"), ("a", "*", "FILTER"))
    _see(http, silver, gold)
    compact(own)
    actual = _get(http, silver, columns="true", runs="true")
    assert (actual["direction"], actual["depth"], actual["truncated"]) == ("both", 8, False)
    steps = {node["id"]: (node["up"], node["down"]) for node in actual["nodes"]}
    assert steps == {silver["id"]: (0, 0), raw["id"]: (1, None), gold["id"]: (None, 1)}
    assert {node["name"] for node in actual["nodes"]} == {
        f"default.s.{each['name']}" for each in (raw, silver, gold)
    }
    [into] = [edge for edge in actual["edges"] if edge["target"] == silver["id"]]
    assert (into["column_edges"], into["soundness"]) == (2, ["exact"])
    assert [(each["source_column"], each["target_column"]) for each in into["columns"]] == [
        ("a", "b"),
        ("a", None),
    ]
    assert [run["execution_id"] for run in into["runs"]] == [f"run {raw['name']}"]
    up = _get(http, silver, direction="up", depth=1)
    assert [edge["source"] for edge in up["edges"]] == [raw["id"]]
    assert [node["columns"] for node in up["nodes"]] == [[], []]


@pytest.mark.parametrize("is_compacted", [True, False])
def test_an_edge_that_the_last_writer_did_not_show_is_hidden(
    own: Served, http: httpx2.Client, *, is_compacted: bool
) -> None:
    raw, silver = _table(http, "raw", "a", "b"), _table(http, "silver", "c")
    for version, column in enumerate(("a", "b"), 1):
        _see(http, raw, silver, (column, "c", "DIRECT"), run=f"run {column}")
        written = {"table_id": silver["id"], "partition_key": "", "execution_id": f"run {column}"}
        document = {**written, "version": version}
        event = started(event_type="partition_completed", payload=document)
        assert post(http, event).json()["accepted"] == 1
    if is_compacted:
        compact(own)
    asked = {"freshness": "published" if is_compacted else "fresh"}
    [edge] = _get(http, silver, columns="true", runs="true", **asked)["edges"]
    assert [each["source_column"] for each in edge["columns"]] == ["b"]
    assert {run["execution_id"] for run in edge["runs"]} == {"run a", "run b"}
    assert _get(http, raw, impact="a", **asked)["affected"] == []


def test_the_impact_of_a_column_has_the_path_to_it(own: Served, http: httpx2.Client) -> None:
    raw, silver, gold = (
        _table(http, "raw", "a"),
        _table(http, "silver", "b"),
        _table(http, "gold", "c"),
    )
    _see(http, raw, silver, ("a", "b", "DIRECT"))
    _see(http, silver, gold, ("b", "*", "JOIN"))
    compact(own)
    actual = _get(http, raw, impact="a")
    document = [(each["table_id"], each["column"], each["reach"]) for each in actual["affected"]]
    assert document == [(silver["id"], "b", "value"), (gold["id"], None, "influence")]
    assert [step["table_id"] for step in actual["affected"][1]["path"]] == [
        silver["id"],
        gold["id"],
    ]
    assert actual["column_id"] == raw["columns"][0]["id"]
    assert len(_get(http, raw, impact="a", depth=1, direction="down")["affected"]) == 1
    missing = http.get(f"/api/v1/lineage/{raw['id']}", params={"impact": "nothing"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_what_was_just_acknowledged_is_there_when_it_is_asked_to_be_fresh(
    http: httpx2.Client,
) -> None:
    a, b = _table(http, "a"), _table(http, "b")
    _see(http, a, b)
    assert _get(http, a)["edges"] == []
    [edge] = _get(http, a, freshness="fresh")["edges"]
    assert (edge["source"], edge["target"]) == (a["id"], b["id"])


@pytest.mark.parametrize("freshness", ["published", "fresh"])
def test_an_unknown_table_is_404(http: httpx2.Client, freshness: str) -> None:
    for asked in ({}, {"impact": "a"}, {"columns": "true", "runs": "true"}):
        answer = http.get(
            f"/api/v1/lineage/{uuid4().hex}", params={**asked, "freshness": freshness}
        )
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), answer.text


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"depth": "9"}, "depth is a number of steps from 1 to 8, not 9"),
        ({"depth": "0"}, "depth is a number of steps from 1 to 8, not 0"),
        ({"depth": "many"}, "the parameter 'depth' is a whole number, not 'many'"),
        ({"direction": "left"}, "direction is up, down or both, not 'left'"),
        ({"impact": "a", "direction": "up"}, "impact covers downstream only"),
        ({"impact": "a", "depth": "9"}, "depth is a number of steps from 1 to 8, not 9"),
        ({"impact": "a", "columns": "true"}, "leave both out"),
        ({"upward": "true"}, "unknown parameter 'upward'"),
    ],
)
def test_what_cannot_be_asked_is_400_in_one_sentence(
    http: httpx2.Client, asked: dict[str, str], message: str
) -> None:
    table = _table(http, "t", "a")
    answer = http.get(f"/api/v1/lineage/{table['id']}", params=asked)
    assert answer.status_code == 400
    assert message in answer.json()["detail"]


def test_nothing_can_be_posted_to_a_table(http: httpx2.Client) -> None:
    answer = http.post("/api/v1/lineage/x", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
