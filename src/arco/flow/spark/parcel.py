"""The project's modules in one file, for the machines that work for Spark.

What a function of the project refers to travels with it. What it imports only when it runs does not: for
that each machine gets all modules of the project, wherever the master is.
"""

import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

_NOT_CODE = ("__pycache__", "node_modules", "site-packages", "spark-warehouse")
_ENVIRONMENT = "pyvenv.cfg"
_SAME_TIME = (1980, 1, 1, 0, 0, 0)  # so that the same modules make the same file


def send_modules(session: SparkSession, project: Path) -> None:
    """Give Spark the modules of a project.

    This process imports them in its own way, and is not to find them in the file. It lies in a folder that
    Spark removes when it ends: machines that come later fetch it from there.
    """
    files = sorted(modules_of(project))
    if not files:
        return
    place, path = Path(SparkFiles.getRootDirectory()).parent, list(sys.path)
    try:
        session.sparkContext.addPyFile(str(_packed(project, files, place)))
    finally:
        sys.path[:] = path


def modules_of(project: Path) -> Iterator[Path]:
    """The Python files of a project, without environments that lie in its folder."""
    for folder, below, files in os.walk(project):
        below[:] = [
            each
            for each in below
            if not each.startswith(".")
            and each not in _NOT_CODE
            and not Path(folder, each, _ENVIRONMENT).exists()
        ]
        yield from (Path(folder, each) for each in files if each.endswith(".py"))


def _packed(project: Path, files: list[Path], place: Path) -> Path:
    content = {each.relative_to(project).as_posix(): each.read_bytes() for each in files}
    digest = hashlib.sha256(repr(content).encode()).hexdigest()[:12]
    path = place / f"modules-{digest}.zip"
    folders = {f"{each.as_posix()}/" for name in content for each in Path(name).parents}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        # A folder without `__init__.py` is looked for by its own entry.
        for name, code in [*((each, b"") for each in sorted(folders - {"./"})), *content.items()]:
            packed.writestr(zipfile.ZipInfo(name, _SAME_TIME), code)
    return path
