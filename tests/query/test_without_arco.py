"""What is published can be read without Arco: the documented examples run, and say what Arco says."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from arco.catalog.manifest import Manifest
from arco.catalog.reader import SnapshotReader
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.tail_merge import TailPolicy
from arco.core.clock import utc
from arco.core.scope import Scope
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.ledger.writer import LedgerWriter
from arco.storage.roles import Role
from tests.compactor.in_process_engine import InProcessEngine
from tests.events.stored_lines import line
from tests.query.random_events import NOON, Events
from tests.query.workspace import Workspace, workspace

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "query-metadata.md"
STATUS = ("status", "completed_at", "duration_ms", "error_message")
SHOWN = {
    "duckdb": ("pipeline_id", "started_at", *STATUS),
    "pandas": (
        *("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key", "plan_id"),
        *("started_at", *STATUS),
    ),
}

Rows = dict[str, dict[str, Any]]


def examples() -> list[str]:
    """The blocks of Python of the section, in their order."""
    section = DOCS.read_text().partition("### Tables of events, with DuckDB and pandas")[2]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 3
    return blocks


def documented(engine: str) -> Rows:
    """What an example finds in `.arco` of the working directory."""
    files, *others = examples()
    [example] = [block for block in others if f"import {engine}" in block]
    names: dict[str, Any] = {}
    exec(files + example, names)
    rows = names["rows"] if engine == "duckdb" else names["rows"].reset_index()
    shown = ("execution_id", *SHOWN[engine])
    if engine == "pandas":
        import pyarrow as pa

        rows = pa.Table.from_pandas(rows[list(shown)], preserve_index=False)
    return {row["execution_id"]: row for row in rows.select(shown).to_pylist()}


async def system(space: Workspace, engine: str) -> Rows:
    columns = ", ".join(("execution_id", *SHOWN[engine]))
    rows = (await space.engine.query(f"SELECT {columns} FROM system.executions")).to_pylist()
    return {row["execution_id"]: row for row in rows}


async def published(
    space: Workspace, *, merge: bool = True, retention: dict[str, timedelta] | None = None
) -> Manifest:
    """Some events in the base and some in the tail, about the same executions, and one of long ago."""
    store = space.store(Role.COMPACTOR)
    policy = TailPolicy(longest=3, many_rows=0)
    compactor = DomainCompactor(
        store, EXECUTIONS_DOMAIN, InProcessEngine(store), retention=retention or {}, policy=policy
    )
    events = Events(space.runtime, EXECUTIONS_DOMAIN, 5)
    writer = LedgerWriter(space.store(Role.API), EXECUTIONS_DOMAIN)
    old = {"execution_id": "old", "pipeline_id": "p"}
    done = {"execution_id": "r1", "status": "SUCCESS"}
    await writer.append_lines(
        [line("execution_started", old, second=-2 * 86_400), line("execution_completed", done)]
    )
    for round_ in range(5):
        await writer.append_lines(events.lines(40))
        await compactor.cycle(everything=True)
        if merge and round_ == 2:
            await compactor.merge()
    manifest = (await SnapshotReader(store, EXECUTIONS_DOMAIN).head()).manifest
    assert manifest is not None
    return manifest


@pytest.mark.parametrize("engine", SHOWN)
async def test_the_documented_example_finds_the_rows_that_arco_shows(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Scope().prefix.rstrip("/") == "tenant=default/workspace=default"
    async with workspace(tmp_path / ".arco") as space:
        manifest = await published(space)
        assert manifest.base.index is not None
        assert len(manifest.tail["executions"]) == 2
        rows = await system(space, engine)
        assert documented(engine) == rows
        assert sorted(rows) == ["old", "r1", "r2", "r3", "r4"]
        assert {row["completed_at"] is None for row in rows.values()} == {False, True}


@pytest.mark.parametrize("engine", SHOWN)
async def test_rows_that_have_left_are_not_in_it(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with workspace(tmp_path / ".arco") as space:
        since_noon = utc(space.runtime.clock.now_ms()) - NOON
        manifest = await published(
            space, merge=False, retention={"executions": since_noon + timedelta(days=1)}
        )
        assert manifest.tail["executions"][0].low == ("old",), "it is in a file, and not to be seen"
        rows = await system(space, engine)
        assert documented(engine) == rows
        assert sorted(rows) == ["r1", "r2", "r3", "r4"]
