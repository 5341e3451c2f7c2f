"""What `sys.modules` shows of a project, while modules of it are executed.

The standard library looks classes up there. It is shown for as long as anybody imports, in however many
threads; the last one to leave puts `sys.modules` and `sys.path` back as they were.
"""

import sys
from threading import Lock
from types import ModuleType


class Shown:
    """The modules of one project that are shown; to be entered around whatever executes some."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._path: list[str] = []
        self._before: dict[str, ModuleType | None] = {}

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._path = list(sys.path)
            self._inside += 1

    def __exit__(self, *_failure: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._put_back()

    def show(self, module: ModuleType) -> None:
        """Show a module under its name, in place of what stands there."""
        name = module.__name__
        self._before.setdefault(name, sys.modules.get(name))
        sys.modules[name] = module

    def _put_back(self) -> None:
        sys.path[:] = self._path
        for name, module in self._before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        self._before.clear()
