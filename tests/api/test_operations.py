"""Reads of events: runs, tasks, partitions, health and statistics."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from arco.query.engine import SqlEngine
from tests.api.compaction import compact
from tests.api.events import post, started
from tests.api.server import Options, Served, served

ODD = 'it\'s "odd" \\ %_ -- /* ü 💡 ); DROP'


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("operations") / "s", Options(engine=SqlEngine)) as api:
        yield api


@pytest.fixture
def http(own: Served) -> Iterator[httpx2.Client]:
    with own.client() as client:
        yield client


def _event(kind: str, at: str = "2026-05-01T10:00:00Z", **payload: Any) -> dict[str, Any]:
    return started(event_type=kind, occurred_at=at, payload=payload)


def _append(http: httpx2.Client, *events: dict[str, Any]) -> None:
    answer = post(http, *events)
    assert answer.json()["accepted"] == len(events), answer.text


def _pages(http: httpx2.Client, url: str, **params: Any) -> Iterator[dict[str, Any]]:
    token: str | None = None
    while True:
        asked = params if token is None else {**params, "page_token": token}
        answer = http.get(f"/api/v1{url}", params=asked)
        assert answer.status_code == 200, answer.text
        yield answer.json()
        token = answer.json()["next_page_token"]
        if token is None:
            return


def _name() -> str:
    return uuid4().hex


def test_the_runs_of_a_pipeline_come_latest_first_page_by_page(
    own: Served, http: httpx2.Client
) -> None:
    pipeline, other = _name(), _name()
    began = [f"2026-05-{day:02d}T10:00:00Z" for day in (3, 1, 2, 2, 5)]
    runs = [f"{pipeline}-{number}" for number in range(6)]
    events = [
        _event("execution_started", at, execution_id=run, pipeline_id=pipeline)
        for run, at in zip(runs, began, strict=False)
    ]
    waiting = _event(
        "execution_requested",
        execution_id=runs[5],
        pipeline_id=pipeline,
        run_key="k",
        trigger_type="MANUAL",
    )
    ended = _event("execution_completed", execution_id=runs[0], status="FAILED", duration_ms=5)
    _append(http, *events, waiting, ended)
    _append(http, _event("execution_started", execution_id=_name(), pipeline_id=other))
    compact(own)
    pages = list(_pages(http, f"/pipelines/{pipeline}/runs", page_size=2))
    assert [len(page["items"]) for page in pages] == [2, 2, 2]
    actual = [run["execution_id"] for page in pages for run in page["items"]]
    assert actual == [runs[number] for number in (5, 4, 0, 2, 3, 1)]
    [failed] = next(_pages(http, f"/pipelines/{pipeline}/runs", status="FAILED"))["items"]
    assert (failed["execution_id"], failed["duration_ms"]) == (runs[0], 5)
    assert failed["started_at"] == began[0]
    none = next(_pages(http, f"/pipelines/{pipeline}/runs", status="CANCELLED"))
    assert none == {"items": [], "next_page_token": None}


def test_pages_go_on_behind_any_key_and_any_time(own: Served, http: httpx2.Client) -> None:
    pipeline, run = _name(), _name()
    runs = [f"{pipeline}-{number}" for number in range(4)]
    tasks = [f"a\x1f{number}" for number in range(3)] + ["b" * 255, "\U0001f4a1" * 255]
    _append(
        http,
        *(
            _event("execution_started", f"19{60 + number}-05-01T10:00:00Z", **_run(each, pipeline))
            for number, each in enumerate(runs)
        ),
        *(_event("task_started", execution_id=run, task_id=each) for each in tasks),
    )
    compact(own)
    actual = [
        item["execution_id"]
        for page in _pages(http, f"/pipelines/{pipeline}/runs", page_size=1)
        for item in page["items"]
    ]
    assert actual == runs[::-1], "a clock before 1970 ends no list"
    actual = [
        item["task_id"]
        for page in _pages(http, f"/executions/{run}/tasks", page_size=1)
        for item in page["items"]
    ]
    assert actual == tasks


def test_pages_go_on_behind_the_longest_key(own: Served, http: httpx2.Client) -> None:
    table, keys = _name(), [f"date={letter * 4_000}" for letter in "aé💡"]
    _append(http, *(_event("partition_created", table_id=table, partition_key=key) for key in keys))
    compact(own)
    actual = [
        item["partition_key"]
        for page in _pages(http, f"/tables/{table}/partitions", page_size=1)
        for item in page["items"]
    ]
    assert actual == keys


def _run(execution_id: str, pipeline_id: str) -> dict[str, str]:
    return {"execution_id": execution_id, "pipeline_id": pipeline_id}


def test_pages_are_of_the_manifest_that_the_first_was_read_from(
    own: Served, http: httpx2.Client
) -> None:
    pipeline = _name()
    events = [
        _event("execution_started", execution_id=f"{pipeline}-{n}", pipeline_id=pipeline)
        for n in range(4)
    ]
    _append(http, *events)
    compact(own)
    pages = _pages(http, f"/pipelines/{pipeline}/runs", page_size=2)
    first = next(pages)
    newer = [
        _event("execution_started", execution_id=f"{pipeline}-{n}x", pipeline_id=pipeline)
        for n in range(4)
    ]
    _append(http, *newer)
    compact(own)
    rest = [run["execution_id"] for page in pages for run in page["items"]]
    actual = [run["execution_id"] for run in first["items"]] + rest
    assert actual == [f"{pipeline}-{n}" for n in range(4)]


def test_a_fresh_read_has_what_was_just_acknowledged(http: httpx2.Client) -> None:
    pipeline, run = _name(), _name()
    _append(http, _event("execution_started", execution_id=run, pipeline_id=pipeline))
    url = f"/api/v1/pipelines/{pipeline}/runs"
    assert http.get(url).status_code == 404
    fresh = http.get(url, params={"freshness": "fresh"}).json()
    assert [each["execution_id"] for each in fresh["items"]] == [run]
    one = http.get(f"/api/v1/executions/{run}", params={"freshness": "fresh"})
    assert (one.status_code, one.json()["status"]) == (200, "RUNNING")
    pages = list(_pages(http, f"/pipelines/{pipeline}/runs", freshness="fresh", page_size=1))
    assert len(pages) == 1


def test_a_run_lists_its_tasks_and_their_states(own: Served, http: httpx2.Client) -> None:
    run = _name()
    _append(
        http,
        _event("execution_started", execution_id=run, pipeline_id="p", pipeline_name="P"),
        *[_event("task_started", execution_id=run, task_id=f"t{n}") for n in range(5)],
        _event(
            "task_completed",
            execution_id=run,
            task_id="t1",
            status="SUCCESS",
            rows_written=7,
            output_tables=["a", "b"],
            metrics={"files": 3},
        ),
    )
    compact(own)
    document = http.get(f"/api/v1/executions/{run}").json()
    assert (document["execution_id"], document["pipeline_name"]) == (run, "P")
    assert document["task_counts"] == {"RUNNING": 4, "SUCCESS": 1}
    pages = list(_pages(http, f"/executions/{run}/tasks", page_size=2))
    tasks = [task for page in pages for task in page["items"]]
    assert [task["task_id"] for task in tasks] == [f"t{n}" for n in range(5)]
    assert (tasks[1]["rows_written"], tasks[1]["output_tables"]) == (7, ["a", "b"])
    assert tasks[1]["metrics"] == {"files": "3"}
    assert tasks[0]["output_tables"] is None


def test_tasks_of_a_run_without_events_are_listed(own: Served, http: httpx2.Client) -> None:
    run = _name()
    _append(http, _event("task_started", execution_id=run, task_id="t"))
    compact(own)
    assert len(http.get(f"/api/v1/executions/{run}/tasks").json()["items"]) == 1
    assert http.get(f"/api/v1/executions/{run}").status_code == 404


def test_the_partitions_of_a_table_come_by_key_with_the_counts_of_all(
    own: Served, http: httpx2.Client
) -> None:
    table = _name()
    days = [f"2026-05-{day:02d}" for day in range(1, 8)]
    _append(
        http,
        *[
            _event("partition_completed", table_id=table, partition_values={"d": day}, row_count=1)
            for day in reversed(days[:5])
        ],
        _event("partition_failed", table_id=table, partition_key=f"d={days[5]}", error="no"),
        _event("partition_created", table_id=table, partition_key="d=" + "x" * 2_000),
        _event("partition_created", table_id=table, partition_key="d=" + "x" * 2_001),
        _event("partition_created", table_id=table, partition_id="own id"),
    )
    compact(own)
    pages = list(_pages(http, f"/tables/{table}/partitions", page_size=2))
    assert {str(page["status_counts"]) for page in pages} == {
        "{'COMPLETE': 5, 'FAILED': 1, 'PENDING': 3}"
    }
    actual = [item for page in pages for item in page["items"]]
    assert [item["partition_id"] for item in actual[:1]] == ["own id"]
    assert [item["partition_key"] for item in actual[1:7]] == [f"d={day}" for day in days[:6]]
    assert len({item["partition_id"] for item in actual}) == len(actual) == 9
    assert actual[1]["partition_values"] == {"d": days[0]}
    failed = next(_pages(http, f"/tables/{table}/partitions", status="FAILED"))
    assert [item["error_message"] for item in failed["items"]] == ["no"]
    assert [item["detailed_status"] for item in failed["items"]] == ["FAILED_NEVER_MADE"]
    assert failed["status_counts"]["COMPLETE"] == 5
    made = {"table_id": table, "partition_key": "d=made", "materialization_id": "a-1"}
    made_then_failed = _event("partition_failed", table_id=table, partition_key="d=made")
    _append(http, _event("partition_completed", version=3, **made), made_then_failed)
    fresh = next(_pages(http, f"/tables/{table}/partitions", status="FAILED", freshness="fresh"))
    assert {item["partition_key"]: item["detailed_status"] for item in fresh["items"]} == {
        f"d={days[5]}": "FAILED_NEVER_MADE",
        "d=made": "FAILED_OLDER_DATA_SERVED",
    }


def test_the_health_of_a_table_is_the_latest_result_of_each_check(
    own: Served, http: httpx2.Client
) -> None:
    table = _name()

    def check(name: str, outcome: str, minute: int, **more: Any) -> dict[str, Any]:
        kind = "quality_check_passed" if outcome == "PASSED" else "quality_check_failed"
        at = f"2026-05-01T10:{minute:02d}:00Z"
        named = {"table_id": table, "check_name": name, "check_type": "ROW_COUNT"}
        return _event(kind, at, **named, status=outcome, **more)

    _append(http, check("a", "FAILED", 1), check("a", "PASSED", 2), check("b", "PASSED", 1))
    compact(own)
    well = http.get(f"/api/v1/tables/{table}/health").json()
    assert (well["status"], well["status_counts"]) == ("PASSED", {"PASSED": 2})
    _append(http, check("b", "WARNING", 2, message="few"), check("a", "FAILED", 0))
    compact(own)
    warned = http.get(f"/api/v1/tables/{table}/health").json()
    assert warned["status"] == "WARNING"
    assert [(each["check_name"], each["status"]) for each in warned["checks"]] == [
        ("a", "PASSED"),
        ("b", "WARNING"),
    ]
    assert warned["checks"][1]["message"] == "few"
    _append(http, check("c", "FAILED", 5))
    fresh = http.get(f"/api/v1/tables/{table}/health", params={"freshness": "fresh"}).json()
    assert fresh["status"] == "FAILED"


def test_the_statistics_of_a_table_are_those_of_its_columns_too(
    own: Served, http: httpx2.Client
) -> None:
    table = _name()
    columns = [{"column_id": "c2", "max_value": "9"}, {"column_id": "c1", "null_count": 3}]
    _append(http, _event("table_profiled", table_id=table, row_count=10, columns=columns))
    compact(own)
    document = http.get(f"/api/v1/tables/{table}/statistics").json()
    assert (document["table_id"], document["row_count"], document["source"]) == (
        table,
        10,
        "profiler",
    )
    assert [(each["column_id"], each["null_count"]) for each in document["columns"]] == [
        ("c1", 3),
        ("c2", None),
    ]


@pytest.mark.parametrize("what", ["partitions", "health", "statistics"])
def test_a_table_of_the_catalog_without_events_is_empty_not_unknown(
    http: httpx2.Client, what: str
) -> None:
    schema = "/api/v1/catalogs/default/schemas"
    http.post(schema, json={"name": "facts"})
    body = {"name": f"t{_name()}", "format": "CSV"}
    made = http.post(f"{schema}/facts/tables", json=body).json()
    answer = http.get(f"/api/v1/tables/{made['id']}/{what}")
    assert answer.status_code == 200
    document = answer.json()
    listed = {"partitions": "items", "health": "checks", "statistics": "columns"}[what]
    assert document[listed] == []
    assert document.get("status", "UNKNOWN") == "UNKNOWN"


@pytest.mark.parametrize(
    "path",
    [
        *("/pipelines/{}/runs", "/executions/{}", "/executions/{}/tasks"),
        *("/tables/{}/partitions", "/tables/{}/health", "/tables/{}/statistics"),
    ],
)
@pytest.mark.parametrize("freshness", ["published", "fresh"])
def test_what_has_no_events_is_404(http: httpx2.Client, path: str, freshness: str) -> None:
    for name in (_name(), "%27%20OR%201%3D1%20--", "%5C", "%F0%9F%92%A1"):
        answer = http.get(f"/api/v1{path.format(name)}", params={"freshness": freshness})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), answer.text


def test_names_that_look_like_sql_are_names(own: Served, http: httpx2.Client) -> None:
    from urllib.parse import quote

    odd = f"{ODD} {_name()}"
    _append(
        http,
        _event("execution_started", execution_id=odd, pipeline_id=odd),
        _event("execution_started", execution_id=f"{odd}'", pipeline_id=odd),
        _event("task_started", execution_id=odd, task_id=odd),
        _event("task_started", execution_id=odd, task_id=f"{odd}2"),
    )
    compact(own)
    escaped = quote(odd, safe="")
    assert http.get(f"/api/v1/executions/{escaped}").json()["execution_id"] == odd
    runs = list(_pages(http, f"/pipelines/{escaped}/runs", page_size=1))
    assert [page["items"][0]["execution_id"] for page in runs] == [odd, f"{odd}'"]
    tasks = list(_pages(http, f"/executions/{escaped}/tasks", page_size=1))
    assert [page["items"][0]["task_id"] for page in tasks] == [odd, f"{odd}2"]


def test_the_past_can_be_asked_for(own: Served, http: httpx2.Client) -> None:
    run = _name()
    _append(http, _event("execution_started", execution_id=run, pipeline_id="past"))
    compact(own)
    number = http.get("/api/v1/manifests/executions").json()["number"]
    _append(http, _event("execution_completed", execution_id=run, status="SUCCESS"))
    compact(own)
    url = f"/api/v1/executions/{run}"
    assert http.get(url).json()["status"] == "SUCCESS"
    assert http.get(url, params={"as_of": number}).json()["status"] == "RUNNING"
    assert http.get(url, params={"as_of": 999_999}).status_code == 404
    both = http.get(url, params={"as_of": number, "freshness": "fresh"})
    assert both.status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        *("page_size=0", "page_size=1001", "page_token=x", "freshness=stale", "as_of=never"),
        *("status=OK", "status=%27", "unknown=1"),
        "page_token=WzAsIm5vdCBhIG51bWJlclx1MDAxZngiXQ",
    ],
)
def test_parameters_that_are_wrong_are_400(http: httpx2.Client, query: str) -> None:
    answer = http.get(f"/api/v1/pipelines/p/runs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), answer.text


def test_a_null_character_in_a_name_is_400(http: httpx2.Client) -> None:
    for path in ("/executions/a%00b", "/pipelines/%00/runs", "/tables/%00/health"):
        assert http.get(f"/api/v1{path}", params={"freshness": "fresh"}).status_code == 400
