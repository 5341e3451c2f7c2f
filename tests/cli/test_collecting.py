"""Garbage collection beside a compactor of its own, and what is told when it fails."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.cli.command import ARCO
from tests.cli.serving import inherited, serving

SECRET = "a-secret-of-our-own-processes-for-tests-only"
SOON = "0.0003"  # of an hour: about a second


@dataclass(frozen=True)
class Compacting:
    """A compactor that is up, and its log."""

    url: str
    log: Path

    def metrics(self) -> str:
        return httpx2.get(f"{self.url}/metrics", trust_env=False).text

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
        found = re.search(r"http://[0-9.]+:[0-9]+", process.stdout.readline())
        try:
            assert found is not None
            yield Compacting(found[0], path)
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_compactor_collects_only_if_it_is_told_to(root: Path) -> None:
    listed = 'arco_store_requests_total{outcome="ok",verb="list"}'
    with compacting(root, "--collect-every", SOON) as collector:
        collector.await_metric(listed)
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


def test_domains_in_which_nothing_was_published_yet_are_there(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served:
        for domain in ("executions", "lineage", "search"):
            answer = httpx2.get(f"{served.url}/api/v1/manifests/{domain}", trust_env=False)
            assert answer.status_code == 200
            assert (answer.json()["domain"], answer.json()["number"]) == (domain, -1)
        missing = httpx2.get(f"{served.url}/api/v1/manifests/nothing", trust_env=False)
        assert missing.status_code == 404
