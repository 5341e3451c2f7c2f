"""The Java and the libraries that Spark needs, checked before Spark is started (law 13).

JAVA_HOME comes before the PATH, as in Spark's own launcher and in `tools/find_java`.
"""

import logging
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from arco.core.errors import Unsupported

OLDEST_JAVA = 17
WITHOUT_SPARK = "go on without Spark (--no-spark)"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_START_TIMEOUT_S = 30


@dataclass(frozen=True)
class Java:
    """The Java that Spark would start: its command and its major version."""

    command: str
    version: int


@dataclass(frozen=True)
class NoJava:
    """Spark would find no Java that starts; `reason` continues a sentence."""

    reason: str


def find_java() -> Java | NoJava:
    """Look up the Java that Spark would start, and ask it for its version."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return NoJava("there is none")
    if not os.access(command, os.X_OK):
        return NoJava(f"JAVA_HOME has no {command}")
    try:
        process = subprocess.run(  # noqa: S603 - the program that Spark itself would start
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return NoJava(f"{command} does not start")  # such as macOS's stub without a Java behind it
    version = _VERSION.search(process.stderr + process.stdout)
    if version is None:
        return NoJava(f"{command} does not print its version")
    return Java(command, int(version[1]))


def check_java(otherwise: str = "") -> None:
    """`Unsupported`, and what to do, unless there is a Java that Spark can run on.

    `otherwise` is an alternative for the user, such as `WITHOUT_SPARK`.
    """
    advice = f"install Java {OLDEST_JAVA} or newer and set JAVA_HOME"
    advice += f", or {otherwise}" if otherwise else ""
    java = find_java()
    if isinstance(java, NoJava):
        raise Unsupported(f"Spark needs Java, and {java.reason}: {advice}")
    if java.version < OLDEST_JAVA:
        raise Unsupported(
            f"Spark needs Java {OLDEST_JAVA}, and {java.command} is Java {java.version}: {advice}"
        )


def quieten_gateway() -> None:
    """Keep tracebacks of the connection to the JVM out of the log: its loss is logged in one line."""
    root = logging.getLogger()  # the gateway has no logger of its own
    if _not_of_the_gateway not in root.filters:
        root.addFilter(_not_of_the_gateway)


def _not_of_the_gateway(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts
