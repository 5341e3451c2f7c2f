"""The modules of one project, isolated from those of other projects.

Each project has its own table of modules, and its modules have an `__import__` that looks there first: two
projects may both have a `shared.py`, and a function that imports something when it runs finds it long after
loading. Source files are compiled for each load, so an edit is seen at once.

`sys.modules` holds a project's modules only while they are executed, because the standard library looks
classes up there; afterwards it is restored. One project is loaded at a time in a process, but concurrent
tasks may import its modules at the same time: each is executed once, and completely before others use it.
"""

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Condition, Lock, get_ident
from types import ModuleType

from arco.core.errors import Invalid

_NEVER_OWNED = sys.stdlib_module_names | {"arco"}


@dataclass(frozen=True)
class ModuleCode:
    """A module's name, file and syntax tree, as they were when it was executed."""

    name: str
    file: str
    tree: ast.Module
    is_package: bool


class ProjectModules:
    """The modules of the project in `folder`; names are relative to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._code: dict[str, ModuleCode] = {}
        self._loaded: dict[str, ModuleType] = {}
        self._owned: dict[str, bool] = {}
        self._paths: dict[str, Path | None] = {}
        self._failed: dict[str, BaseException] = {}
        self._locks = ModuleLocks()
        self._overlay = SysModulesOverlay()
        self._builtins = {**vars(builtins), "__import__": self._import}

    def owns(self, name: str) -> bool:
        """Whether a module of this name belongs to the project."""
        top = name.partition(".")[0]
        if top not in self._owned:
            self._owned[top] = self._is_in_folder(top)
        return self._owned[top]

    def _is_in_folder(self, top: str) -> bool:
        if not top or not top.isidentifier():
            return False
        place = self.folder / top
        if place.with_suffix(".py").is_file() or (place / "__init__.py").is_file():
            return top != "arco"
        return top not in _NEVER_OWNED and any(place.glob("**/*.py"))

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder for a module of this name."""
        if not self.owns(name):
            return False
        return self._path(name) is not None or self.folder.joinpath(*name.split(".")).is_dir()

    def code(self, name: str) -> ModuleCode | None:
        """The syntax of a module, executed or not; None for a folder or if there is no such module."""
        path = self._path(name)
        if path is None:
            return self._code.get(name)
        try:
            return self._read(name, path)
        except SyntaxError as wrong:
            raise Invalid(f"{path.name} cannot be read: {wrong}") from wrong

    def load(self, name: str) -> ModuleType:
        """The module of this name, executed at the first call; raises the module's error if it fails."""
        parent = name.rpartition(".")[0]
        if parent:
            self.load(parent)
        with self._locks.hold(name):
            if name in self._loaded:
                return self._loaded[name]
            if name in self._failed:
                raise self._failed[name]
            try:
                module = self._execute(name)
            except (Exception, SystemExit) as failure:
                self._failed[name] = failure
                raise
            if parent:
                setattr(self._loaded[parent], name.rpartition(".")[2], module)
            return module

    def importing(self) -> AbstractContextManager[None]:
        """Show the project's modules in `sys.modules` within this block."""
        return self._overlay

    def _execute(self, name: str) -> ModuleType:
        path = self._path(name)
        if path is not None:
            return self._run(name, path, is_package=path.name == "__init__.py")
        if not self.exists(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        module = self._new(name, None, is_package=True)
        self._loaded[name] = module
        return module

    def _path(self, name: str) -> Path | None:
        """The file of a module; a folder without `__init__.py` has none."""
        if name not in self._paths:
            place = self.folder.joinpath(*name.split("."))
            files = (place / "__init__.py", place.with_suffix(".py"))
            owned = self.owns(name)
            self._paths[name] = next((each for each in files if owned and each.is_file()), None)
        return self._paths[name]

    def _run(self, name: str, path: Path, *, is_package: bool) -> ModuleType:
        code = compile(self._read(name, path).tree, str(path), "exec", dont_inherit=True)
        module = self._new(name, path, is_package=is_package)
        self._loaded[name] = module
        try:
            exec(code, vars(module))  # noqa: S102 - loading a project is running its modules
        except BaseException:
            del self._loaded[name]
            raise
        return module

    def _read(self, name: str, path: Path) -> ModuleCode:
        """A file is read once, so that fingerprints are of the code that is executed."""
        if name not in self._code:
            tree = ast.parse(path.read_bytes(), str(path))
            file = path.relative_to(self.folder).as_posix()
            self._code[name] = ModuleCode(name, file, tree, path.name == "__init__.py")
        return self._code[name]

    def _new(self, name: str, path: Path | None, *, is_package: bool) -> ModuleType:
        module = ModuleType(name)
        spec = ModuleSpec(name, None, origin=str(path), is_package=is_package)
        module.__spec__ = spec
        module.__package__ = name if is_package else name.rpartition(".")[0]
        if path is not None:
            module.__file__ = str(path)
        if is_package:
            folder = self.folder.joinpath(*name.split("."))
            module.__path__ = spec.submodule_search_locations = [str(folder)]
        vars(module)["__builtins__"] = self._builtins
        self._overlay.show(module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as the builtin has it
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        full = absolute(name, str((globals or {}).get("__package__") or ""), level)
        if not self.owns(full):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        with self.importing():
            module = self.load(full)
            if not fromlist:
                return module if level else self.load(full.partition(".")[0])
            for each in self._wanted(module, fromlist):
                if not hasattr(module, each) and self.exists(f"{full}.{each}"):
                    self.load(f"{full}.{each}")
        return module

    def _wanted(self, module: ModuleType, fromlist: Sequence[str]) -> Sequence[str]:
        if "*" not in fromlist:
            return fromlist
        return tuple(getattr(module, "__all__", ()))


def absolute(name: str, package: str, level: int) -> str:
    """The full name of what an import statement in `package` means."""
    if not level:
        return name
    parts = package.split(".") if package else []
    if level > len(parts):
        raise ImportError("attempted relative import beyond the top of the project")
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{name}" if name else base


class ModuleLocks:
    """A lock for each module, so that one thread executes it and the others wait.

    Modules that import each other in different threads would deadlock. As in Python's own imports, one of
    the threads then continues without the lock and gets the partly executed module.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._holders: dict[str, int] = {}  # by module, the thread that holds its lock
        self._waiting: dict[int, str] = {}  # by thread, the module that it waits for

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold the lock of a module; reentrant."""
        with self._changed:
            is_taken = self._take(name)
        try:
            yield
        finally:
            if is_taken:
                with self._changed:
                    del self._holders[name]
                    self._changed.notify_all()

    def _take(self, name: str) -> bool:
        """Wait for the lock; False if this thread holds it already, or waiting would deadlock."""
        me = get_ident()
        self._waiting[me] = name
        try:
            while name in self._holders:
                if self._waits_for_itself(me):
                    return False
                self._changed.wait()
        finally:
            del self._waiting[me]
        self._holders[name] = me
        return True

    def _waits_for_itself(self, me: int) -> bool:
        """Whether this thread waits, perhaps through other threads, for itself."""
        thread: int | None = me
        while thread is not None:
            thread = self._holders.get(self._waiting.get(thread, ""))
            if thread == me:
                return True
        return False


class SysModulesOverlay:
    """Shows the modules of one project in `sys.modules` while any thread imports some.

    The last thread to leave restores `sys.modules` and `sys.path`.
    """

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
        """Show a module under its name, in place of another one."""
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
