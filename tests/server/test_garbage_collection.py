"""Garbage collection in a server, and its log and metrics when it fails."""

import io
import json
import re
import subprocess
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.core.runtime import system_runtime
from arco.core.tasks import AsyncioTasks
from arco.server.all_in_one import ServerContext, ServerSettings, open_server
from arco.server.workspace_address import WorkspaceAddress
from tests.cli.command import ARCO
from tests.cli.serving import inherited, serving

SECRET = "a-secret-of-our-own-processes-for-tests-only"
SOON = "0.0003"  # of an hour: about a second
HOURS_MS = 10 * 60_000  # from so long on it is the time between collections

T = TypeVar("T")


@dataclass(frozen=True)
class Compacting:
    """A compactor that is up, and its log."""

    url: str
    log: Path

    def metrics(self) -> str:
        return httpx2.get(f"{self.url}/metrics", trust_env=False).text

    def count(self, metric: str) -> float:
        sample = re.search(re.escape(metric) + r" (\S+)", self.metrics())
        return 0 if sample is None else float(sample[1])

    def await_metric(self, wanted: str) -> None:
        until_s = time.monotonic() + 30
        while wanted not in self.metrics():
            assert time.monotonic() < until_s, f"{wanted} did not come"
            time.sleep(0.1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that a server has written and left."""
    with serving(tmp_path / "store"):
        pass
    return tmp_path / "store"


@contextmanager
def compacting(root: Path, *flags: str) -> Iterator[Compacting]:
    """`arco compactor` on a directory, until the block ends."""
    path = root.parent / "compactor.log"
    command = [str(ARCO), "compactor", "--root", str(root), "--port", "0", "--no-fsync", *flags]
    with (
        path.open("wb") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=inherited() | {"ARCO_SERVICE_TOKEN": SECRET},
        ) as process,
    ):
        assert process.stdout is not None
        url_match = re.search(r"http://[0-9.]+:[0-9]+", process.stdout.readline())
        try:
            assert url_match is not None
            yield Compacting(url_match[0], path)
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_compactor_collects_only_with_the_flag(root: Path) -> None:
    listed = 'arco_store_requests_total{outcome="ok",verb="list"}'
    with compacting(root, "--collect-every", SOON) as collector:
        collector.await_metric(listed)
        for what in ("collection", "inspection"):
            last_success = f'arco_{what}_last_success_timestamp_seconds{{domain="catalog"}}'
            collector.await_metric(last_success)
            assert 0 <= time.time() - collector.count(last_success) < 60
        assert "arco_background_failures_total{" not in collector.metrics()
    with compacting(root) as quiet:
        time.sleep(2)
        assert listed not in quiet.metrics()


def test_a_collection_that_fails_is_logged_and_counted(root: Path) -> None:
    manifests = root / "tenant=default/workspace=default/manifests/catalog"
    (manifests / "head.json").unlink(missing_ok=True)
    for manifest in manifests.glob("0*.json"):
        manifest.chmod(0o644)
        manifest.write_bytes(b"nonsense with a word of its own")
    with compacting(root, "--collect-every", SOON) as collector:
        collector.await_metric('arco_background_failures_total{what="collection"}')
    lines = [json.loads(line) for line in collector.log.read_bytes().splitlines()]
    failed = [line for line in lines if line["event"] == "collection failed"]
    assert failed
    assert {(line["level"], line["error"]) for line in failed} == {("error", "Corrupt")}
    assert all(line["places"] for line in failed)
    assert "a word of its own" not in collector.log.read_text()


def test_domains_without_a_manifest_have_a_head(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served:
        for domain in ("executions", "lineage", "search"):
            answer = httpx2.get(f"{served.url}/api/v1/manifests/{domain}", trust_env=False)
            assert answer.status_code == 200
            assert (answer.json()["domain"], answer.json()["number"]) == (domain, -1)
        missing = httpx2.get(f"{served.url}/api/v1/manifests/nothing", trust_env=False)
        assert missing.status_code == 404


def _spoilt_tables(root: Path) -> tuple[str, str]:
    """Ids of two tables, one of plain files and one of Iceberg, whose versions cannot be read."""
    columns = {
        "type": "struct",
        "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}],
    }
    with serving(root) as served:
        served.done("schema", "create", "s")
        for name in ("well", "ill"):
            plain = served.document("table", "create", f"s.{name}", "--format", "parquet")["id"]
        made = httpx2.post(
            f"{served.url}/iceberg/v1/default/namespaces/s/tables",
            json={"name": "worse", "schema": columns},
            trust_env=False,
        )
        assert made.status_code == 200, made.text
        iceberg = served.document("table", "show", "s.worse")["id"]
    catalog = root / "tenant=default/workspace=default/_catalog"
    for key in (f"parquet_pointers/{plain}", f"iceberg_pointers/{iceberg}"):
        file = catalog / key / f"{0:020d}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(b"nonsense with a word of its own")
    return str(plain), str(iceberg)


def test_a_table_that_cannot_be_collected_is_logged_once_and_counted_each_time(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    spoilt = _spoilt_tables(root)
    counted = 'arco_background_failures_total{what="collection of a table"}'
    with compacting(root, "--collect-every", SOON) as collector:
        until_s = time.monotonic() + 30
        while collector.count(counted) < 4:  # two rounds of two tables
            assert time.monotonic() < until_s
            time.sleep(0.1)
    lines = [json.loads(line) for line in collector.log.read_bytes().splitlines()]
    failed = [line for line in lines if line["event"] == "collection of a table failed"]
    assert sorted(line["table"] for line in failed) == sorted(spoilt)
    assert {(line["level"], line["error"]) for line in failed} == {("error", "Corrupt")}
    assert all(line["places"] for line in failed)
    assert "a word of its own" not in collector.log.read_text()


class _Hasty(AsyncioTasks):
    """To whom the hours between collections are a moment."""

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        return await super().deadline(ms if ms < HOURS_MS else 50, work)


async def test_the_janitor_of_arco_up_logs_such_tables_too(tmp_path: Path) -> None:
    root = tmp_path / "store"
    spoilt = _spoilt_tables(root)
    stream, metrics = io.BytesIO(), Metrics()
    runtime = replace(system_runtime(), tasks=_Hasty())
    log = Log(stream, runtime.clock)
    context = ServerContext(WorkspaceAddress(root=str(root), no_fsync=True), runtime, log, metrics)
    server = await open_server(context, await context.open_stores(), ServerSettings(), raising)
    async with server.running():
        while server.janitor.runs < 2:
            await runtime.clock.sleep(10)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    failures = [line for line in lines if line["event"] == "collection of a table failed"]
    assert sorted(line["table"] for line in failures) == sorted(spoilt)


def raising(problem: Exception) -> None:
    raise problem
