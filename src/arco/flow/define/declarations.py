"""The declarations of a project while it is loaded, and the problems found in them.

A declaration finds its project in a context variable that is set during loading only. Without one, as in a
unit test that imports a module directly, a declaration is validated and not recorded; a problem is raised.
"""

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar, cast

from arco.core.errors import Invalid
from arco.flow.table_name import qualified_name

if TYPE_CHECKING:
    from arco.flow.define.asset import AssetDef, TaskDef
    from arco.flow.define.check_rules import CheckDef
    from arco.flow.define.inputs import SourceDef
    from arco.flow.define.options import Settings

F = TypeVar("F", bound=Callable[..., object])

_PACKAGE = str(Path(__file__).parent)


@dataclass(frozen=True, order=True)
class SourceLine:
    """A line of a file; the path is relative to the project, so that it is the same on every machine."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = SourceLine("", 0)


@dataclass(frozen=True, order=True)
class DefinitionProblem:
    """Something to correct in a project; the file is relative to its folder, line 0 is the entire file."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass
class Declarations:
    """Everything that the modules of one project have declared so far."""

    folder: Path
    settings: "Settings"
    assets: list["AssetDef"] = field(default_factory=list)
    sources: list["SourceDef"] = field(default_factory=list)
    checks: list["CheckDef"] = field(default_factory=list)
    tasks: list["TaskDef"] = field(default_factory=list)
    problems: list[DefinitionProblem] = field(default_factory=list)
    warnings: list[DefinitionProblem] = field(default_factory=list)  # do not prevent planning
    unread: list[str] = field(default_factory=list)  # the text of files that could not be loaded
    sql_files: set[Path] = field(default_factory=set)  # those that a module has declared
    declared_in: SourceLine | None = None  # set while a SQL or TOML file is read


_current: ContextVar[Declarations | None] = ContextVar("_current", default=None)


@contextmanager
def collect_into(declarations: Declarations) -> Iterator[None]:
    """Record declarations in `declarations` within this block."""
    token = _current.set(declarations)
    try:
        yield
    finally:
        _current.reset(token)


def current_declarations() -> Declarations | None:
    """The declarations of the project that is being loaded, if any."""
    return _current.get()


def declared_at() -> SourceLine:
    """The line of the project that is declaring something."""
    declarations = current_declarations()
    if declarations is None:
        return _calling_line(None)
    return declarations.declared_in or _calling_line(declarations.folder)


def report_problem(message: str) -> None:
    """Record that a declaration is wrong and continue; outside of a project raise `Invalid`."""
    declarations = current_declarations()
    if declarations is None:
        raise Invalid(message)
    declarations.problems.append(problem_at(declared_at(), message))


def problem_at(where: SourceLine, message: str) -> DefinitionProblem:
    """The problem with `message` at a line."""
    return DefinitionProblem(where.file, where.line, message)


def raised_at(failure: BaseException, folder: Path) -> SourceLine | None:
    """The innermost line below `folder` that led to an error."""
    for frame in reversed(traceback.extract_tb(failure.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return SourceLine(relative_file(frame.filename, folder), frame.lineno or 0)
    return None


def relative_file(file: str, folder: Path | None) -> str:
    """`file` relative to `folder`, if it is below it, with slashes."""
    path = Path(file)
    if folder is not None and path.is_relative_to(folder):
        path = path.relative_to(folder)
    return path.as_posix()


def _calling_line(folder: Path | None) -> SourceLine:
    """The innermost line below `folder`; without a folder, the line that called this package."""
    frame = inspect.currentframe()
    while frame is not None and not _is_user_code(frame, folder):
        frame = frame.f_back
    if frame is None:
        return NOWHERE
    return SourceLine(relative_file(frame.f_code.co_filename, folder), frame.f_lineno)


def _is_user_code(frame: FrameType, folder: Path | None) -> bool:
    file = frame.f_code.co_filename
    if folder is not None:
        return Path(file).is_relative_to(folder)
    return not file.startswith(_PACKAGE)


def reject_missing_call(decorator: str, example: str, function: object) -> Callable[[F], F]:
    """Report `@asset` in place of `@asset("gold.spend")`: it was called with the function itself."""
    name = getattr(function, "__name__", repr(function))
    report_problem(f"@{decorator} above {name!r} declares nothing: write @{decorator}({example})")
    return cast("Callable[[F], F]", function)  # the function stays as it was


def require_plain_function(function: Callable[..., object]) -> None:
    """Report a function whose call would only create a coroutine or a generator."""
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        report_problem(f"{name!r} is an `async def`, which is never awaited: write a plain `def`")
    elif inspect.isgeneratorfunction(function):
        report_problem(f"{name!r} has a `yield`, so calling it does nothing: write `return`")


def declared_name(name: object) -> str:
    """The qualified name of a table in a declaration; a wrong name is reported and returned unchanged."""
    if not isinstance(name, str):
        report_problem(f"the name of a table is a text such as 'silver.orders', not {name!r}")
        return repr(name)
    try:
        return qualified_name(name)
    except Invalid as wrong:
        report_problem(str(wrong))
        return name
