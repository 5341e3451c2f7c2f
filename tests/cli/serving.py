"""A running Arco as a user starts it: `arco up`, a process of its own on a port of its own."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from arco.cli.main import launch
from tests.cli import command
from tests.cli.command import Run

# Few tests are about compaction, and a JVM takes seconds of both cores. Empty counts as not set.
NO_SPARK = {"ARCO_NO_SPARK": "1"}


@dataclass(frozen=True)
class Served:
    """An Arco that answers at `url` and keeps all in `root`."""

    url: str
    root: Path
    ready: str = ""

    def advice(self) -> list[str]:
        """The commands that it has named when it was ready."""
        return re.findall(r"`([^`]*)`", self.ready)

    def arco(self, *arguments: str, **variables: str) -> Run:
        """Run a command against it, in this process: starting one takes longer than what it does."""
        stdout, stderr = StringIO(), StringIO()
        environment = inherited() | {"COLUMNS": "100", "ARCO_URL": self.url, **variables}
        with (
            patch.dict(os.environ, environment, clear=True),
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            code = _code(arguments)
        return Run(arguments, code, stdout.getvalue(), stderr.getvalue())

    def done(self, *arguments: str) -> str:
        """What a command prints that has to succeed."""
        run = self.arco(*arguments)
        assert run.returncode == 0, run.stderr
        assert run.stderr == ""
        return run.stdout

    def document(self, *arguments: str) -> dict[str, Any]:
        """The one document that a command prints for programs."""
        document = json.loads(self.done(*arguments, "--json"))
        assert isinstance(document, dict)
        return document

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """The items of the list that a command prints for programs."""
        items = self.document(*arguments)["items"]
        assert isinstance(items, list)
        return items


@contextmanager
def serving(
    root: Path, *flags: str, store: str | None = None, **variables: str
) -> Iterator[Served]:
    """`arco up` on a directory, or on a store by its URL, until the block ends."""
    place = ("--root", str(root)) if store is None else ("--store", store)
    log = (root.parent / f"{root.name}.log").open("wb")
    with (
        log,
        subprocess.Popen(
            [command.ARCO, "up", *place, "--port", "0", "--no-fsync", *flags],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=inherited() | NO_SPARK | variables,
        ) as process,
    ):
        assert process.stdout is not None
        ready = process.stdout.readline()
        url_match = re.search(r"http://[0-9.]+:[0-9]+", ready)
        assert url_match is not None, ready
        try:
            yield Served(url_match[0], root, ready)
        finally:
            process.terminate()


def _code(arguments: tuple[str, ...]) -> int:
    try:
        return launch(*arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def inherited() -> dict[str, str]:
    """The variables of this process, without any of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
