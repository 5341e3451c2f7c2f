"""An `arco run` that goes on for as long as a test needs it."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.command import ARCO

_TASK = """
import os, pathlib, time
from arco import task

@task()
def slow(ctx):
    pathlib.Path("began").touch()
    while not os.path.exists("go"):
        time.sleep(0.05)
"""


@contextmanager
def stuck(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """`arco run` with a task of plain Python that nobody can interrupt, once that has begun."""
    (folder / "arco.toml").write_text('name = "slow"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "slow.py").write_text(_TASK)
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    command = [str(ARCO), "run", "--root", "place"]
    with subprocess.Popen(
        command, cwd=folder, env=mine, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        try:
            ends = time.monotonic() + 60
            while not (folder / "began").exists() and time.monotonic() < ends:
                assert running.poll() is None
                time.sleep(0.05)
            yield running
        finally:
            running.kill()
