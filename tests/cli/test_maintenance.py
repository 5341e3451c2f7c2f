"""`arco verify`, `arco gc` and `arco doctor --deep` over a store with events in it."""

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from arco.compactor.domain_compactor import DomainCompactor
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.writer import LedgerWriter
from arco.storage.address import parse_address
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.cli.command import arco, is_one_sentence
from tests.compactor.in_process_engine import InProcessEngine
from tests.ledger.events import note

DOMAIN = "executions"
WORKSPACE = "tenant=default/workspace=default"
HOUR_S = 3_600


@pytest.fixture(scope="module")
def store_with_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which executions were recorded and folded twice, and something waits."""
    root = tmp_path_factory.mktemp("maintenance") / "store"
    asyncio.run(_build(root))
    return root


@pytest.fixture
def root(store_with_events: Path, tmp_path: Path) -> Path:
    """A copy of the store that a test may damage."""
    shutil.copytree(store_with_events, tmp_path / "store", copy_function=shutil.copy2)
    return tmp_path / "store"


async def _build(root: Path) -> None:
    from arco.core.runtime import system_runtime

    runtime = system_runtime()
    backend = open_backend(parse_address(str(root)), runtime, fsync=False)

    def store(role: Role) -> Store:
        return Store(backend, runtime, scope=Scope(), role=role)

    compactor = DomainCompactor(
        store(Role.COMPACTOR), DOMAIN, InProcessEngine(store(Role.COMPACTOR))
    )
    writer = LedgerWriter(store(Role.API), DOMAIN)
    for _ in range(2):
        await _append_events(writer, runtime)
        await compactor.cycle(everything=True)
    await _append_events(writer, runtime)
    await compactor.close()


async def _append_events(writer: LedgerWriter, runtime: Runtime) -> None:
    await writer.append([note(runtime)])  # of no kind that is known, so it ends in quarantine


def parse_document(run_stdout: str) -> dict[str, Any]:
    document = json.loads(run_stdout)
    assert isinstance(document, dict)
    return document


def one(root: Path, pattern: str) -> Path:
    """The first object that a pattern matches, open to changes."""
    path = min((root / WORKSPACE).glob(pattern))
    path.chmod(0o644)
    return path


def test_verify_checks_every_domain_that_has_something(root: Path) -> None:
    run = arco("verify", "--root", root)
    assert run.returncode == 0, run.stderr
    assert "executions: checked versions 0 to 1: 2 manifests" in run.stdout
    assert "Anchor: executions:1:" in run.stdout
    assert "lineage" not in run.stdout
    anchor = run.stdout.rsplit("Anchor: ", 1)[1].strip()
    assert arco("verify", "--root", root, "--expect", anchor).returncode == 0
    number, sha256 = anchor.split(":")[1:]
    alone = arco("verify", "--root", root, "--domain", DOMAIN, "--expect", f"{number}:{sha256}")
    assert alone.returncode == 0, alone.stderr
    other = arco("verify", "--root", root, "--expect", f"{DOMAIN}:1:{'0' * 64}")
    assert (other.returncode, "was expected" in other.stdout) == (1, True)


def test_verify_names_what_is_wrong_in_a_domain_of_events(root: Path) -> None:
    spoilt = one(root, f"quarantine/{DOMAIN}/all/quarantine/*.parquet")
    spoilt.write_bytes(spoilt.read_bytes()[:-1])
    run = arco("verify", "--root", root, "--json")
    document = parse_document(run.stdout)
    assert (run.returncode, document["ok"]) == (1, False)
    assert document["problem"]["path"].endswith(spoilt.name)
    assert document["domains"][DOMAIN]["ok"] is False
    assert document["domains"]["lineage"]["head"] == -1
    result = arco("verify", "--root", root)
    assert f"WRONG: quarantine/{DOMAIN}" in result.stdout
    assert "restore that object" in result.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ("--domain", "nothing"),
        ("--expect", "executions"),
        ("--expect", f"nothing:1:{'0' * 64}"),
        ("--domain", "lineage", "--expect", f"executions:1:{'0' * 64}"),
        ("--expect", f"1:{'0' * 64}", "--expect", f"catalog:2:{'0' * 64}"),
    ],
)
def test_a_domain_or_an_anchor_that_makes_no_sense_is_misuse(
    flags: tuple[str, ...], root: Path
) -> None:
    run = arco("verify", "--root", root, *flags)
    assert (run.returncode, run.stdout) == (2, "")
    assert is_one_sentence(run.stderr), run.stderr


def test_a_domain_in_which_nothing_was_published_is_no_success_if_it_is_asked_for(
    root: Path,
) -> None:
    run = arco("verify", "--root", root, "--domain", "search")
    assert run.returncode == 1
    assert "nothing was published" in run.stderr


def test_gc_reports_what_is_deleted_by_domain(root: Path) -> None:
    old_s = time.time() - 30 * 24 * HOUR_S
    for path in (root / WORKSPACE).rglob("*.json*"):
        os.utime(path, (old_s, old_s))
    run = arco("gc", "--root", root, "--dry-run", "--no-fsync")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Would delete 4 objects")
    for line in ("executions manifests", "executions commits", "executions segments"):
        assert line in run.stdout
    document = parse_document(arco("gc", "--root", root, "--json", "--no-fsync").stdout)
    assert document["dry_run"] is False
    deleted = document["domains"][DOMAIN]
    assert (deleted["manifests"]["objects"], deleted["commits"]["objects"]) == (1, 1)
    assert deleted["segments"]["objects"] == 2
    assert set(document["domains"]) == {"catalog", DOMAIN, "lineage", "search"}
    assert arco("verify", "--root", root).returncode == 0
    second_report = parse_document(arco("gc", "--root", root, "--json", "--no-fsync").stdout)
    assert second_report["domains"][DOMAIN]["manifests"]["objects"] == 0


def test_a_deep_look_counts_and_finds_nothing_wrong(root: Path) -> None:
    run = arco("doctor", "--deep", "--root", root, "--no-fsync", "--json")
    document = parse_document(run.stdout)
    assert run.returncode == 0, document
    [domain] = [each for each in document["checks"] if each["name"] == DOMAIN]
    assert domain["measured"]["head"] == 1
    assert domain["measured"]["segments"] == 3
    assert domain["measured"]["waiting_segments"] == 1
    assert [each["name"] for each in document["checks"][-5:]] == [
        *("catalog", DOMAIN, "lineage", "search", "iceberg tables")
    ]
    shallow = parse_document(arco("doctor", "--root", root, "--no-fsync", "--json").stdout)
    assert DOMAIN not in {each["name"] for each in shallow["checks"]}


def test_a_deep_look_names_what_is_lost_and_what_to_do_and_fails(root: Path) -> None:
    one(root, f"ledger/{DOMAIN}/*/000000000001.jsonl").unlink()
    run = arco("doctor", "--deep", "--root", root, "--no-fsync")
    assert run.returncode == 1
    assert "000000000001.jsonl: is missing" in run.stdout
    assert "Restore it from a backup" in run.stdout
    assert "checks failed: executions." in run.stderr


def test_events_without_a_compactor_are_reported(root: Path) -> None:
    waits = one(root, f"ledger/{DOMAIN}/*/000000000002.jsonl")
    os.utime(waits, (time.time() - HOUR_S,) * 2)
    run = arco("doctor", "--deep", "--root", root, "--no-fsync")
    assert run.returncode == 1
    assert "have waited 60 minutes to be published" in run.stdout
    assert "arco compactor" in run.stdout


def test_a_machine_that_fails_is_not_looked_at_any_deeper(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    run = arco("doctor", "--deep", "--root", tmp_path / "taken", "--json")
    document = parse_document(run.stdout)
    assert run.returncode == 1
    assert DOMAIN not in {each["name"] for each in document["checks"]}
