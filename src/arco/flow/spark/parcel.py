"""The project's modules in one file, for the machines that work for Spark.

What a function of the project refers to travels with it. What it imports only when it runs does not: for
that each machine gets all modules of the project, wherever the master is.

A Python process of Spark keeps what it has imported for the tasks that come after. So the digest of the
modules is in the environment of those processes: Spark reuses a process only for functions with the same
environment, and modules that have changed are imported by new ones.
"""

import hashlib
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

_SAME_TIME = (1980, 1, 1, 0, 0, 0)  # so that the same modules make the same file
_PREFIX = "modules-"
_VARIABLE = "ARCO_MODULES"


def send_modules(session: SparkSession, modules: Mapping[str, bytes]) -> None:
    """Give Spark the modules of a project, by their paths in it; earlier ones are not found any more.

    This process imports them in its own way, and is not to find them in the file. It lies in a folder that
    Spark removes when it ends: machines that come later fetch it from there.
    """
    context = session.sparkContext
    # There is no other way to either: pyspark has no call that takes files back.
    includes = context._python_includes  # noqa: SLF001
    if includes is not None:
        includes[:] = [each for each in includes if not each.startswith(_PREFIX)]
    if not modules:
        context.environment.pop(_VARIABLE, None)
        return
    digest = hashlib.sha256(repr(sorted(modules.items())).encode()).hexdigest()[:12]
    place, path = Path(SparkFiles.getRootDirectory()).parent, list(sys.path)
    try:
        context.addPyFile(str(_packed(modules, place / f"{_PREFIX}{digest}.zip")))
    finally:
        sys.path[:] = path
    context.environment[_VARIABLE] = digest


def _packed(modules: Mapping[str, bytes], path: Path) -> Path:
    folders = {f"{each.as_posix()}/" for name in modules for each in Path(name).parents}
    content = sorted(modules.items())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        # A folder without `__init__.py` is looked for by its own entry.
        for name, code in [*((each, b"") for each in sorted(folders - {"./"})), *content]:
            packed.writestr(zipfile.ZipInfo(name, _SAME_TIME), code)
    return path
