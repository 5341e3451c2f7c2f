"""The command as a user runs it: a process of its own.

It is forked from a server that has imported Arco already, because most commands take less time than
their imports. Tests of the start itself run `ARCO`, the installed script.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ARCO = Path(sys.executable).with_name("arco")

Run = subprocess.CompletedProcess[str]

_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(
    [
        *("arco.cli.main", "arco.cli.doctor", "arco.cli.objects", "arco.cli.preview"),
        *("arco.cli.flow.run", "arco.cli.flow.plan", "arco.client", "arco.server.all_in_one"),
        *("arco.server.doctor", "arco.query.engine", "pyspark.sql", __name__),
    ]
)


def arco(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Run:
    """Run `arco` with these arguments and, of the ARCO_ variables, only these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    # A process that inherits a narrow terminal from somewhere would wrap its help differently.
    environment = inherited | {"COLUMNS": "100"} | variables
    command = [str(ARCO), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        streams = (Path(folder, "stdout"), Path(folder, "stderr"))
        process = _FORK.Process(target=_run, args=(command, cwd, environment, streams))
        process.start()
        process.join()
        stdout, stderr = (stream.read_text() for stream in streams)
    assert process.exitcode is not None
    return Run(command, process.exitcode, stdout, stderr)


def is_one_sentence(text: str) -> bool:
    """Whether an error is what a person should see: short, ours, and no traceback."""
    return text.startswith("arco: ") and text.count("\n") == 1 and "Traceback" not in text


def _run(
    command: list[str],
    cwd: Path | None,
    environment: Mapping[str, str],
    streams: tuple[Path, Path],
) -> None:
    for descriptor, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = command
    from arco.cli.main import main

    main()
