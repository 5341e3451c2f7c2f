"""LedgerTidier up: only when it is worth it, said in a line, and never the end of a command."""

import sys
from pathlib import Path

import pytest

from arco.core.runtime import Runtime, system_runtime
from arco.server.ledger_tidier import LedgerTidier
from arco.server.workspace_address import WorkspaceAddress
from tests.flow.work.scripted import Scripted, book_here, carried_out, disk, plan

FEW = 2


async def _worked(root: Path, runtime: Runtime) -> WorkspaceAddress:
    """A place in which a run has left some segments."""
    place = disk(root)
    async with book_here("here", runtime, place) as book:
        await carried_out(book, runtime, Scripted(), plan("a", "b", "c", b=["a"], c=["b"]))
    return place


async def test_a_few_segments_are_left_where_they_are(tmp_path: Path) -> None:
    said: list[str] = []
    runtime = system_runtime()
    place = await _worked(tmp_path, runtime)
    await LedgerTidier(place, runtime, said.append).before()
    await LedgerTidier(place, runtime, said.append).after(None)
    assert said == []


async def test_without_spark_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    runtime = system_runtime()
    place = await _worked(tmp_path, runtime)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    await LedgerTidier(place, runtime, said.append, max_segments=FEW).before()
    [line] = said
    assert "segments wait to be compacted" in line
    assert f"`arco compactor --once --root {tmp_path}`" in line


async def test_a_place_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    said: list[str] = []
    await LedgerTidier(disk(tmp_path / "new"), system_runtime(), said.append).before()
    assert said == []
    assert not (tmp_path / "new").exists()


async def test_what_cannot_be_looked_at_is_told_and_nothing_more(tmp_path: Path) -> None:
    said: list[str] = []
    runtime = system_runtime()
    place = await _worked(tmp_path, runtime)
    [manifests] = tmp_path.glob("**/sequence/executions")
    for each in manifests.glob("**/*.json"):
        each.write_bytes(b"not what it was")
    await LedgerTidier(
        place, runtime, said.append, max_segments_with_spark=FEW, max_segments=FEW
    ).before()
    [line] = said
    assert line.startswith("Events could not be compacted: ")
    assert line.endswith(f"Later, run `arco compactor --once --root {tmp_path}`.")
