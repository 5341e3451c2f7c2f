"""Java, and the jars that `tools/fetch_jars.py` has fetched."""

import shutil
from pathlib import Path

import pytest

_JARS = Path(__file__).parents[2] / ".cache" / "jars"


def java() -> str:
    """The command, or a skip that says what is missing."""
    command = shutil.which("java")
    if command is None:
        pytest.skip("Java is not installed: install Java 17 and Maven, then `make interop`")
    return command


def jars(name: str) -> Path:
    """A folder of jars, or a skip that says how to get it."""
    folder = _JARS / name
    if not (folder / ".sha256").exists():
        pytest.skip(
            f"the jars of {name} are not there: install Java 17 and Maven, then `make interop`"
        )
    return folder
