"""Whether Spark can run here, told before it is started (law 13)."""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from arco.core.errors import Unsupported

OLDEST_JAVA = 17

_ADVICE = (
    f"install Java {OLDEST_JAVA} or newer and set JAVA_HOME, or go on without Spark (--no-spark)"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_START_S = 30


def spark_installed() -> bool:
    """Whether the libraries of the extra `spark` are there; they are not loaded."""
    return all(find_spec(name) is not None for name in ("pyspark", "pandas"))


def check_java() -> None:
    """`Unsupported`, and what to do, unless there is a Java that Spark can run on."""
    java = _find_java()
    version = _version_of(java)
    if version < OLDEST_JAVA:
        raise Unsupported(
            f"Spark needs Java {OLDEST_JAVA}, and {java} is Java {version}: {_ADVICE}"
        )


def _find_java() -> str:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise Unsupported(f"Spark needs Java, and JAVA_HOME has no {java}: {_ADVICE}")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise Unsupported(f"Spark needs Java, and there is none: {_ADVICE}")
    return found


def _version_of(java: str) -> int:
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark itself would start
            [java, "-version"], capture_output=True, text=True, timeout=_START_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise Unsupported(f"Spark needs Java, and {java} does not start: {_ADVICE}") from problem
    found = _VERSION.search(asked.stderr + asked.stdout)
    if found is None:
        raise Unsupported(f"Spark needs Java, and {java} does not tell its version: {_ADVICE}")
    return int(found[1])
