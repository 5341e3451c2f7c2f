"""`arco quarantine`: lines that could not be folded, from the ledger to their replay."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from arco.compactor.event_compactor import EventCompactor
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import LedgerWriter
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.cli.serving import Served, serving
from tests.compactor.in_process_engine import InProcessEngine

OBSERVED = {
    "execution_id": "run-7",
    "task_id": "load",
    "soundness": "exact",
    "inputs": [{"table_id": "tbl-raw"}],
    "outputs": [{"table_id": "tbl-orders"}],
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "store") as up:
        yield up


def store_at(root: Path, runtime: Runtime, role: Role) -> Store:
    return Store(LocalBackend(root, runtime, fsync=False), runtime, scope=Scope(), role=role)


def event(runtime: Runtime, name: str, payload: object) -> Envelope:
    now, event_id = utc(runtime.clock.now_ms()), new_ulid(runtime)
    return Envelope(
        event_id=event_id,
        event_type=name,
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=event_id,
        source=Source("test"),
        payload=msgspec.Raw(json.dumps(payload).encode()),
    )


async def compact(root: Path) -> None:
    runtime = system_runtime()
    store = store_at(root, runtime, Role.COMPACTOR)
    tier2 = EventCompactor(store, InProcessEngine(store))
    await tier2.once()
    await tier2.close()


async def quarantine(root: Path) -> None:
    """Store two events that are not of their domain: one that the door would take, one of a newer Arco."""
    runtime = system_runtime()
    writer = LedgerWriter(store_at(root, runtime, Role.API), "executions")
    valid_event = event(runtime, "lineage_observed", OBSERVED)
    await writer.append([valid_event, event(runtime, "something_newer", {"a": 1})])
    await writer.close()
    await compact(root)


def test_lines_are_listed_shown_and_sent_again_unless_they_are_still_unreadable(
    served: Served,
) -> None:
    root = ("--root", str(served.root))
    empty = served.done("quarantine", "list", *root)
    assert len(empty.splitlines()) == 1  # the headings
    asyncio.run(quarantine(served.root))

    first, second = served.done("quarantine", "list", *root).splitlines()[1:]
    name, kind = first.split()[:2]
    assert (name.split("/")[0], kind) == ("executions", "lineage_observed")
    assert "something_newer" in second
    shown = served.done("quarantine", "show", name, *root)
    assert "tbl-orders" in shown
    assert "reason" in shown

    run = served.arco("quarantine", "replay", "--all")
    assert run.returncode == 1
    assert f"{name}: lineage_observed was sent again" in run.stdout
    assert "stays: the event is still refused: unknown event type 'something_newer'" in run.stdout
    assert "1 of the lines stay in quarantine" in run.stderr

    asyncio.run(compact(served.root))
    edges = served.done(
        "sql", "SELECT source_table_id, target_table_id FROM system.lineage_edges", *root
    )
    assert edges.splitlines()[1].split() == ["tbl-raw", "tbl-orders"]
    left = served.done("quarantine", "list", *root).splitlines()[1:]
    assert [line.split()[1] for line in left] == ["something_newer"]
    assert len(served.done("quarantine", "list", "--all", *root).splitlines()) == 3
    assert len(json.loads(served.done("quarantine", "list", "--json", *root))["rows"]) == 1


def test_an_event_of_arco_can_be_sent_again_and_more_than_once(served: Served) -> None:
    document = {"document_id": "tbl-1", "kind": "TABLE", "title": "orders"}

    async def misplace() -> None:
        runtime = system_runtime()
        writer = LedgerWriter(store_at(served.root, runtime, Role.API), "executions")
        await writer.append([event(runtime, "search_document_changed", document)])
        await writer.close()
        await compact(served.root)

    asyncio.run(misplace())
    root = ("--root", str(served.root))
    [line] = served.done("quarantine", "list", *root).splitlines()[1:]
    for _ in range(2):  # as after an answer that was lost
        assert "was sent again" in served.done("quarantine", "replay", line.split()[0])
    asyncio.run(compact(served.root))
    titles = served.done("sql", "SELECT title FROM system.search_documents", *root)
    assert titles.splitlines()[1:] == ["orders"]
    assert len(served.done("quarantine", "list", *root).splitlines()) == 1


def test_a_line_that_is_not_there_or_is_none_is_refused(served: Served) -> None:
    nowhere = "executions/01M7FVEX5ZQ4SN3QGY2E97DMKR/0/1"
    root = ("--root", str(served.root))
    assert served.arco("quarantine", "show", nowhere, *root).returncode == 1
    assert served.arco("quarantine", "replay", nowhere).returncode == 1
    for wrong in ("", "executions", "catalog/01M7FVEX5ZQ4SN3QGY2E97DMKR/0/1", "executions/x/0/a"):
        assert served.arco("quarantine", "show", wrong, *root).returncode == 2
        assert served.arco("quarantine", "replay", wrong).returncode == 2
    assert served.arco("quarantine", "show", "executions/it's/0/1", *root).returncode == 2
    assert served.arco("quarantine", "replay").returncode == 2
    assert served.arco("quarantine", "replay", nowhere, "--all").returncode == 2
