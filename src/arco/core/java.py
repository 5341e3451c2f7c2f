"""Whether Spark can run here, told before it is started (law 13)."""

import logging
import os
import re
import shutil
import subprocess
from pathlib import Path

from arco.core.errors import Unsupported

OLDEST_JAVA = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_START_S = 30


def check_java(otherwise: str = "") -> None:
    """`Unsupported`, and what to do, unless there is a Java that Spark can run on.

    `otherwise` is what else could be done, such as "go on without Spark (--no-spark)".
    """
    advice = f"install Java {OLDEST_JAVA} or newer and set JAVA_HOME"
    advice += f", or {otherwise}" if otherwise else ""
    java = _find_java(advice)
    version = _version_of(java, advice)
    if version < OLDEST_JAVA:
        raise Unsupported(f"Spark needs Java {OLDEST_JAVA}, and {java} is Java {version}: {advice}")


def quieten_gateway() -> None:
    """Keep traces of the way to the JVM out of the log: that it is lost, we tell in one line."""
    root = logging.getLogger()  # the gateway logs to none of its own
    if _not_of_the_gateway not in root.filters:
        root.addFilter(_not_of_the_gateway)


def _not_of_the_gateway(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _find_java(advice: str) -> str:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise Unsupported(f"Spark needs Java, and JAVA_HOME has no {java}: {advice}")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise Unsupported(f"Spark needs Java, and there is none: {advice}")
    return found


def _version_of(java: str, advice: str) -> int:
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark itself would start
            [java, "-version"], capture_output=True, text=True, timeout=_START_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise Unsupported(f"Spark needs Java, and {java} does not start: {advice}") from problem
    found = _VERSION.search(asked.stderr + asked.stdout)
    if found is None:
        raise Unsupported(f"Spark needs Java, and {java} does not tell its version: {advice}")
    return int(found[1])
