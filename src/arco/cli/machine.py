"""The machine: what Arco needs of it besides a store."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from stat import S_ISDIR

from arco.cli.finding import Finding, Status, failed, ok
from arco.core.errors import Denied, Invalid
from arco.storage.mounts import require_local

_OLDEST_PYTHON = (3, 11)
_OLDEST_JAVA = 17
_SPARK_WANTS = f"Spark needs Java {_OLDEST_JAVA} or newer: install it before arco-lakehouse[spark]."

GONE_AFTER_A_RESTART = "This is memory: what is stored here is gone after a restart."
_IN_MEMORY = ("tmpfs", "ramfs")
_UNUSABLE = "the store's directory cannot be used"


def check_python() -> Finding:
    """The interpreter that runs this."""
    version = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        wanted = ".".join(map(str, _OLDEST_PYTHON))
        return failed("python", version, f"Install Python {wanted} or newer.")
    return ok("python", version)


def check_file_system(directory: Path) -> Finding:
    """What the directory is on, or will be on once it is made; `Unsupported` if that is remote."""
    try:
        there = next(each for each in (directory, *directory.parents) if _is_there(each))
        kind = require_local(there)
    except OSError as problem:
        said = f"{_UNUSABLE}: {os.strerror(problem.errno or 0).lower()}"
        raise (Denied if isinstance(problem, PermissionError) else Invalid)(said) from problem
    if kind in _IN_MEMORY:
        return Finding("file system", Status.NOTE, kind, GONE_AFTER_A_RESTART)
    return ok("file system", kind)


def _is_there(path: Path) -> bool:
    """Whether a directory is there; `Invalid` if something else has its name."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise Invalid(f"{_UNUSABLE}: {str(path)!r} is a link to nowhere") from None
        return False
    except NotADirectoryError:
        return False  # something above it is in the way, and is looked at next
    if not S_ISDIR(mode):
        raise Invalid(f"{_UNUSABLE}: {str(path)!r} is not a directory")
    return True


def check_java() -> Finding:
    """Java is for Spark alone, so its absence is only a note."""
    version = _java_version()
    if version is None:
        return Finding("java", Status.NOTE, "not found", _SPARK_WANTS)
    if version < _OLDEST_JAVA:
        return Finding("java", Status.NOTE, f"Java {version}", _SPARK_WANTS)
    return ok("java", f"Java {version}", version=version)


def _java_version() -> int | None:
    java = shutil.which("java")
    if java is None:
        return None
    try:
        run = subprocess.run(  # noqa: S603 - the user's own PATH names it
            [java, "-version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # a shim without a Java behind it
    found = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(found[1]) if found else None
