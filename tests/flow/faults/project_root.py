"""A root with a project beside it: runs that are killed, and runs that continue."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import ARCO
from tests.flow.faults import spark_flags
from tests.flow.faults.kill_points import KillPoint
from tests.flow.faults.pipeline import write_project
from tests.iceberg_jar import iceberg_jar

REPOSITORY = Path(__file__).parents[3]
TIMEOUT_S = 900  # a JVM starts slowly on a busy machine, and a lease has to end


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a process."""

    code: int
    output: str
    errors: str
    seconds: float

    def document(self) -> dict[str, Any]:
        document = json.loads(self.output)
        assert isinstance(document, dict)
        return document


class ProjectRoot:
    """A folder with a project and a root, which can be restored to a saved state."""

    def __init__(self, folder: Path, retries: int = 0) -> None:
        self.root = folder / "root"
        self.project = write_project(folder / "project", retries)
        self._kept = folder / "kept"

    def keep(self) -> None:
        """Save the root. Tables have absolute paths, so it is restored to the same folder."""
        shutil.copytree(self.root, self._kept)

    def restore(self) -> None:
        """Restore the saved root."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self._kept, self.root)

    def arco(self, *arguments: str, within_s: float = TIMEOUT_S) -> CommandResult:
        """A command of the user."""
        return run_command([str(ARCO), *arguments], within_s)

    def run(self, *selection: str, partitions: str, also: Sequence[str] = ()) -> CommandResult:
        """An ordinary `arco run`."""
        flags = ("--project", str(self.project), "--partitions", partitions)
        own = ("--root", str(self.root), "--no-fsync", "--json")
        return self.arco("run", *selection, *flags, *own, *spark_flags.FLAGS, *also)

    def run_killed(
        self, point: KillPoint, tables: Sequence[str], *selection: str, partitions: str
    ) -> CommandResult:
        """A run that is killed once all of these tables have reached the kill point."""
        dies = ("--moment", point.value, "--tables", ",".join(tables))
        return self._child(*dies, "--partitions", partitions, *selection)

    def together(self, count: int, *selection: str, partitions: str) -> CommandResult:
        """A run of which so many attempts publish at the same time."""
        return self._child("--meet", str(count), "--partitions", partitions, *selection)

    def _child(self, *arguments: str) -> CommandResult:
        where = ("--root", str(self.root), "--project", str(self.project))
        command = [sys.executable, "-m", "tests.flow.faults.killed_run", *where, *arguments]
        return run_command(command, TIMEOUT_S)

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Rows of system tables, acknowledged facts included."""
        run_command = self.arco("sql", query, "--root", str(self.root), "--fresh", "--json")
        assert run_command.code == 0, run_command.errors
        answer = run_command.document()
        names = [each["name"] for each in answer["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["rows"]]


def environment() -> dict[str, str]:
    """The environment without settings of the user, and with the jar that Spark needs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    return kept | {"ARCO_ICEBERG_JAR": str(iceberg_jar())}


def run_command(command: list[str], within_s: float) -> CommandResult:
    """Run a process in a new process group, so that killing it kills its JVM too."""
    begun = time.monotonic()
    process = subprocess.run(  # noqa: PLW1510 - its code is the caller's business
        command,
        capture_output=True,
        text=True,
        timeout=within_s,
        cwd=REPOSITORY,
        env=environment(),
        start_new_session=True,
    )
    took = time.monotonic() - begun
    return CommandResult(process.returncode, process.stdout, process.stderr, took)
