"""Fresh reads and SQL over HTTP within limits: backlogs, callers that leave, and callers that ask a lot."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from arco.catalog.reader import SnapshotReader
from arco.flow.plan.event_query import FRESH
from arco.flow.plan.plan import ReadPartitions
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from tests.api.events import observed, post
from tests.api.server import Options, Served, served
from tests.api.test_identity import _identity, token
from tests.flow.worker.scripted_executor import plan
from tests.query.workers import sql_processes

URL = "/api/v1/query"
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 3"
LIMITS = QueryLimits(fresh_rows=30_000, workers=2, run_ms=25_000, caller_queue=8)
PAIRS = "SELECT count(*) AS n FROM system.partition_lineage"


def _engine(reader: SnapshotReader) -> SqlEngine:
    return SqlEngine(reader, limits=LIMITS)


@pytest.fixture
def sql(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store", Options(engine=_engine)) as running:
        yield running


def _pairs(table: str) -> dict[str, object]:
    keys = [f"d={at:03d}" for at in range(100)]
    payload = {
        "soundness": "table_only",
        "inputs": [{"table_id": "tbl-a", "partitions": keys}],
        "outputs": [{"table_id": table, "partitions": keys}],
    }
    return {**observed(), "payload": payload}


def test_a_backlog_that_makes_too_many_rows_is_503_with_its_numbers(sql: Served) -> None:
    with sql.client() as http:
        assert post(http, *(_pairs(f"tbl-{at}") for at in range(5))).status_code < 300
        answer = http.post(URL, json={"sql": PAIRS, "freshness": "fresh"})
        document = answer.json()
        assert (answer.status_code, document["code"]) == (503, "backlog_too_large")
        assert "5 events of lineage" in document["detail"]
        assert "50000 rows" in document["detail"]
        assert "published" in document["next_step"]
        assert int(answer.headers["retry-after"]) > 0
        published = http.post(URL, json={"sql": PAIRS})
        assert published.json()["rows"] == [[0]]


def _until(condition: Callable[[], bool], seconds: float = 10) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it has not come about"
        time.sleep(0.02)


class _EndlessRunReads(SqlEngine):
    """Every query over the runs of pipelines is endless once `is_slow` is set."""

    is_slow = False

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> pa.Table:
        text = ENDLESS if self.is_slow and " system." in sql else sql
        return await super().query(text, as_of=as_of, freshness=freshness, caller=caller)


def _slow_engine(reader: SnapshotReader) -> SqlEngine:
    return _EndlessRunReads(reader, limits=LIMITS)


def _plan() -> object:
    reads = (ReadPartitions(table="default.a.b", partitions=("",)),)
    return msgspec.to_builtins(msgspec.structs.replace(plan("a"), reads=reads))


_STATE = ("POST", "/api/v1/flow/state", {"tables": ["default.a.b"]})
_OLD_RUN = ("GET", "/api/v1/runs/old", None)
_OLD_LOG = ("GET", "/api/v1/runs/old/tasks/a/logs", None)
_SLOW_READS = [
    ("POST", URL, {"sql": ENDLESS}),
    ("POST", URL, {"sql": ENDLESS, "freshness": FRESH}),
    _STATE,
    _OLD_RUN,
    _OLD_LOG,
]
_SLOW_REQUESTS = [
    _STATE,
    _OLD_RUN,
    _OLD_LOG,
    ("POST", "/api/v1/runs/old/cancel", {}),
    ("POST", "/api/v1/runs/old/retry", {}),
    ("POST", "/api/v1/runs", {"plan": _plan()}),
]


def test_a_read_by_sql_ends_when_its_caller_hangs_up(tmp_path: Path) -> None:
    with (
        served(tmp_path / "store", Options(engine=_slow_engine)) as running,
        running.client() as http,
    ):
        engine: Any = running.services.engine
        engine.is_slow = True
        host, port = running.url.removeprefix("http://").split(":")
        for method, path, document in _SLOW_READS:
            assert http.post(URL, json={"sql": "SELECT 1"}).status_code == 200
            body = b"" if document is None else json.dumps(document).encode()
            with socket.create_connection((host, int(port))) as caller:
                head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n"
                head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                caller.sendall(head.encode() + body)
                _until(lambda: engine.pool.busy > 0)
            # Long before the query's own time is over.
            _until(lambda: (engine.pool.busy, engine.pool.queued) == (0, 0), 8)
            # A process that was between two requests is kept for the next query.
            _until(lambda: len(sql_processes()) == len(engine.pool._idle))


@pytest.mark.parametrize(
    ("method", "path", "document"), _SLOW_REQUESTS, ids=[path for _, path, _ in _SLOW_REQUESTS]
)
def test_a_caller_with_slow_requests_of_runs_does_not_hold_up_another(
    tmp_path: Path, method: str, path: str, document: dict[str, object] | None
) -> None:
    options = Options(engine=_slow_engine, identity=_identity, hosts=None)
    with (
        served(tmp_path / "store", options) as running,
        running.client(headers=token("user:eve")) as eve,
        running.client(headers=token("user:ann")) as ann,
        ThreadPoolExecutor(3) as threads,
    ):
        engine: Any = running.services.engine
        engine.is_slow = True
        documents = [
            {**(document or {}), "run_key": run_key} if path.endswith("/runs") else document
            for run_key in "abc"
        ]
        slow = [threads.submit(eve.request, method, path, json=each) for each in documents]
        _until(lambda: engine.pool.queued > 0)
        began = time.monotonic()
        assert ann.post(URL, json={"sql": "SELECT 1"}).status_code == 200
        assert time.monotonic() - began < 10  # it waited for none of them
        assert engine.pool.busy == 1
        engine.pool.close()
        assert all(each.result().status_code >= 400 for each in slow)


def test_a_caller_with_ten_slow_queries_does_not_hold_up_another(tmp_path: Path) -> None:
    options = Options(engine=_engine, identity=_identity, hosts=None)
    with (
        served(tmp_path / "store", options) as running,
        running.client(headers=token("user:eve")) as eve,
        running.client(headers=token("user:ann")) as ann,
        ThreadPoolExecutor(10) as threads,
    ):
        assert ann.post(URL, json={"sql": "SELECT 1"}).status_code == 200
        slow = [threads.submit(eve.post, URL, json={"sql": ENDLESS}) for _ in range(10)]
        pool = running.services.engine.pool  # type: ignore[attr-defined]
        _until(lambda: pool.queued == 8)
        for _ in range(5):
            began = time.monotonic()
            assert ann.post(URL, json={"sql": "SELECT 1"}).status_code == 200
            assert time.monotonic() - began < 10  # it waited for none of them
        metrics = ann.get("/metrics").text
        assert "\narco_sql_processes_busy 1.0" in metrics
        assert "\narco_sql_queue_length 8.0" in metrics
        running.services.engine.pool.close()  # type: ignore[attr-defined]
        answers = [each.result() for each in slow]
        [refused] = [each for each in answers if each.status_code == 429]
        assert refused.json()["code"] == "too_many_queries"
        assert int(refused.headers["retry-after"]) > 0
