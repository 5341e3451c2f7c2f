"""Files of plain Parquet tables: published over HTTP, listed by a command, against `arco up`."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.serving import Served, serving

ONE, TWO = (hashlib.sha256(name).hexdigest()[:32] for name in (b"one", b"two"))


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("up") / "store") as served:
        served.done("schema", "create", "sales")
        yield served


def _make(arco: Served, name: str) -> str:
    """A plain Parquet table; its id."""
    arco.done("table", "create", f"sales.{name}", "--format", "parquet", "--column", "id bigint")
    return str(arco.document("table", "show", f"sales.{name}")["id"])


def _folder(arco: Served, table_id: str) -> Path:
    return arco.root / "tenant=default" / "workspace=default" / "warehouse" / table_id


def _staged(arco: Served, table_id: str, attempt_id: str, **more: Any) -> dict[str, Any]:
    """A file of an attempt, as a worker would have written it, and what it asks for."""
    path = f"data/{attempt_id}/part-0.parquet"
    file = _folder(arco, table_id) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"PAR1")
    attempt = {
        "attempt_id": attempt_id,
        "task": "run/sales.orders@ds=1",
        "dispatched_at_number": -1,
        "dispatched_at_ms": int(time.time() * 1000),
        "partitions": ["ds=1"],
    }
    return {
        "table_id": table_id,
        "attempt": attempt,
        "mode": "replace_partition",
        "files": {"ds=1": [{"path": path, "rows": 3, "bytes": 4}]},
        **more,
    }


def _publish(arco: Served, table_id: str, body: dict[str, Any]) -> httpx2.Response:
    url = f"{arco.url}/api/v1/tables/{table_id}/versions"
    return httpx2.post(url, json=body, trust_env=False)


def test_files_that_were_staged_are_seen_once_they_are_published(arco: Served) -> None:
    table_id = _make(arco, "orders")
    body = _staged(arco, table_id, ONE)
    assert arco.done("table", "files", "sales.orders") == ""
    answer = _publish(arco, table_id, body)
    assert (answer.status_code, answer.json()) == (
        200,
        {"number": 0, "rows": 3, "bytes": 4, "files": 1},
    )
    file = _folder(arco, table_id) / "data" / ONE / "part-0.parquet"
    assert arco.done("table", "files", "sales.orders") == f"file://{file}\n"
    now = arco.document("table", "files", "sales.orders")
    assert (now["number"], now["materials"]) == (0, {"ds=1": ONE})
    assert now["location"] == f"file://{_folder(arco, table_id)}/"
    assert now["files"] == body["files"]
    assert _publish(arco, table_id, body).json() == answer.json(), (
        "saying it twice is saying it once"
    )


def test_another_attempt_is_asked_to_stop(arco: Served) -> None:
    table_id = _make(arco, "late")
    assert _publish(arco, table_id, _staged(arco, table_id, ONE)).status_code == 200
    late = _publish(arco, table_id, _staged(arco, table_id, TWO))
    problem = late.json()
    assert (late.status_code, problem["code"]) == (409, "attempt_fenced")
    assert problem["detail"].startswith(f"attempt {ONE} of run/sales.orders@ds=1 has published")
    assert "retry-after" not in late.headers


def test_bad_input_is_refused_with_the_reason(arco: Served) -> None:
    table_id, other = _make(arco, "wrong"), _make(arco, "other")
    body = _staged(arco, table_id, ONE)
    for url, wrong, status in (
        (other, body, 400),
        (table_id, {**body, "mode": "merge"}, 400),
        (table_id, {**body, "files": {"ds=2": []}}, 400),
        (TWO, {**body, "table_id": TWO}, 404),
    ):
        answer = _publish(arco, url, wrong)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
    missing = httpx2.get(f"{arco.url}/api/v1/tables/{TWO}/files", trust_env=False)
    assert missing.status_code == 404


def test_a_table_of_another_format_has_no_such_files(arco: Served) -> None:
    arco.done("table", "create", "sales.ice", "--format", "iceberg", "--column", "id bigint")
    run = arco.arco("table", "files", "sales.ice")
    assert run.returncode != 0
    assert "no plain Parquet table" in run.stderr


def test_a_collection_reports_staged_files(arco: Served) -> None:
    table_id = _make(arco, "old")
    assert _publish(arco, table_id, _staged(arco, table_id, ONE)).status_code == 200
    _staged(arco, table_id, TWO)
    parquet_report = arco.document("gc", "--root", str(arco.root), "--dry-run")["parquet"]
    assert (parquet_report["files"], parquet_report["failed"]) == (0, []), "it is too young"
    left = _folder(arco, table_id) / "data" / TWO / "part-0.parquet"
    year_ago = time.time() - 365 * 86_400
    os.utime(left, (year_ago, year_ago))
    assert "1 files" in arco.done("gc", "--root", str(arco.root))
    assert not left.exists()
    assert len(arco.done("table", "files", "sales.old").splitlines()) == 1
