"""Compaction by commands: only of many segments, shown in a line, and never a failure of the command."""

from pathlib import Path

import pytest

from arco.core.runtime import Runtime, system_runtime
from arco.server.embedded_compaction import EmbeddedCompaction
from arco.server.workspace_address import WorkspaceAddress
from tests.flow.worker.scripted_executor import (
    ScriptedExecutor,
    disk_place,
    open_coordinator,
    plan,
    run_plan,
)

FEW = 2


async def _worked(root: Path, runtime: Runtime) -> WorkspaceAddress:
    """A store in which a run has left some segments."""
    place = disk_place(root)
    async with open_coordinator("here", runtime, place) as book:
        await run_plan(book, runtime, ScriptedExecutor(), plan("a", "b", "c", b=["a"], c=["b"]))
    return place


async def test_a_few_segments_are_not_compacted(tmp_path: Path) -> None:
    lines: list[str] = []
    runtime = system_runtime()
    place = await _worked(tmp_path, runtime)
    await EmbeddedCompaction(place, runtime, lines.append).before_command()
    await EmbeddedCompaction(place, runtime, lines.append).after_command(None)
    assert lines == []


async def test_without_spark_the_command_to_run_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    runtime = system_runtime()
    place = await _worked(tmp_path, runtime)
    monkeypatch.setattr("arco.server.embedded_compaction.is_spark_installed", lambda: False)
    await EmbeddedCompaction(place, runtime, lines.append, max_segments=FEW).before_command()
    [line] = lines
    assert "segments wait to be compacted" in line
    assert f"`arco compactor --once --root {tmp_path}`" in line


async def test_a_store_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    lines: list[str] = []
    await EmbeddedCompaction(
        disk_place(tmp_path / "new"), system_runtime(), lines.append
    ).before_command()
    assert lines == []
    assert not (tmp_path / "new").exists()


async def test_a_ledger_that_cannot_be_read_is_reported_and_fails_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    runtime = system_runtime()
    place = await _worked(tmp_path, runtime)
    [manifests] = tmp_path.glob("**/sequence/executions")
    for each in manifests.glob("**/*.json"):
        each.write_bytes(b"not what it was")
    await EmbeddedCompaction(
        place, runtime, lines.append, max_segments_with_spark=FEW, max_segments=FEW
    ).before_command()
    [line] = lines
    assert line.startswith("Events could not be compacted: ")
    assert line.endswith(f"Later, run `arco compactor --once --root {tmp_path}`.")
