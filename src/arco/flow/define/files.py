"""The files that a project is defined by: whether they have changed, and the modules among them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_DEFINING = (".py", ".sql", ".toml")
_NOT_CODE = ("__pycache__", "node_modules", "site-packages", "spark-warehouse")
_ENVIRONMENT = "pyvenv.cfg"

Stamps = Mapping[str, tuple[int, int, int]]
"""When each file was changed, how long it is, and its inode."""


def stamps_of(folder: Path) -> Stamps:
    """The files that define a project as they stand now; others than before if any has changed."""
    found: dict[str, tuple[int, int, int]] = {}
    for path in _walk(folder, _DEFINING):
        try:
            status = path.stat()
        except FileNotFoundError:  # it was removed, or is being replaced, at this moment
            continue
        found[path.as_posix()] = status.st_mtime_ns, status.st_size, status.st_ino
    return found


def modules_of(folder: Path) -> dict[str, bytes]:
    """The Python files of a project by their paths in it, without environments that lie in its folder."""
    return {
        each.relative_to(folder).as_posix(): each.read_bytes()
        for each in sorted(_walk(folder, (".py",)))
    }


def _walk(project: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    for folder, below, files in os.walk(project):
        below[:] = [
            each
            for each in below
            if not each.startswith(".")
            and each not in _NOT_CODE
            and not Path(folder, each, _ENVIRONMENT).exists()
        ]
        yield from (Path(folder, each) for each in files if each.endswith(suffixes))
