"""Optional libraries: whether they are installed, and whether they may be loaded.

Arrow imports pandas at the first array that it makes, if pandas is installed. That takes longer than most
commands run, and only users' code needs it.
"""

import sys
from importlib.machinery import PathFinder


class _NoPandas:
    """An import finder that hides pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide_pandas() -> None:
    """Make imports of pandas fail in this process, which runs no users' code."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())


def is_spark_installed() -> bool:
    """Whether the libraries of the extra `spark` are installed; they are not loaded."""
    return all(PathFinder.find_spec(name) is not None for name in ("pyspark", "pandas"))
