"""`kill -9` between two tables that one task appends to: each has its rows once afterwards."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from arco.client.task_catalog import HttpTaskCatalog
from arco.core.runtime import Runtime
from arco.server.embedded import EmbeddedServer
from tests.flow.faults import spark_flags
from tests.flow.faults.audit import with_arco
from tests.flow.faults.project_root import TIMEOUT_S, CommandResult, run_command

_PROJECT = """
from arco import asset

@asset(outputs={"a": "made.a", "b": "made.b"}, mode="append", format="parquet")
def two(spark):
    return {"a": spark.range(10), "b": spark.range(20)}
"""


class _Two:
    """A project with one task and two tables."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pipelines" / "two.py"
        self.file.parent.mkdir()
        self.file.write_text(_PROJECT)
        self.root = folder / "root"
        self._project = folder

    def arco(self, *words: str, dies: bool = False) -> CommandResult:
        module = "tests.flow.faults.kill_between_tables" if dies else "arco.cli.main"
        flags = ("--root", str(self.root), "--project", str(self._project), "--json")
        return run_command(
            [sys.executable, "-m", module, *words, *flags, *spark_flags.FLAGS], TIMEOUT_S
        )

    def rows(self) -> list[int]:
        """How many rows both tables have, by their files."""

        async def look(server: EmbeddedServer, runtime: Runtime) -> list[int]:
            return await asyncio.to_thread(_rows, server.url, runtime)

        return with_arco(self.root, look)

    def document(self, *words: str) -> Any:
        """The document that a command without Spark prints."""
        command = [sys.executable, "-m", "arco.cli.main", *words, "--root", str(self.root)]
        return run_command([*command, "--json"], TIMEOUT_S).document()

    def run_id(self) -> str:
        [run] = self.document("runs")["items"]
        return str(run["run_id"])

    def blocked_reasons(self) -> list[str]:
        plan = self.document("plan", "--project", str(self._project))
        return [each["reason"] for each in plan["blocked"]]


def _rows(url: str, runtime: Runtime) -> list[int]:
    catalog, counts = HttpTaskCatalog(url, runtime), list[int]()
    for name in ("a", "b"):
        table = catalog.find(f"default.made.{name}")
        files = {} if table is None else catalog.files(table.table_id).files
        counts.append(sum(each.rows for some in files.values() for each in some))
    catalog.close()
    return counts


@pytest.mark.interop
@pytest.mark.parametrize("flags", [(), ("--force",)], ids=["plain", "forced"])
def test_a_run_after_a_kill_between_two_tables_appends_to_the_second_alone(
    flags: tuple[str, ...], tmp_path: Path, java: None
) -> None:
    two = _Two(tmp_path)
    assert two.arco("run", dies=True).code == -9
    assert two.rows() == [10, 0]
    second = two.arco("run", *flags)
    assert second.code == 0, second.output + second.errors[-2_000:]
    assert two.rows() == [10, 20]
    assert two.arco("run").document()["tasks"] == []


@pytest.mark.interop
def test_a_retry_with_edited_code_adds_no_rows_until_the_edit_is_reverted(
    tmp_path: Path, java: None
) -> None:
    two = _Two(tmp_path)
    assert two.arco("run", dies=True).code == -9
    run_id = two.run_id()
    two.file.write_text(_PROJECT.replace("range(10)", "range(0, 10)"))
    refused = two.arco("retry", run_id)
    assert refused.code == 2, refused.output
    assert "can be made now" in refused.errors
    assert two.blocked_reasons() == ["APPENDED"]
    assert two.rows() == [10, 0]

    two.file.write_text(_PROJECT)
    second = two.arco("retry", run_id)
    assert second.code == 0, second.output + second.errors[-2_000:]
    assert two.rows() == [10, 20]
