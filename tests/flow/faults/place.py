"""A root with a project beside it: runs that die, runs that go on, and what is there afterwards."""

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
from tests.flow.faults import spark
from tests.flow.faults.moments import Moment
from tests.flow.faults.pipeline import write_project

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 900  # a JVM starts slowly on a busy machine, and a lease has to end


@dataclass(frozen=True)
class Ran:
    """How a process ended, and what it said."""

    code: int
    said: str
    complained: str
    seconds: float

    def document(self) -> dict[str, Any]:
        found = json.loads(self.said)
        assert isinstance(found, dict)
        return found


class Place:
    """A folder with a project and a root, which can be set back to how it was kept."""

    def __init__(self, folder: Path, retries: int = 0) -> None:
        self.root = folder / "root"
        self.project = write_project(folder / "project", retries)
        self._kept = folder / "kept"

    def keep(self) -> None:
        """Remember the root as it is. Tables name their files by where they lie, so it comes back there."""
        shutil.copytree(self.root, self._kept)

    def set_back(self) -> None:
        """The root as it was kept."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self._kept, self.root)

    def arco(self, *arguments: str, within_s: float = PATIENCE_S) -> Ran:
        """An ordinary command of a person."""
        return ran([str(ARCO), *arguments], within_s)

    def run(self, *selection: str, partitions: str, also: Sequence[str] = ()) -> Ran:
        """An ordinary `arco run`."""
        flags = ("--project", str(self.project), "--partitions", partitions)
        own = ("--root", str(self.root), "--no-fsync", "--json")
        return self.arco("run", *selection, *flags, *own, *spark.FLAGS, *also)

    def doomed(
        self, moment: Moment, tables: Sequence[str], *selection: str, partitions: str
    ) -> Ran:
        """A run that is killed once all of these tables have come to the moment."""
        dies = ("--moment", moment.value, "--tables", ",".join(tables))
        return self._child(*dies, "--partitions", partitions, *selection)

    def together(self, count: int, *selection: str, partitions: str) -> Ran:
        """A run of which so many attempts publish at one moment."""
        return self._child("--meet", str(count), "--partitions", partitions, *selection)

    def _child(self, *arguments: str) -> Ran:
        where = ("--root", str(self.root), "--project", str(self.project))
        command = [sys.executable, "-m", "tests.flow.faults.doomed", *where, *arguments]
        return ran(command, PATIENCE_S)

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Rows of system tables, acknowledged facts included."""
        ran = self.arco("sql", query, "--root", str(self.root), "--fresh", "--json")
        assert ran.code == 0, ran.complained
        found = ran.document()
        names = [each["name"] for each in found["columns"]]
        return [dict(zip(names, row, strict=True)) for row in found["rows"]]


def environment() -> dict[str, str]:
    """Ours without the settings of a person, and with the jar that Spark needs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    jar = spark.iceberg_jar()
    return kept if jar is None else kept | {"ARCO_ICEBERG_JAR": str(jar)}


def ran(command: list[str], within_s: float) -> Ran:
    """A process in a group of its own, so that a death takes its JVM along."""
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
    return Ran(process.returncode, process.stdout, process.stderr, took)
